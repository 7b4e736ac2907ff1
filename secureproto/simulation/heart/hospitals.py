"""Giving each of the four hospitals its own CSV file, as if it had always had it.

Invariants: a hospital's file holds its own rows only, in the order of the source, with an `id` column that no
two hospitals share; the values and the `split` column are those of the source, byte for byte.
"""

import csv
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType

from secureproto.errors import Conflict, Misconfigured

SPLIT_COLUMN = "split"
ID_COLUMN = "id"

# site id → what the place is called
HOSPITALS = MappingProxyType(
    {
        "cleveland": "Cleveland Clinic Foundation",
        "hungary": "Hungarian Institute of Cardiology, Budapest",
        "switzerland": "University Hospitals, Zurich and Basel",
        "long-beach": "V.A. Medical Center, Long Beach",
    }
)


def data_path() -> Path:
    """The CSV file of all hospitals, as it is installed."""
    return _installed("heart_disease.csv")


def study_path() -> Path:
    """The study file of the demo, as it is installed."""
    return _installed("study.toml")


def licence_path() -> Path:
    """Origin, licence and published results of the data, as installed."""
    return _installed("README.md")


def write_hospital(site: str, path: Path) -> int:
    """Write the rows of one hospital to `path` and return their number. Columns: id, then the source's own.

    Raises:
        Misconfigured: there is no such hospital.
    """
    if site not in HOSPITALS:
        raise Misconfigured(f"no hospital {site!r}", hint=f"one of: {', '.join(HOSPITALS)}")
    with data_path().open(encoding="utf-8", newline="") as source:
        reader = csv.DictReader(source)
        columns = [name for name in reader.fieldnames or () if name != "site"]
        rows = [row for row in reader if row["site"] == site.replace("-", "_")]
    with path.open("w", encoding="utf-8", newline="") as target:
        writer = csv.DictWriter(target, [ID_COLUMN, *columns], extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        for number, row in enumerate(rows, start=1):
            writer.writerow({ID_COLUMN: f"{site}-{number:03d}", **row})
    return len(rows)


def write_example(directory: Path) -> list[Path]:
    """Write the study file and one CSV file a hospital into a new directory; returns their paths.

    Raises:
        Conflict: the directory is there already.
    """
    try:
        directory.mkdir(parents=True)
    except FileExistsError:
        raise Conflict(f"{directory} is there already", hint="name a new directory") from None
    study = directory / "study.toml"
    study.write_bytes(study_path().read_bytes())
    written = [study]
    for site in HOSPITALS:
        path = directory / f"{site}.csv"
        write_hospital(site, path)
        written.append(path)
    return written


def _installed(name: str) -> Path:
    return Path(str(files(__package__).joinpath(name)))

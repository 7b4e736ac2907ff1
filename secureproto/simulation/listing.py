"""What there is to choose from: methods with their settings, data sets, partitions; and example study files."""

from dataclasses import fields
from pathlib import Path

from secureproto.errors import Conflict, Unavailable
from secureproto.simulation.baselines.catalogue import METHODS, sections_of
from secureproto.simulation.data.catalogue import example_study, known
from secureproto.simulation.partition.spec import schemes


def listing() -> list[dict[str, object]]:
    """One row a method, data set and partition."""
    found: list[dict[str, object]] = []
    for name, kind in METHODS.items():
        own = [f"{field.name}={field.default}" for field in fields(kind) if field.name != "study"]
        own += [f"keys of {', '.join(f'[{section}]' for section in sections_of(name))}"] if name != "majority" else []
        found.append({"what": "method", "name": name, "takes": ", ".join(own), "about": kind.title})
    for data in known():
        found.append({"what": "data", "name": data.name, "takes": f"files: {data.files}", "about": data.title})
    for scheme in schemes():
        found.append({"what": "partition", "name": scheme.name, "takes": scheme.form, "about": scheme.summary})
    return found


def write_example_study(data: str, target: Path) -> None:
    """Write the study file that comes with a built-in data set.

    Raises:
        Misconfigured: there is no such set. Conflict: the file is there already. Unavailable: the disk refuses.
    """
    text = example_study(data).read_bytes()
    try:
        with target.open("xb") as file:
            file.write(text)
    except FileExistsError:
        raise Conflict(f"{target} is there already", hint="give another name: nothing is overwritten") from None
    except OSError as error:
        raise Unavailable(
            f"cannot write {target}: {error.strerror}", hint="check the path, its owner and the disk"
        ) from None

"""A partition as a file: `partition.json`, so that another comparison, or another person, stands on the same rows.

One JSON object: `format`, `digest`, `scheme`, `pool` (digest of the records), `repeated`, `options` (their seed left
out) and `partitions`: for each its `seed` and, by site, the rows of `train`, `test` and `validation` and the `shift`.
`digest` is SHA-256, under the label `format`, over the canonical bytes of all the other keys (`wire.canonical`, which
has no floats: shares, gains and offsets are texts). The file holds row numbers and names of sites, no record.

Invariant: what is loaded is what was saved, of the same records, or an error.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict
from math import isfinite
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from secureproto.errors import Conflict, IntegrityBroken, Misconfigured
from secureproto.regular import read_regular
from secureproto.simulation.disk import read_owned
from secureproto.simulation.partition.division import Divisions, Options, Partition, Split
from secureproto.simulation.population import Pool, Rows, SiteRows, can_name_a_site
from secureproto.simulation.shift import Shift
from secureproto.wire import canonical

FORMAT = "secureproto/v1/partition"


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Shift(_Part):
    gain: str
    offset: str
    quarter_turns: int


_RowList = list[Annotated[int, Field(ge=0)]]


class _Site(_Part):
    train: _RowList
    test: _RowList
    validation: _RowList
    shift: _Shift | None


class _Draw(_Part):
    seed: int
    sites: dict[str, _Site]


class _Options(_Part):
    sites: int | None
    per_site: int | None
    split: Split
    test_share: str
    validation_share: str
    minimum: int


class _File(_Part):
    format: Literal["secureproto/v1/partition"]
    scheme: str
    pool: str
    repeated: bool
    options: _Options
    partitions: Annotated[list[_Draw], Field(min_length=1)]


def save(divisions: Divisions, path: Path) -> str:
    """Write a file and return its digest."""
    path.write_bytes(encode(divisions))
    return digest_of(divisions)


def encode(divisions: Divisions) -> bytes:
    """The bytes of a file."""
    return canonical.encode({**_content(divisions), "digest": digest_of(divisions)}) + b"\n"


def check(path: Path, digest: str) -> None:
    """Raise IntegrityBroken unless the file is the partition of this digest, as it was saved; Unavailable if it may
    not be read."""
    read_owned(path)
    try:
        content = _verified(path)
    except Misconfigured as error:
        raise IntegrityBroken(error.message, hint="restore it, or run again elsewhere") from None
    if canonical.labelled_digest(FORMAT, canonical.encode(content)) != digest:
        raise IntegrityBroken(
            f"{path} is not the partition of this experiment", hint="restore it, or run again elsewhere"
        )


def digest_of(divisions: Divisions) -> str:
    """Hex SHA-256 of the content, the same as in the file."""
    return canonical.labelled_digest(FORMAT, canonical.encode(_content(divisions)))


def load(path: Path, pool: Pool, *, digest: str | None = None) -> Divisions:
    """Read a file that was saved for the records of `pool`; `digest`: the pool's, where it is known.

    Raises:
        Misconfigured: there is no such file, or it is none of ours.
        IntegrityBroken: the content is not what was saved.
        Conflict: it divides other records.
    """
    content = _verified(path)
    try:
        read = _File.model_validate(content)
        divisions = Divisions(tuple(_partition(read, each) for each in read.partitions), read.repeated)
    except (ValidationError, ValueError, Misconfigured):
        raise Misconfigured(f"{path} is not a partition that was saved", hint="draw it again") from None
    if read.pool != (pool.digest() if digest is None else digest):
        raise Conflict(f"{path} divides other records than these", hint="give the data it was drawn from")
    if max(_highest(each) for each in read.partitions) >= len(pool.records):
        raise Misconfigured(f"{path} has rows that these records do not have", hint="draw it again")
    for each in read.partitions:
        _demand_apart(path, each)
    return divisions


def _demand_apart(path: Path, draw: _Draw) -> None:
    """No row is learned from or chosen by twice, or scored on as well. Sites may share rows that are scored on."""
    sites = draw.sites.values()
    learned = [row for site in sites for row in (*site.train, *site.validation)]
    scored = {row for site in sites for row in site.test}
    twice = len(learned) - len(set(learned))
    if twice or any(len(set(site.test)) < len(site.test) for site in sites):
        raise Misconfigured(f"{path}: seed {draw.seed}: a row stands there twice", hint="draw it again")
    if not scored.isdisjoint(learned):
        raise Misconfigured(
            f"{path}: seed {draw.seed}: a row to test by is one to train or to validate by as well",
            hint="scores on it would mean nothing: draw it again",
        )


def _content(divisions: Divisions) -> dict[str, object]:
    first = divisions.partitions[0]
    options = asdict(first.options)
    del options["seed"]
    for share in ("test_share", "validation_share"):
        options[share] = repr(options[share])
    return {
        "format": FORMAT,
        "scheme": first.scheme,
        "pool": first.pool,
        "repeated": divisions.repeated,
        "options": options,
        "partitions": [{"seed": each.options.seed, "sites": _sites(each.sites)} for each in divisions.partitions],
    }


def _sites(sites: Mapping[str, SiteRows]) -> dict[str, object]:
    return {
        site: {
            "train": rows.train.tolist(),
            "test": rows.test.tolist(),
            "validation": rows.validation.tolist(),
            "shift": None if rows.shift is None else _texts(rows.shift),
        }
        for site, rows in sites.items()
    }


def _texts(shift: Shift) -> dict[str, object]:
    return {"gain": repr(shift.gain), "offset": repr(shift.offset), "quarter_turns": shift.quarter_turns}


def _verified(path: Path) -> dict[str, object]:
    """The content of a file without its digest, which it keeps."""
    try:
        content = json.loads(read_regular(path))
    except OSError as error:
        raise Misconfigured(f"{path} cannot be read: {error.strerror}", hint="name a partition.json") from None
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise Misconfigured(f"{path} is not a partition that was saved", hint=f"its format is {FORMAT}")
    digest = content.pop("digest", None)
    try:
        found = canonical.labelled_digest(FORMAT, canonical.encode(content))
    except ValueError:
        found = None
    if found is None or digest != found:
        raise IntegrityBroken(f"{path} was changed after it was saved", hint="draw the partition again")
    return content


def _partition(read: _File, draw: _Draw) -> Partition:
    asked = read.options
    options = Options(
        sites=asked.sites,
        per_site=asked.per_site,
        split=asked.split,
        test_share=float(asked.test_share),
        validation_share=float(asked.validation_share),
        seed=draw.seed,
        minimum=asked.minimum,
    )
    if not read.scheme.isprintable() or not all(map(can_name_a_site, draw.sites)):
        raise ValueError("a text that could not have been saved")
    sites = {name: _site(draw.sites[name]) for name in sorted(draw.sites)}
    return Partition(read.scheme, options, read.pool, sites)


def _site(site: _Site) -> SiteRows:
    said = site.shift
    shift = None if said is None else Shift(float(said.gain), float(said.offset), said.quarter_turns)
    if shift is not None and not (isfinite(shift.gain) and isfinite(shift.offset)):
        raise ValueError("a shift that could not have been saved")
    return SiteRows(_rows(site.train), _rows(site.test), _rows(site.validation), shift)


def _rows(rows: list[int]) -> Rows:
    return np.array(rows, dtype=np.int64)


def _highest(draw: _Draw) -> int:
    """The highest row number."""
    parts = (part for site in draw.sites.values() for part in (site.train, site.test, site.validation))
    return max((max(part) for part in parts if part), default=0)

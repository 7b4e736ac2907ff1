"""What reading a simulation's data gives, and what a person may say about files of their own.

Invariant: a record that is not in the pool is counted, and the place of the first of them is noted; never a value.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from secureproto.data.source import Isolated
from secureproto.errors import Misconfigured
from secureproto.simulation.population import Pool


@dataclass(frozen=True)
class SourceOptions:
    """How the user's own files are to be read; a published data set takes none of it.

    `site_column`: the CSV column (or array of an archive) that names a record's site. `split_column`: the one that
    holds "train", "test", or nothing for neither. `delimiter`: of CSV files.

    Raises:
        Misconfigured: a delimiter that is not one character.
    """

    site_column: str | None = None
    split_column: str | None = None
    delimiter: str = ","

    def __post_init__(self) -> None:
        if len(self.delimiter) != 1:
            raise Misconfigured(f"delimiter {self.delimiter!r}: not one character", hint='as in "," or ";"')


@dataclass(frozen=True, eq=False)
class Reading:
    """The pool, and what is not in it: `left_out` counts records by reason, `notes` are the places of the first of
    them, `clamped` counts values outside the study's range by feature."""

    pool: Pool
    left_out: Mapping[Isolated, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    clamped: Mapping[str, int] = field(default_factory=dict)

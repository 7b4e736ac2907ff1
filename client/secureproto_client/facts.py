"""What a site holds on to between runs, beside its rounds: pins, versions, signed times, the log's last checkpoint.

Invariants: a study's digest is pinned by the first acceptance and never changes; a version is noted only after it
is on the disk; the high-water mark of signed times never falls; the witnessed log never shrinks or forks.
"""

from dataclasses import dataclass

from secureproto.errors import IntegrityBroken
from secureproto_client.database import Database


@dataclass(frozen=True)
class Pin:
    """What a study was when the site accepted it."""

    study: str
    study_digest: str
    schema_digest: str
    descriptor_digest: str


@dataclass(frozen=True)
class Installed:
    """A version that the site has received. `final`: no further round of the study follows."""

    study: str
    version: int
    round: int
    final: bool


class Facts:
    """Durable facts in the site's database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def pin(self, pin: Pin) -> None:
        """Pin a study. Raises IntegrityBroken when it is pinned as something else."""
        self.demand_pinned(pin)
        with self._database.transaction():
            self._database.write(
                "INSERT OR IGNORE INTO pins VALUES (?, ?, ?, ?)",
                pin.study, pin.study_digest, pin.schema_digest, pin.descriptor_digest,
            )  # fmt: skip

    def demand_pinned(self, pin: Pin) -> None:
        """Raises IntegrityBroken when the study is pinned as something else."""
        known = self.pinned(pin.study)
        if known is not None and known != pin:
            raise IntegrityBroken(
                f"study {pin.study} has digest {pin.study_digest[:16]}, this site accepted {known.study_digest[:16]}",
                hint="a study never changes: ask the operator what was replaced, and by whom",
            )

    def pinned(self, study: str) -> Pin | None:
        """What the site accepted under that name."""
        found = self._database.row("SELECT * FROM pins WHERE study = ?", study)
        return Pin(*found) if found else None

    def pins(self) -> list[Pin]:
        """Every study the site has accepted, by name."""
        return [Pin(*found) for found in self._database.rows("SELECT * FROM pins ORDER BY study")]

    def install(self, installed: Installed) -> None:
        """Note a version that is on the disk."""
        with self._database.transaction():
            self._database.write(
                "INSERT OR REPLACE INTO versions VALUES (?, ?, ?, ?)",
                installed.study, installed.version, installed.round, int(installed.final),
            )  # fmt: skip

    def latest(self, study: str) -> Installed | None:
        """The newest version received."""
        query = "SELECT study, version, round, final FROM versions WHERE study = ? ORDER BY version DESC LIMIT 1"
        found = self._database.row(query, study)
        return Installed(found[0], found[1], found[2], bool(found[3])) if found else None

    def number(self, name: str) -> int:
        """A whole number kept under `name`; 0 when there is none."""
        return int(self.text(name) or 0)

    def raise_number(self, name: str, value: int) -> None:
        """Keep `value` under `name` if it is larger than what is there."""
        if value > self.number(name):
            self.keep(name, str(value))

    def text(self, name: str) -> str:
        """The text kept under `name`; empty when there is none."""
        found = self._database.row("SELECT value FROM facts WHERE name = ?", name)
        return str(found[0]) if found else ""

    def keep(self, name: str, value: str) -> None:
        """Keep a text under `name`."""
        self.keep_all({name: value})

    def keep_all(self, values: dict[str, str]) -> None:
        """Keep several texts, all or none."""
        with self._database.transaction():
            for name, value in values.items():
                self._database.write("INSERT OR REPLACE INTO facts VALUES (?, ?)", name, value)

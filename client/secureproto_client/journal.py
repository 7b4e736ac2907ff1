"""The site's memory of its rounds: what makes a site killed at any step take up the round, and never answer twice.

        start            seal             send            receipt
    (none) ──▶ started ──────▶ sealed ─────────▶ sent ─────────▶ done
                 │ ▲ │            │                │
                 └─┘ │            └──────┬─────────┘
             attempt+1▼ decline          ▼ close
                   declined            closed        (the round ended, or was refused, without our upload)

Invariants, each kept by one transaction per move:
- a round has at most one manifest, ever: once `sealed` the bytes are fixed, and there is no move back to `started`;
- nothing is sent before `sent` is on the disk, and only the sealed bytes are;
- `done`, `declined` and `closed` are final: such a round is never trained, sealed or sent again.
"""

from dataclasses import dataclass
from enum import StrEnum

from secureproto.errors import Conflict
from secureproto_client.database import Database


class State(StrEnum):
    """How far the site is with a round."""

    STARTED = "started"
    SEALED = "sealed"
    SENT = "sent"
    DONE = "done"
    DECLINED = "declined"
    CLOSED = "closed"


OPEN = frozenset({State.STARTED, State.SEALED, State.SENT})
LEGAL: dict[State | None, frozenset[State]] = {
    None: frozenset({State.STARTED, State.DECLINED, State.CLOSED}),
    State.STARTED: frozenset({State.STARTED, State.SEALED, State.DECLINED, State.CLOSED}),
    State.SEALED: frozenset({State.SENT, State.CLOSED}),
    State.SENT: frozenset({State.SENT, State.DONE, State.CLOSED}),
    State.DONE: frozenset(),
    State.DECLINED: frozenset(),
    State.CLOSED: frozenset(),
}


@dataclass(frozen=True)
class RoundRow:
    """One round of one study. `body` is the name of the sealed file in the outbox."""

    study: str
    round: int
    state: State
    attempt: int
    base_version: int
    manifest: bytes | None
    body: str | None
    receipt: bytes | None
    reason: str

    @property
    def sealed(self) -> tuple[bytes, str]:
        """Manifest and body of a sealed round. Raises ValueError before it is sealed."""
        if self.manifest is None or self.body is None:
            raise ValueError(f"round {self.round} is not sealed")
        return self.manifest, self.body


_COLUMNS = "study, round, state, attempt, base_version, manifest, body, receipt, reason"


class Journal:
    """Rounds and their outcomes in the site's database. Every move is one durable transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def start(self, study: str, number: int, base_version: int) -> int:
        """A training attempt begins; returns its number, from 1. Raises Conflict after sealing."""
        with self._database.transaction():
            before = self._move(study, number, State.STARTED)
            attempt = before.attempt + 1 if before else 1
            self._database.write(
                "INSERT INTO rounds (study, round, state, attempt, base_version) VALUES (?, ?, ?, ?, ?)"
                " ON CONFLICT DO UPDATE SET attempt = excluded.attempt, base_version = excluded.base_version",
                study, number, State.STARTED, attempt, base_version,
            )  # fmt: skip
        return attempt

    def seal(self, study: str, number: int, manifest: bytes, body: str) -> None:
        """The update is sealed, its file on the disk: from here on these bytes or none. Raises Conflict."""
        with self._database.transaction():
            self._move(study, number, State.SEALED)
            self._database.write(
                "UPDATE rounds SET state = ?, manifest = ?, body = ? WHERE study = ? AND round = ?",
                State.SEALED, manifest, body, study, number,
            )  # fmt: skip

    def send(self, study: str, number: int) -> None:
        """The first byte is about to leave. Raises Conflict."""
        self._set(study, number, State.SENT)

    def finish(self, study: str, number: int, receipt: bytes) -> None:
        """The server's receipt is verified. Raises Conflict."""
        with self._database.transaction():
            self._move(study, number, State.DONE)
            self._database.write(
                "UPDATE rounds SET state = ?, receipt = ? WHERE study = ? AND round = ?",
                State.DONE, receipt, study, number,
            )  # fmt: skip

    def decline(self, study: str, number: int, reason: str) -> None:
        """The site says no to the round: fixed before the refusal is sent. Raises Conflict."""
        self._end(study, number, State.DECLINED, reason)

    def acknowledge(self, study: str, number: int) -> None:
        """The server has the refusal."""
        with self._database.transaction():
            self._database.write(
                "UPDATE rounds SET receipt = ? WHERE study = ? AND round = ? AND state = ?",
                b"", study, number, State.DECLINED,
            )  # fmt: skip

    def close(self, study: str, number: int, reason: str) -> None:
        """The round ended without our upload. Raises Conflict."""
        self._end(study, number, State.CLOSED, reason)

    def row(self, study: str, number: int) -> RoundRow | None:
        """What is known of a round."""
        found = self._database.row(f"SELECT {_COLUMNS} FROM rounds WHERE study = ? AND round = ?", study, number)  # noqa: S608 - constant columns
        return _row(found) if found else None

    def rounds(self) -> list[RoundRow]:
        """All rounds, by study and number."""
        query = f"SELECT {_COLUMNS} FROM rounds ORDER BY study, round"  # noqa: S608 - constant columns
        return [_row(found) for found in self._database.rows(query)]

    def unsent(self) -> list[RoundRow]:
        """Rounds that are sealed and have no receipt yet."""
        return [row for row in self.rounds() if row.state in (State.SEALED, State.SENT)]

    def answered(self, study: str) -> int:
        """The last round of a study that the server has this site's answer to, or that is over; -1: none."""
        found = self._database.row(
            "SELECT max(round) FROM rounds WHERE study = ?"
            " AND (state IN (?, ?) OR (state = ? AND receipt IS NOT NULL))",
            study, State.DONE, State.CLOSED, State.DECLINED,
        )  # fmt: skip
        return -1 if found is None or found[0] is None else int(found[0])

    def outcome(self, study: str, number: int, outcome: str, version: int) -> None:
        """How a round ended. An open round that ended without our receipt is closed with it."""
        with self._database.transaction():
            self._database.write(
                "INSERT OR REPLACE INTO outcomes VALUES (?, ?, ?, ?)", study, number, outcome, version
            )
            before = self.row(study, number)
            if before and before.state in OPEN:
                self._close(study, number, State.CLOSED, outcome)

    def last_outcome(self, study: str) -> int:
        """The last round of a study whose outcome is known; -1: none."""
        found = self._database.row("SELECT max(round) FROM outcomes WHERE study = ?", study)
        return -1 if found is None or found[0] is None else int(found[0])

    def outcomes(self) -> dict[tuple[str, int], str]:
        """How each round ended, by study and number."""
        found = self._database.rows("SELECT study, round, outcome FROM outcomes")
        return {(study, number): outcome for study, number, outcome in found}

    def _set(self, study: str, number: int, state: State) -> None:
        with self._database.transaction():
            self._move(study, number, state)
            self._database.write("UPDATE rounds SET state = ? WHERE study = ? AND round = ?", state, study, number)

    def _end(self, study: str, number: int, state: State, reason: str) -> None:
        with self._database.transaction():
            self._move(study, number, state)
            self._close(study, number, state, reason)

    def _close(self, study: str, number: int, state: State, reason: str) -> None:
        self._database.write(
            "INSERT INTO rounds (study, round, state, attempt, base_version, reason) VALUES (?, ?, ?, 0, -1, ?)"
            " ON CONFLICT DO UPDATE SET state = excluded.state, reason = excluded.reason",
            study, number, state, reason,
        )  # fmt: skip

    def _move(self, study: str, number: int, state: State) -> RoundRow | None:
        """The row as it is, if the move to `state` is legal. Raises Conflict."""
        before = self.row(study, number)
        now = before.state if before else None
        if state not in LEGAL[now]:
            raise Conflict(f"round {number} of {study} is {now or 'unknown'} here and cannot become {state}")
        return before


def _row(found: tuple[object, ...]) -> RoundRow:
    study, number, state, *rest = found
    return RoundRow(study, number, State(str(state)), *rest)  # type: ignore[arg-type]  # STRICT tables type these

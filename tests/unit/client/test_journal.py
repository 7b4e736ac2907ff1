"""The journal's moves, the facts beside it, and the file they lie in."""

import sqlite3
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from secureproto.errors import Conflict, IntegrityBroken, Misconfigured
from secureproto_client.database import Database
from secureproto_client.facts import Facts, Installed, Pin
from secureproto_client.journal import LEGAL, Journal, State

MOVES = {
    State.STARTED: lambda journal: journal.start("s", 1, 0),
    State.SEALED: lambda journal: journal.seal("s", 1, b"manifest", "body"),
    State.SENT: lambda journal: journal.send("s", 1),
    State.DONE: lambda journal: journal.finish("s", 1, b"receipt"),
    State.DECLINED: lambda journal: journal.decline("s", 1, "no"),
    State.CLOSED: lambda journal: journal.close("s", 1, "late"),
}
WAY = {
    None: [],
    State.STARTED: [State.STARTED],
    State.SEALED: [State.STARTED, State.SEALED],
    State.SENT: [State.STARTED, State.SEALED, State.SENT],
    State.DONE: [State.STARTED, State.SEALED, State.SENT, State.DONE],
    State.DECLINED: [State.DECLINED],
    State.CLOSED: [State.CLOSED],
}


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = Database(tmp_path / "journal.db")
    yield opened
    opened.close()


@pytest.mark.parametrize(("before", "after"), list(product(WAY, State)))
def test_every_move_is_legal_or_refused(database: Database, before: State | None, after: State) -> None:
    journal = Journal(database)
    for move in WAY[before]:
        MOVES[move](journal)
    if after in LEGAL[before]:
        MOVES[after](journal)
        row = journal.row("s", 1)
        assert row is not None
        assert row.state is after
    else:
        with pytest.raises(Conflict):
            MOVES[after](journal)
        row = journal.row("s", 1)
        assert (row.state if row else None) is before


def test_sealed_bytes_stay(database: Database) -> None:
    journal = Journal(database)
    assert [journal.start("s", 1, 4), journal.start("s", 1, 4)] == [1, 2]
    journal.seal("s", 1, b"manifest", "body")
    assert [row.sealed for row in journal.unsent()] == [(b"manifest", "body")]
    with pytest.raises(Conflict):
        journal.seal("s", 1, b"other", "other")
    journal.send("s", 1)
    assert journal.unsent()[0].sealed == (b"manifest", "body")


def test_a_refusal_is_an_answer_once_the_server_has_it(database: Database) -> None:
    journal = Journal(database)
    journal.decline("s", 3, "data_unusable")
    assert journal.answered("s") == -1
    journal.acknowledge("s", 3)
    assert journal.answered("s") == 3


@pytest.mark.parametrize("state", [State.STARTED, State.SEALED, State.SENT])
def test_an_outcome_closes_what_was_open(database: Database, state: State) -> None:
    journal = Journal(database)
    for move in WAY[state]:
        MOVES[move](journal)
    journal.outcome("s", 1, "quorum_missed", 0)
    row = journal.row("s", 1)
    assert row is not None
    assert (row.state, row.reason, journal.last_outcome("s")) == (State.CLOSED, "quorum_missed", 1)


def test_what_was_committed_is_there_after_a_reopening(tmp_path: Path) -> None:
    first = Database(tmp_path / "j.db")
    Journal(first).start("s", 1, 0)
    first.close()
    second = Database(tmp_path / "j.db")
    assert Journal(second).start("s", 1, 0) == 2
    second.close()
    assert (tmp_path / "j.db").stat().st_mode & 0o777 == 0o600


def test_a_transaction_is_all_or_nothing(database: Database) -> None:
    facts = Facts(database)

    def half() -> None:
        with database.transaction():
            database.write("INSERT INTO facts VALUES ('a', '1')")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        half()
    assert facts.text("a") == ""


def test_another_schema_version_is_refused(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "j.db")
    connection.execute("PRAGMA user_version = 9")
    connection.close()
    with pytest.raises(Misconfigured, match="schema version 9, this program knows 1"):
        Database(tmp_path / "j.db")


def test_what_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "j.db").write_bytes(b"no database at all, but long enough to be taken for one" * 20)
    with pytest.raises(Misconfigured, match="not the site's journal"):
        Database(tmp_path / "j.db")


def test_facts_are_pinned_and_only_grow(database: Database) -> None:
    facts = Facts(database)
    pin = Pin("s", "a" * 64, "b" * 64, "c" * 64)
    facts.pin(pin)
    facts.pin(pin)
    with pytest.raises(IntegrityBroken, match="this site accepted aaaa"):
        facts.pin(Pin("s", "d" * 64, "b" * 64, "c" * 64))
    assert facts.pins() == [pin]
    facts.raise_number("mark", 5)
    facts.raise_number("mark", 3)
    assert facts.number("mark") == 5
    facts.install(Installed("s", 1, 0, False))
    facts.install(Installed("s", 2, 1, True))
    assert facts.latest("s") == Installed("s", 2, 1, True)
    assert facts.latest("other") is None

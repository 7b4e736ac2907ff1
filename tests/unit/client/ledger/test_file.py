"""The ledger file: what is refused, by which family, in one line; and that a refusal changes nothing."""

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from secureproto.errors import Conflict, IntegrityBroken, Misconfigured, SecureProtoError, Unavailable
from secureproto.privacy.ledger.charging import Charging
from secureproto.privacy.ledger.entries import Reserved, parse
from secureproto_client.ledger import schema
from secureproto_client.ledger.file import SqliteLedger, read
from secureproto_client.ledger.schema import Expected
from support.ledgers import DATA_SET, NOW, SITE, START, claim, committed, counting, hex_id, link, opened

EXPECTED = Expected(SITE, DATA_SET, opened().ledger)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A closed ledger of one round, five entries."""
    ledger = SqliteLedger.create(tmp_path / "l", opened())
    committed(Charging(ledger), claim())
    ledger.close()
    return tmp_path / "l"


@pytest.fixture
def ledger(path: Path) -> Iterator[SqliteLedger]:
    ledger = SqliteLedger.open(path, EXPECTED)
    yield ledger
    ledger.close()


def refused(path: Path, family: type[SecureProtoError], what: str, expected: Expected = EXPECTED) -> None:
    """Writer and reader both say so, in one line with a hint, and the file is as it was."""
    before = path.read_bytes() if path.is_file() else None
    for use in (SqliteLedger.open, read):
        with pytest.raises(family, match=what) as caught:
            use(path, expected)
        assert type(caught.value) is family
        assert "\n" not in caught.value.message
        assert caught.value.hint
    assert (path.read_bytes() if path.is_file() else None) == before


def test_what_was_appended_is_there_after_reopening(path: Path) -> None:
    ledger = SqliteLedger.open(path, EXPECTED)
    committed(Charging(ledger), claim(1))
    state, entries = ledger.state, ledger.entries()
    ledger.close()
    again = SqliteLedger.open(path, EXPECTED)
    assert (again.state, again.entries()) == (state, entries)
    assert all(again.find(entry.digest()) for entry in entries)
    again.close()
    assert read(path, EXPECTED) == (state, entries)


def test_files_are_private_and_one_is_the_whole_ledger(path: Path) -> None:
    assert path.stat().st_mode & 0o777 == 0o600
    assert sorted(each.name for each in path.parent.iterdir()) == ["l", "l.lock"]


def test_commits_are_flushed_and_there_is_no_second_file(ledger: SqliteLedger) -> None:
    def pragma(name: str) -> Any:
        return ledger._run(f"PRAGMA {name}")[0][0]

    assert pragma("journal_mode") == "delete"
    assert pragma("synchronous") == 3  # EXTRA


def test_no_ledger_is_misconfigured(tmp_path: Path) -> None:
    refused(tmp_path / "none", Misconfigured, "no ledger at")
    refused(tmp_path, Misconfigured, "not a plain file")
    with pytest.raises(Misconfigured, match="cannot open"):
        SqliteLedger.open(tmp_path / "nowhere" / "l", EXPECTED)
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    refused(tmp_path / "link", Misconfigured, "not a plain file")


@pytest.mark.parametrize("size", [0, 1, 99])
def test_an_empty_or_very_short_file_is_broken(path: Path, size: int) -> None:
    os.truncate(path, size)
    refused(path, IntegrityBroken, f"cut off: it has {size} bytes")


@pytest.mark.parametrize("pages", [1, 2, -1])
@pytest.mark.parametrize("odd", [0, 17])
def test_a_truncated_file_is_broken(path: Path, pages: int, odd: int) -> None:
    ledger = SqliteLedger.open(path, EXPECTED)
    for number in range(1, 9):
        Charging(ledger).reserve(claim(number), counting(), NOW)
    ledger.close()
    page, size = 4096, path.stat().st_size
    assert size > 3 * page
    os.truncate(path, (pages * page if pages > 0 else size + pages * page) + odd)
    refused(path, IntegrityBroken, "damaged|does not hold|not as it was made")


def test_bytes_behind_the_end_are_broken(path: Path) -> None:
    with path.open("ab") as file:
        file.write(bytes(17))
    refused(path, IntegrityBroken, "its pages do not fit")


def test_garbage_is_broken(path: Path) -> None:
    path.write_bytes(os.urandom(8192))
    refused(path, IntegrityBroken, "not a database")


def test_every_byte_of_every_entry_counts(path: Path) -> None:
    whole = path.read_bytes()
    entries = read(path, EXPECTED)[1]
    for entry in entries:
        at = whole.index(entry.canonical())
        for place in range(0, len(entry.canonical()), 61):
            harmed = bytearray(whole)
            harmed[at + place] ^= 1
            path.write_bytes(harmed)
            with pytest.raises(IntegrityBroken):
                read(path, EXPECTED)


def edit(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM entries WHERE sequence = 2",
        "DELETE FROM entries",
        "UPDATE entries SET sequence = 9 WHERE sequence = 4",
        "UPDATE entries SET entry = x'00'",
        "INSERT OR REPLACE INTO entries VALUES (4, x'00', '')",
    ],
)
def test_entries_cannot_be_changed_by_mistake(path: Path, statement: str) -> None:
    before = read(path, EXPECTED)
    if "REPLACE" in statement:
        edit(path, "PRAGMA recursive_triggers = ON")
        with pytest.raises(sqlite3.IntegrityError, match="never removed"):
            edit_with_recursion(path, statement)
    else:
        with pytest.raises(sqlite3.IntegrityError, match="entries are never"):
            edit(path, statement)
    assert read(path, EXPECTED) == before


def edit_with_recursion(path: Path, statement: str) -> None:
    edit(path, "PRAGMA recursive_triggers = ON", statement)


def test_who_drops_the_triggers_is_found(path: Path) -> None:
    edit(path, "DROP TRIGGER no_change")
    refused(path, IntegrityBroken, "tables or triggers differ")


def remade(path: Path, *statements: str) -> None:
    """Statements by somebody who takes the triggers away and puts them back."""
    triggers = [statement for statement in schema.STATEMENTS if "TRIGGER" in statement]
    edit(path, "DROP TRIGGER no_change", "DROP TRIGGER no_removal", *statements, *triggers)


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("DELETE FROM entries WHERE sequence = 2", "entry 2 is missing"),
        ("DELETE FROM entries WHERE sequence = 0", "entry 0 is missing"),
        ("DELETE FROM entries", "holds no entry"),
        ("UPDATE entries SET entry = x'7b7d' WHERE sequence = 3", "entry 3: .*not in the form"),
        ("UPDATE entries SET digest = 'x' WHERE sequence = 4", "entry 4: it is not what was written"),
        (
            "UPDATE entries SET (entry, digest) = (SELECT entry, digest FROM entries WHERE sequence = 1)",
            "not the opening",
        ),
    ],
)
def test_a_chain_that_does_not_hold_is_broken(path: Path, statement: str, what: str) -> None:
    remade(path, statement)
    refused(path, IntegrityBroken, what)


@pytest.mark.parametrize("place", [1, 2, 3])
def test_an_entry_exchanged_with_its_digest_breaks_the_chain_behind_it(path: Path, place: int) -> None:
    other = read(path, EXPECTED)[1][place].model_copy(update={"salt": hex_id(99)})
    data = other.canonical().hex()
    remade(path, f"UPDATE entries SET entry = x'{data}', digest = '{other.digest()}' WHERE sequence = {place}")  # noqa: S608
    refused(path, IntegrityBroken, "does not follow")


def test_an_end_cut_off_entry_by_entry_needs_a_head_from_elsewhere(path: Path) -> None:
    remade(path, "DELETE FROM entries WHERE sequence = 4")
    assert len(read(path, EXPECTED)[1]) == 4  # a whole ledger, only older: SPEC.md, Anti-rollback


def test_another_programs_database_and_another_version_are_misconfigured(path: Path, tmp_path: Path) -> None:
    edit(path, f"PRAGMA user_version = {schema.SCHEMA_VERSION + 1}")
    refused(path, Misconfigured, "schema version 2, this program knows 1")
    edit(tmp_path / "other", "CREATE TABLE t (x)")
    refused(tmp_path / "other", Misconfigured, "not a ledger")


def test_another_sites_ledger_is_misconfigured_and_a_swapped_one_broken(path: Path) -> None:
    refused(path, Misconfigured, "is of site cleveland, this is hungary", Expected("hungary"))
    refused(path, IntegrityBroken, "not the one that belongs here", Expected(SITE, "e" * 32))
    refused(path, IntegrityBroken, "not the one that belongs here", Expected(SITE, DATA_SET, hex_id(7)))
    assert read(path, Expected(SITE))


def test_a_ledger_is_made_once(path: Path) -> None:
    before = path.read_bytes()
    with pytest.raises(Conflict, match="there is a ledger"):
        SqliteLedger.create(path, opened())
    assert path.read_bytes() == before


def test_only_a_first_entry_makes_a_ledger(tmp_path: Path) -> None:
    with pytest.raises(IntegrityBroken):
        SqliteLedger.create(tmp_path / "l", opened(sequence=1))
    assert list(tmp_path.iterdir()) == []


def test_a_closed_ledger_takes_nothing(ledger: SqliteLedger, path: Path) -> None:
    ledger.close()
    for use in (ledger.entries, lambda: Charging(ledger).reserve(claim(1), counting(), NOW)):
        with pytest.raises(Unavailable, match="open it again"):
            use()
    SqliteLedger.open(path, EXPECTED).close()  # the lock is free


def test_a_file_that_somebody_else_wrote_to_is_found(ledger: SqliteLedger, path: Path) -> None:
    entry = Reserved(claim=claim(1), time=START, **link(ledger.state))
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(schema.INSERT, (entry.sequence, entry.canonical(), entry.digest()))
    connection.close()
    with pytest.raises(IntegrityBroken, match="written to by another program"):
        Charging(ledger).reserve(claim(1), counting(), NOW)
    with pytest.raises(Unavailable, match="open it again"):
        Charging(ledger).reserve(claim(1), counting(), NOW)


def test_a_file_that_is_gone_is_found(ledger: SqliteLedger, path: Path) -> None:
    path.rename(path.with_name("moved"))
    with pytest.raises(IntegrityBroken, match="is gone"):
        Charging(ledger).reserve(claim(1), counting(), NOW)


def test_a_file_held_by_another_program_is_unavailable(
    ledger: SqliteLedger, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger._run("PRAGMA busy_timeout = 50")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(Unavailable, match="locked by another program"):
        Charging(ledger).reserve(claim(1), counting(), NOW)
    monkeypatch.setattr(schema, "BUSY_SECONDS", 0.05)
    with pytest.raises(Unavailable, match="locked by another program"):
        read(path, EXPECTED)
    other.execute("ROLLBACK")
    other.close()


def test_a_disk_that_became_read_only_is_misconfigured(ledger: SqliteLedger) -> None:
    ledger._run("PRAGMA query_only = ON")
    before = ledger.state
    with pytest.raises(Misconfigured, match="cannot be written"):
        Charging(ledger).reserve(claim(1), counting(), NOW)
    assert ledger.state == before
    ledger._run("PRAGMA query_only = OFF")
    assert Charging(ledger).reserve(claim(1), counting(), NOW)


READ_ONLY = """
import os, sys
from pathlib import Path
from secureproto.errors import SecureProtoError
from secureproto_client.ledger.file import SqliteLedger, read
from secureproto_client.ledger.schema import Expected
if os.geteuid() == 0:
    os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
path = Path(sys.argv[1])
print(len(read(path, Expected("cleveland"))[1]))
try:
    SqliteLedger.open(path, Expected("cleveland"))
except SecureProtoError as error:
    print(type(error).__name__, error.message)
"""


@pytest.mark.parametrize(("mode", "lock"), [(0o444, 0o666), (0o444, 0o444)])
def test_a_read_only_file_is_looked_at_and_not_written(path: Path, mode: int, lock: int) -> None:
    with TemporaryDirectory() as name:
        there = Path(name) / "l"
        Path(name).chmod(0o755)
        shutil.copy(path, there)
        there.chmod(mode)
        (Path(name) / "l.lock").touch()
        (Path(name) / "l.lock").chmod(lock)
        done = subprocess.run(
            [sys.executable, "-c", READ_ONLY, str(there)], capture_output=True, text=True, check=False, timeout=60
        )
    entries, refusal = done.stdout.splitlines()
    assert entries == "5", done.stderr
    assert refusal.startswith("Misconfigured")


class Stopping(Exception):
    """What a signal handler raises in the middle of an append."""


@pytest.mark.parametrize("after", ["BEGIN IMMEDIATE", schema.LAST, schema.INSERT, "COMMIT"])
def test_an_append_that_is_interrupted_is_nothing_or_ends_the_use(path: Path, after: str) -> None:
    class Interrupted(SqliteLedger):
        def _run(self, statement: str, *values: object) -> list[Any]:
            found = super()._run(statement, *values)
            if statement == after:
                raise Stopping
            return found

    ledger = Interrupted.open(path, EXPECTED)
    state = ledger.state
    with pytest.raises(Stopping):
        Charging(ledger).reserve(claim(1), counting(), NOW)
    assert ledger.state == state
    if after == "COMMIT":
        with pytest.raises(Unavailable, match="open it again"):
            Charging(ledger).reserve(claim(1), counting(), NOW)
    else:
        assert ledger.entries() == read(path, EXPECTED)[1]
    ledger.close()
    again = SqliteLedger.open(path, EXPECTED)
    assert len(again.entries()) == (6 if after == "COMMIT" else 5)
    again.close()


def test_stored_bytes_are_the_canonical_ones(path: Path) -> None:
    connection = sqlite3.connect(path)
    rows: list[tuple[bytes]] = connection.execute("SELECT entry FROM entries ORDER BY sequence").fetchall()
    connection.close()
    assert [parse(data) for (data,) in rows] == list(read(path, EXPECTED)[1])


def test_paths_may_hold_any_character(tmp_path: Path) -> None:
    use: Callable[[Path], None] = lambda path: SqliteLedger.create(path, opened()).close()  # noqa: E731
    for name in ("a b", "a?b#c", "ä%20", "x&mode=ro"):
        use(tmp_path / name)
        assert read(tmp_path / name, EXPECTED)

"""The schema that the migrations make is the schema of the tables."""

import re
import sqlite3
from pathlib import Path

import pytest
import sqlalchemy as sa

from secureproto.errors import Misconfigured
from secureproto_server.storage.migrate import differences, upgrade
from secureproto_server.storage.records import Meta
from secureproto_server.storage.sql import SqlStore, make_engine
from secureproto_server.storage.tables import metadata


def url_of(path: Path) -> str:
    return f"sqlite:///{path}"


def schema(path: Path) -> dict[str, set[str]]:
    """Each table's columns and constraints (checks too), as SQLite keeps them, in no order."""
    with sqlite3.connect(path) as database:
        rows = database.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall()
    database.close()
    tables = {}
    for name, sql in rows:
        body = sql.partition("(")[2].rpartition(")")[0]
        tables[name] = {re.sub(r"\s+", " ", part).strip() for part in re.split(r",\s*\n", body)}
    return tables


def test_migrations_and_tables_agree(tmp_path: Path) -> None:
    migrated, created = tmp_path / "migrated.db", tmp_path / "created.db"
    upgrade(url_of(migrated))
    assert differences(url_of(migrated)) == []
    engine = make_engine(url_of(created))
    with engine.begin() as connection:
        metadata.create_all(connection)
    engine.dispose()
    found = schema(migrated)
    del found["alembic_version"]
    assert found == schema(created)


def test_a_missing_column_is_a_difference(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    upgrade(url_of(path))
    with sqlite3.connect(path) as database:
        database.execute("ALTER TABLE sp_study DROP COLUMN created")
    database.close()
    assert "created" in str(differences(url_of(path)))


def test_upgrading_again_changes_nothing_and_keeps_the_rows(tmp_path: Path) -> None:
    url = url_of(tmp_path / "state.db")
    revision = upgrade(url)
    store = SqlStore(url)
    with store.transaction("write") as tx:
        tx.insert(Meta("epoch", "1"))
    store.close()
    assert upgrade(url) == revision
    store = SqlStore(url)
    with store.transaction("read") as tx:
        assert tx.get(Meta, "epoch") == Meta("epoch", "1")
    store.close()


def test_the_schema_of_a_newer_program_is_refused(tmp_path: Path) -> None:
    url = url_of(tmp_path / "state.db")
    upgrade(url)
    engine = make_engine(url)
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = 'r9999'"))
    engine.dispose()
    with pytest.raises(Misconfigured, match="r9999, which this program does not know"):
        upgrade(url)


def test_a_failed_upgrade_leaves_the_old_schema(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE sp_upload (in_the_way INTEGER)")
    database.close()
    with pytest.raises(Exception, match="failed in the database"):
        upgrade(url_of(path))
    assert set(schema(path)) == {"sp_upload"}


def test_every_revision_is_in_one_line() -> None:
    """No branches: what is missing is always clear."""
    from alembic.script import ScriptDirectory

    from secureproto_server.storage.migrate import MIGRATIONS

    script = ScriptDirectory(str(MIGRATIONS))
    assert len(script.get_heads()) == len(script.get_bases()) == 1

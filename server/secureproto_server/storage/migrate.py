"""Bring a database's schema to what this program needs, when the server starts."""

from pathlib import Path

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.engine import Connection

from secureproto.errors import Misconfigured
from secureproto_server.storage.sql import make_engine, translated
from secureproto_server.storage.tables import metadata

MIGRATIONS = Path(__file__).parent / "migrations"


def upgrade(url: str) -> str:
    """Apply the migrations that are missing, all in one transaction; returns the revision then in force.

    Raises:
        Misconfigured: the schema is of a newer program; nothing was changed.
        Unavailable: the database cannot be reached or written.
    """
    engine = make_engine(url)
    config = _config()
    try:
        with translated("upgrade"), engine.begin() as connection:
            _require_known(connection, config)
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
            return str(MigrationContext.configure(connection).get_current_revision())
    finally:
        engine.dispose()


def differences(url: str) -> list[str]:
    """How the database's schema differs from the tables of this program; empty when they agree."""
    engine = make_engine(url)
    try:
        with translated("compare schema"), engine.begin() as connection:
            context = MigrationContext.configure(connection, opts={"compare_type": True})
            return [str(difference) for difference in compare_metadata(context, metadata)]
    finally:
        engine.dispose()


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


def _require_known(connection: Connection, config: Config) -> None:
    current = MigrationContext.configure(connection).get_current_revision()
    known = {revision.revision for revision in ScriptDirectory.from_config(config).walk_revisions()}
    if current is not None and current not in known:
        raise Misconfigured(
            f"the database has schema {current}, which this program does not know",
            hint="start the newer program that wrote it, or restore a backup of this version",
        )

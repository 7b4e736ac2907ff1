"""Rows to test with: valid, small, and different only where a test says so."""

import sqlalchemy as sa

from secureproto_server.storage.records import (
    Round,
    Site,
    SiteState,
    Study,
    StudyState,
    Token,
    TokenState,
    Upload,
    UploadState,
)
from secureproto_server.storage.sql import make_engine


def a_site(site: str = "site-a", *, state: SiteState = SiteState.ACTIVE, last_seen: int | None = None) -> Site:
    signing, hpke, tls = (f"{use}-id-of-{site}" for use in ("signing", "hpke", "tls"))
    keys = [f"{use}-key-of-{site}" for use in ("signing", "hpke", "tls")]
    return Site(site, state, signing, hpke, tls, keys[0], keys[1], keys[2], 100, last_seen)


def a_study(study: str = "heart") -> Study:
    return Study(study, "d" * 64, b"{}", StudyState.OPEN, 0, 3, 0, 100)


def a_round(*, study: str = "heart", round: int = 0) -> Round:  # noqa: A002 - the protocol's word
    return Round(study, round, 0, "collect", 100, 200, 2, None, None)


def an_upload(*, manifest: bytes = b"manifest") -> Upload:
    return Upload("heart", 0, "site-a", "e" * 64, manifest, UploadState.RESERVED, None, None, "blob")


def a_token() -> Token:
    return Token("token-a", "site-a", "f" * 64, 100, 200, TokenState.ISSUED, None)


def drop_everything(url: str) -> None:
    """Empty a test database of PostgreSQL."""
    engine = make_engine(url)
    with engine.begin() as connection:
        for name in sa.inspect(connection).get_table_names():
            connection.execute(sa.text(f'DROP TABLE "{name}" CASCADE'))
    engine.dispose()

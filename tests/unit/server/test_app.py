"""What the server's process must not lose: a failure in work that nobody waits for."""

import asyncio
import logging
from pathlib import Path

import pytest

from secureproto.errors import Unavailable
from secureproto_server import app
from secureproto_server.http.guard import Refusal
from support.parts import Parts, parts_in


@pytest.fixture
def parts(tmp_path: Path) -> Parts:
    return parts_in(tmp_path)


def test_a_refusal_that_cannot_be_noted_is_told(
    parts: Parts, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise Unavailable("the database is gone")

    async def observe() -> None:
        observer = app._observer(parts.services, asyncio.get_running_loop())
        observer(Refusal(408, "too_slow", "slow"), {"path": "/v1/studies/small/rounds/0/manifest"})
        for _ in range(200):
            await asyncio.sleep(0.01)
            if caplog.records:
                return

    monkeypatch.setattr("secureproto_server.refusals.note", fails)
    with caplog.at_level(logging.ERROR, logger="secureproto.server"):
        asyncio.run(observe())
    assert "a refusal could not be noted: the database is gone" in caplog.text

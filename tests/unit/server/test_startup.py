"""What the server does not start with, and what it leaves then: nothing half written."""

from pathlib import Path

import pytest

from secureproto.clock import SystemClock
from secureproto.crypto.keys import generate_key
from secureproto.crypto.passphrase import read_passphrase
from secureproto.errors import IntegrityBroken, Rejected, Unavailable
from secureproto_server import settings
from secureproto_server.founding import Charter, found
from secureproto_server.routes.uploads import Uploads
from secureproto_server.startup import started


@pytest.mark.parametrize("name", ["signing.key", "hpke.key"])
def test_keys_that_the_root_document_does_not_name(tmp_path: Path, name: str) -> None:
    base, credentials = tmp_path / "federation", tmp_path / "credentials"
    found(base, Charter("testbed", ("localhost",), "alice", "Test Hospital"), credentials, SystemClock())
    values = settings.load(base / "server")
    with started(values, SystemClock(), public_url="https://localhost:1", accept_forward=False) as services:
        size = services.log.size(services.store)
    key = base / "server" / name
    kept = key.read_bytes()
    key.unlink()
    generate_key(key, read_passphrase("server", credentials))
    with (
        pytest.raises(IntegrityBroken, match="names other server keys"),
        started(values, SystemClock(), public_url="https://localhost:1", accept_forward=False),
    ):
        pytest.fail("it started")
    key.write_bytes(kept)
    with started(values, SystemClock(), public_url="https://localhost:1", accept_forward=False) as services:
        assert services.log.size(services.store) == size + 2  # stopped, started: and nothing in between


def test_the_settings_bound_what_is_stored_and_what_is_sent_at_once(tmp_path: Path) -> None:
    base, credentials = tmp_path / "federation", tmp_path / "credentials"
    found(base, Charter("testbed", ("localhost",), "alice", "Test Hospital"), credentials, SystemClock())
    bounds = {"upload_quota_bytes": 2**20, "global_uploads": 2, "site_uploads": 1}
    values = settings.load(base / "server").model_copy(update=bounds)
    with started(values, SystemClock(), public_url="https://localhost:1", accept_forward=False) as services:
        with services.blobs.spool("upload.x") as spool, pytest.raises(Rejected) as caught:
            spool.write(0, bytes(2**20 + 1))
        assert caught.value.reason == "quota"
        slots = Uploads(services)._slots
        with slots.taken("alpha"), pytest.raises(Rejected), slots.taken("alpha"):
            pytest.fail("a site may send one more than site_uploads")
        with slots.taken("alpha"), slots.taken("beta"), pytest.raises(Unavailable), slots.taken("gamma"):
            pytest.fail("one more is sent than global_uploads")

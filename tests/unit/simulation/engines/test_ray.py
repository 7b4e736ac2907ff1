"""Opening the engine of Ray: what it refuses, and how soon it says that nobody answers. No instance is started."""

import os
import signal
import socket
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from time import monotonic

import pytest

from secureproto.errors import Misconfigured, Unavailable
from secureproto.simulation.engines import ray as ray_engine
from secureproto.simulation.engines.ray import RayEngine

installed = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")


@pytest.fixture
def mute() -> Iterator[str]:
    """The address of somebody who accepts connections, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address where nobody listens: taken, but not listened at."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{held.getsockname()[1]}"


def test_without_ray_it_is_told_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(Misconfigured, match=r"^--engine ray: Ray is not installed$") as caught:
        RayEngine(None, 2)
    assert caught.value.hint == "pip install 'secureproto[ray]'"


@pytest.mark.parametrize("workers", [0, -1])
def test_no_worker_is_refused(workers: int) -> None:
    with pytest.raises(Misconfigured, match=f"^--workers {workers}: at least one is needed$"):
        RayEngine(None, workers)


@installed
@pytest.mark.parametrize("address", ["nonsense", "host:", "host:port", ":", "host:99999999", ""])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(Misconfigured, match="not HOST:PORT, nor auto"):
        RayEngine(address, None)


@installed
def test_where_nobody_listens_is_told_at_once(nobody: str) -> None:
    begun = monotonic()
    with pytest.raises(Unavailable, match=f"^ray: nothing answers at {nobody} ") as caught:
        RayEngine(nobody, None)
    assert monotonic() - begun < 5
    assert "ray start" in caught.value.hint


@installed
def test_who_is_no_cluster_is_given_up_in_time(mute: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_engine, "PATIENCE", 2.0)
    begun = monotonic()
    with pytest.raises(Unavailable, match=f"^ray: no cluster answers at {mute}$"):
        RayEngine(mute, None)
    assert 2 <= monotonic() - begun < 15


@installed
def test_a_cluster_that_refuses_is_told_with_its_reason(mute: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_engine, "TRY", "import sys; sys.exit('Traceback\\nRuntimeError: version mismatch')")
    with pytest.raises(Unavailable, match=f"^ray: no cluster at {mute}: RuntimeError: version mismatch$"):
        RayEngine(mute, None)


@installed
def test_what_ray_sets_for_the_process_is_put_back(nobody: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "1")
    before = dict(os.environ), sys.excepthook, signal.getsignal(signal.SIGTERM)
    with pytest.raises(Unavailable):
        RayEngine(nobody, None)
    assert (dict(os.environ), sys.excepthook, signal.getsignal(signal.SIGTERM)) == before

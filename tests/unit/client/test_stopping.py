"""A client that is asked to end does, whatever it is in the middle of."""

import os
import signal
import sys
import time

import pytest

from secureproto_client.stopping import Stopped, in_good_order


class Finalized:
    """Runs long enough in its finalizer for a signal to arrive there, where exceptions are ignored."""

    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        for _ in range(1000):
            pass


def wait() -> str:
    time.sleep(10)
    return "never stopped"


def test_a_stop_ends_the_work() -> None:
    def work() -> str:
        os.kill(os.getpid(), signal.SIGTERM)
        return wait()

    assert in_good_order(work) is None
    assert in_good_order(lambda: "done") == "done"


def test_a_stop_that_a_finalizer_swallowed_comes_again() -> None:
    began = time.monotonic()

    def work() -> str:
        Finalized()
        return wait()

    assert in_good_order(work) is None
    assert time.monotonic() - began < 5


def test_work_that_ends_before_a_lost_stop_comes_again_has_ended() -> None:
    def work() -> str:
        Finalized()
        return "done"

    assert in_good_order(work) == "done"
    time.sleep(0.2)  # nothing comes any more


def test_the_way_out_is_not_interrupted_and_all_is_as_it_was() -> None:
    handlers = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGALRM)]
    hook, left = sys.unraisablehook, []

    def work() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            wait()
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.2)
            left.append("tidy")

    assert in_good_order(work) is None
    assert left == ["tidy"]
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGALRM)] == handlers
    assert sys.unraisablehook is hook


def test_what_else_is_ignored_is_told_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[type[BaseException]] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda ignored: told.append(ignored.exc_type))

    class Broken:
        def __del__(self) -> None:
            raise KeyError

    def work() -> str:
        Broken()
        return "done"

    assert in_good_order(work) == "done"
    assert told == [KeyError]
    assert Stopped not in told

"""A generated program of faults against a site's rounds: lost requests, lost replies, duplicates, kills, restarts.

Invariants after every step: of each round at most one set of sealed bytes ever reached the transport, manifest and
body; a version's head counts exactly the completed rounds, so an update taken twice, or of another attempt, shows.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from secureproto.errors import Unavailable
from secureproto_client.agent import Agent
from secureproto_client.database import Database
from secureproto_client.transport.memory import MemoryTransport, Request
from secureproto_client.transport.seam import Reply
from support.site_peer import STUDY, Peer
from support.site_rig import enrolled

FAULTS = ("lose_request", "lose_reply", "duplicate", "kill_before", "kill_after")
POINTS = 9  # a step with a round in it has eight: requests and commits


class Killed(BaseException):
    """kill -9: nothing after it runs, in this process either."""


class Faults:
    """At which point (a request or a commit, counted within a step) which fault strikes."""

    def __init__(self) -> None:
        self.point, self.fault, self.seen, self.dead = -1, "", 0, False

    def arm(self, point: int, fault: str) -> None:
        self.point, self.fault, self.seen, self.dead = point, fault, 0, False

    def due(self) -> str:
        """The fault at this point, if any. Raises Killed when the process is dead already."""
        if self.dead:
            raise Killed
        self.seen += 1
        return self.fault if self.seen - 1 == self.point else ""

    def kill(self) -> None:
        self.dead = True
        raise Killed


class FaultyDatabase(Database):
    """A database whose process may die right before or right after a commit."""

    faults: Faults

    @contextmanager
    def transaction(self) -> Iterator[None]:
        fault = self.faults.due()
        with super().transaction():
            yield
            if fault == "kill_before":
                self.faults.kill()
        if fault == "kill_after":
            self.faults.kill()


class SiteRounds(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.faults, self.peer = Faults(), Peer()
        self.rig = enrolled(Path(self.folder.name) / "site", self.peer)
        self.rig.connect = lambda: MemoryTransport(self.exchange)
        self.rig.database = self.open_database
        self.agent: Agent | None = None
        self.completed = 0
        self.bodies: dict[tuple[str, str], bytes] = {}  # by round and offset

    def open_database(self, path: Path) -> Database:
        database = FaultyDatabase(path)
        database.faults = self.faults
        return database

    def exchange(self, request: Request) -> Reply:
        fault = self.faults.due()
        if fault == "lose_request" and request.method == "PUT":  # cut in the middle of the body
            request = replace(request, body=request.body[: len(request.body) // 2])
        elif fault == "lose_request":
            raise Unavailable("lost on the way there")
        if fault == "kill_before":
            self.faults.kill()
        if request.method == "PUT":
            sent = self.bodies.setdefault((request.path.split("/")[5], request.headers["upload-offset"]), b"")
            assert sent.startswith(request.body) or request.body.startswith(sent)
            self.bodies[request.path.split("/")[5], request.headers["upload-offset"]] = max(
                sent, request.body, key=len
            )
        reply = self.peer.handle(request)
        if fault == "duplicate":
            reply = self.peer.handle(request)
        if fault == "lose_reply":
            raise Unavailable("lost on the way back")
        if fault == "kill_after":
            self.faults.kill()
        return reply

    @rule()
    @precondition(lambda self: self.peer.open_round is None)
    def the_server_opens_a_round(self) -> None:
        self.peer.open()

    @rule()
    @precondition(lambda self: self.peer.open_round in self.peer.uploads and self.received())
    def the_server_completes_the_round(self) -> None:
        assert self.peer.open_round is not None
        self.peer.complete(self.peer.open_round)
        self.completed += 1

    @rule()
    @precondition(lambda self: self.peer.open_round is not None and not self.received())
    def the_round_misses_its_quorum(self) -> None:
        self.peer.miss()

    @rule()
    def the_site_works(self) -> None:
        self.works()

    @rule(point=st.integers(0, POINTS), fault=st.sampled_from(FAULTS))
    def the_site_works_under_a_fault(self, point: int, fault: str) -> None:
        if self.peer.open_round is None:
            self.peer.open()
        self.works(point, fault)

    def works(self, point: int = -1, fault: str = "") -> None:
        self.faults.arm(point, fault)
        try:
            if self.agent is None:
                self.agent = self.rig.start()
                self.agent.resume()
            self.agent.step(wait=0)
        except Unavailable:
            pass
        except Killed:
            self.agent = None
        self.faults.arm(-1, "")

    @rule()
    def the_site_is_restarted(self) -> None:
        self.agent = None

    def received(self) -> bool:
        upload = self.peer.uploads.get(self.peer.open_round if self.peer.open_round is not None else -1)
        return upload is not None and bool(upload.receipt)

    @invariant()
    def one_set_of_sealed_bytes_a_round(self) -> None:
        for number, manifests in self.peer.manifests.items():
            assert len(set(manifests)) == 1, f"round {number}"

    @invariant()
    def nothing_is_counted_twice(self) -> None:
        assert self.peer.version == self.completed
        if self.agent is not None and self.agent.site.models(STUDY).has(str(self.completed)):
            assert self.rig.head_count(self.agent, str(self.completed)) == self.completed

    def teardown(self) -> None:
        """Without faults everything comes to rest: the open round is answered, the newest version is there."""
        try:
            self.come_to_rest()
        finally:
            self.rig.kill()
            self.folder.cleanup()

    def come_to_rest(self) -> None:
        self.faults.arm(-1, "")
        agent = self.rig.start()
        agent.resume()
        agent.step(wait=0)
        agent.step(wait=0)
        latest: Any = agent.site.facts.latest(STUDY)
        assert latest.version == self.peer.version
        assert self.peer.open_round is None or self.received()
        assert self.rig.head_count(agent, str(latest.version)) == self.completed


SiteRounds.TestCase.settings = settings(
    max_examples=25, stateful_step_count=14, deadline=None, suppress_health_check=list(HealthCheck)
)
TestSiteRounds = SiteRounds.TestCase


def test_every_fault_at_every_point_of_a_round() -> None:
    """The same machine, led through each pair of a point and a fault, one round each."""
    machine = SiteRounds()
    try:
        machine.works()
        for point, fault in product(range(POINTS), FAULTS):
            machine.peer.open()
            machine.works(point, fault)
            machine.works()
            machine.works()
            machine.one_set_of_sealed_bytes_a_round()
            assert machine.received(), f"{fault} at {point}"
            machine.the_server_completes_the_round()
            machine.works()
            machine.nothing_is_counted_twice()
    finally:
        machine.teardown()

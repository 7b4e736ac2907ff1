"""Memory and SQLite are the same ledger: any program of operations ends alike, and as a slow oracle says.

The oracle keeps plain lists of what was told, and computes nothing incrementally. Restarts, repeats, lost replies,
snapshots put back and clocks that jump are operations like all others.
"""

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from secureproto.errors import BudgetExhausted, IntegrityBroken, SecureProtoError
from secureproto.privacy.events import Gaussian
from secureproto.privacy.ledger.charging import Charging, Moment, require_at_least, sealed_digest
from secureproto.privacy.ledger.claims import Kind
from secureproto.privacy.ledger.entries import Cause, Committed, Subject
from secureproto.privacy.ledger.memory import MemoryLedger
from secureproto.privacy.ledger.state import Phase, Reservation, State
from secureproto_client.ledger.file import SqliteLedger
from secureproto_client.ledger.schema import Expected
from support.ledgers import SERVER, SITE, START, claim, countersignature, counting, opened, salts

ALL, ONE = 9, 6  # events that the caps allow: of the data set, of a study
CAPS = counting(ALL, ONE)
STUDIES = st.sampled_from(("heart", "lung"))
BODIES = st.binary(min_size=1, max_size=1)
PICK = st.just(-1) | st.integers(-1, 30)  # mostly the last one, so that attempts get somewhere
CLOCK_STEPS = st.sampled_from((0, 1, 30, 599, 601, 5000, -1, -30, -5000))
HONEST = st.tuples(st.just("go_on"), STUDIES, st.integers(1, 5), BODIES)
# One rule for all: of many, hypothesis leaves out some in each program, and no reservation means no test.
OPERATIONS = st.one_of(
    HONEST,
    st.tuples(st.just("reserve"), STUDIES, st.integers(0, 2), st.integers(1, 3), st.integers(1, 3), st.booleans()),
    HONEST,
    st.tuples(st.just("countersign"), PICK),
    st.tuples(st.just("begin"), PICK),
    st.tuples(st.sampled_from(("commit", "commit_and_lose_the_grant", "resend")), PICK, BODIES),
    st.tuples(st.just("void"), PICK, st.sampled_from(Cause)),
    HONEST,
    st.tuples(st.just("fail"), PICK, st.integers(0, 3)),
    st.tuples(st.just("acknowledge"), st.sampled_from(Subject)),
    st.tuples(st.just("clock"), CLOCK_STEPS, st.booleans()),
    st.tuples(st.sampled_from(("restart", "a_snapshot_is_found_out"))),
)
Place = tuple[str, Kind, int]


class Ledgers(RuleBasedStateMachine):
    """Each operation is one call of the procedure, on both ledgers; then what they did is held against the oracle."""

    def __init__(self) -> None:
        super().__init__()
        # in memory where there is one: what is asked here needs no flushed disk
        memory = Path("/dev/shm")  # noqa: S108 - private below
        self.directory = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))
        self.file = self.directory / "l"
        self.ledgers = (MemoryLedger(opened()), SqliteLedger.create(self.file, opened()))
        self.charging = [Charging(ledger, salt=salts()) for ledger in self.ledgers]
        self.time = self.signed = START
        self.identities: list[str] = []
        self.claimed: dict[str, tuple[Place, int]] = {}  # of each reservation: its place, how many events
        self.voided, self.begun = set[str](), set[str]()
        self.released: dict[str, set[bytes]] = {}
        self.stopped = False

    @rule(operation=OPERATIONS)
    def perform(self, operation: tuple[Any, ...]) -> None:
        name, *values = operation
        getattr(self, name)(*values)

    def both(self, operation: Callable[[Charging], object]) -> object:
        """The outcome of an operation, the same at both: a value, or the family of what was raised."""
        found = []
        for charging in self.charging:
            try:
                found.append(operation(charging))
            except SecureProtoError as error:
                found.append(type(error))
        assert found[0] == found[1]
        return found[0]

    def pick(self, number: int) -> str:
        return self.identities[number % len(self.identities)] if self.identities else "0" * 64

    def reserve(self, study: str, number: int, attempt: int, events: int, tuning: bool) -> None:
        kind = Kind.TUNING if tuning else Kind.ROUND
        one = claim(number, attempt, study=study, kind=kind, events=[Gaussian(4.0)] * events)
        moment = Moment(self.time, self.signed)
        found = self.both(lambda charging: charging.reserve(one, CAPS, moment).id)
        if isinstance(found, str) and found not in self.claimed:
            assert not self.stopped
            assert self.charged() + events <= ALL
            assert self.charged(study) + events <= ONE
            self.identities.append(found)
            self.claimed[found] = (one.place, events)
        elif found is BudgetExhausted:
            assert self.charged() + events > ALL or self.charged(study) + events > ONE

    def go_on(self, study: str, steps: int, body: bytes) -> None:
        """The next steps of an honest client: what is drawn blindly seldom gets as far as a release."""
        for _ in range(steps):
            state = self.ledgers[0].state
            last = state.outstanding[-1] if state.outstanding else None
            if state.stopped:
                self.time = max(self.time, state.time)
                self.acknowledge(Subject.FAILURE)
            elif last is None:
                self.time = max(self.time, state.time, state.signed_time)
                self.signed = max(self.signed, self.time)
                self.reserve(study, 3 + len(self.identities), 1, 1, False)
            else:
                self.step(last, body)

    def step(self, last: Reservation, body: bytes) -> None:
        at = self.identities.index(last.id)
        if last.phase is Phase.RESERVED:
            self.countersign(at)
        elif last.phase is Phase.COUNTERSIGNED:
            self.begin(at)
        else:
            self.commit(at, body)

    def countersign(self, pick: int) -> None:
        identity = self.pick(pick)
        signature: list[bytes] = []  # one for both: ECDSA is random, and the chains would part

        def same(charging: Charging) -> object:
            if not signature:
                signature.append(countersignature(charging.countersignable(identity)))
            return charging.countersign(identity, SERVER.public, signature[0]).id

        self.both(same)

    def begin(self, pick: int) -> None:
        identity = self.pick(pick)
        if isinstance(self.both(lambda charging: charging.begin(identity).id), str):
            assert identity not in self.begun | self.voided
            assert not self.stopped
            self.begun.add(identity)

    def commit(self, pick: int, body: bytes) -> None:
        identity = self.pick(pick)
        found = self.both(lambda charging: charging.commit(identity, body).release())
        self.note(identity, body, found)

    def commit_and_lose_the_grant(self, pick: int, body: bytes) -> None:
        identity = self.pick(pick)
        self.both(lambda charging: bool(charging.commit(identity, body)))

    def resend(self, pick: int, body: bytes) -> None:
        identity = self.pick(pick)
        self.note(identity, body, self.both(lambda charging: charging.resend(identity, body)))

    def note(self, identity: str, body: bytes, found: object) -> None:
        if isinstance(found, bytes):
            assert found == body
            assert identity in self.begun
            self.released.setdefault(identity, set()).add(found)

    def void(self, pick: int, cause: Cause) -> None:
        identity = self.pick(pick)
        if self.both(lambda charging: charging.void(identity, cause)) is None:
            assert identity not in self.begun
            self.voided.add(identity)

    def fail(self, pick: int, sure: int) -> None:
        if sure:
            return
        identity = self.pick(pick)
        if self.both(lambda charging: charging.fail(identity)) is None:
            assert identity in self.begun
            self.stopped = True

    def acknowledge(self, subject: Subject) -> None:
        moment = Moment(self.time, self.signed)
        if self.both(lambda charging: charging.acknowledge(subject, "A. Person", "", moment)) is None:
            self.stopped &= subject is not Subject.FAILURE

    def clock(self, by: int, signed: bool) -> None:
        self.time = max(0, self.time + by)
        if signed:
            self.signed = max(self.signed, self.time)

    def restart(self) -> None:
        self.ledgers[1].close()
        database = SqliteLedger.open(self.file, Expected(SITE))
        self.ledgers = (self.ledgers[0], database)
        self.charging[1].ledger = database

    def a_snapshot_is_found_out(self) -> None:
        older = MemoryLedger(opened())
        head = self.ledgers[1].state.head
        require_at_least(self.ledgers[1], head.digest, head.sequence)
        if head.sequence:
            for entry in self.ledgers[0].entries()[1:-1]:
                older.append(entry)
            try:
                require_at_least(older, head.digest)
            except IntegrityBroken:
                return
            raise AssertionError("a ledger that went back was not found out")

    def charged(self, study: str = "") -> int:
        return sum(
            events
            for identity, (place, events) in self.claimed.items()
            if identity not in self.voided and study in ("", place[0])
        )

    @invariant()
    def charged_is_what_was_reserved_and_not_voided(self) -> None:
        for ledger in self.ledgers:
            assert sum(times for _, times in ledger.state.charged) == self.charged() <= ALL
            for study in ("heart", "lung"):
                assert sum(times for _, times in ledger.state.charged_to(study)) == self.charged(study) <= ONE
            assert bool(ledger.state.stopped) == self.stopped

    @invariant()
    def nothing_left_uncharged_uncommitted_or_twice(self) -> None:
        for ledger in self.ledgers:
            entries = ledger.entries()
            done = {entry.reservation: entry.sealed for entry in entries if isinstance(entry, Committed)}
            for identity, bodies in self.released.items():
                assert [sealed_digest(body) for body in bodies] == [done[identity]]
                assert identity not in self.voided
        rounds = Counter(self.claimed[identity][0] for identity in self.released)
        assert all(times == 1 for times in rounds.values())  # over all attempts

    @invariant()
    def both_say_the_same(self) -> None:
        memory, database = self.ledgers
        assert memory.entries() == database.entries()
        assert memory.state == database.state == State.replay(memory.entries())

    def teardown(self) -> None:
        self.ledgers[1].close()
        shutil.rmtree(self.directory)


Ledgers.TestCase.settings = settings(
    max_examples=25, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestLedgers = Ledgers.TestCase

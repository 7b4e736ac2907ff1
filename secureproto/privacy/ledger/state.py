"""What a ledger's entries say: a fold that refuses every entry that may not follow. No I/O.

    (none) ──▶ RESERVED ──▶ COUNTERSIGNED ──▶ BEGUN ──▶ COMMITTED
                  │  └ tuning ──────│──────────▲ │
                  └──────▶ VOIDED ◀─┘            └────▶ FAILED, and the ledger stops until a person acts

Invariants:
- what is charged is every reservation that was not voided, in full, and every import: a state between RESERVED and
  the end, a crash above all, costs as much as a commit;
- a void is only before BEGUN, whatever the cause; a round has at most one commit, over all its attempts;
- a chain has no gap, and its times do not go back; a round is reserved only at a time that the server's signed times
  or a person vouch for to ten minutes.
Source: PRIVACY.md, "Ledger".
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType

from secureproto.errors import ApprovalNeeded, Conflict, IntegrityBroken
from secureproto.privacy.events import Composition
from secureproto.privacy.ledger.claims import Claim, Kind, join
from secureproto.privacy.ledger.entries import (
    GENESIS,
    Acknowledged,
    Begun,
    Committed,
    Countersigned,
    Entry,
    Failed,
    Imported,
    Mirrored,
    Opened,
    Origin,
    Reserved,
    Subject,
    Voided,
)
from secureproto.wire.limits import LIMITS

STOPPED = "the ledger is stopped by a failure after the data were opened"
STOPPED_HINT = "find out why it failed, then acknowledge it (client ledger): what it cost stays spent"


class Phase(StrEnum):
    """How far a reservation is."""

    RESERVED = "reserved"
    COUNTERSIGNED = "countersigned"
    BEGUN = "begun"
    COMMITTED = "committed"
    VOIDED = "voided"
    FAILED = "failed"


OUTSTANDING = frozenset({Phase.RESERVED, Phase.COUNTERSIGNED, Phase.BEGUN})


@dataclass(frozen=True)
class Head:
    """The last entry: its place and its digest. A server sees the digest alone: places tell of other studies."""

    sequence: int
    digest: str


@dataclass(frozen=True)
class Reservation:
    """A charged attempt. `id`: digest of its entry. `sealed`: digest of the bytes that may leave; "": none yet."""

    id: str
    claim: Claim
    phase: Phase
    sealed: str = ""


@dataclass(frozen=True)
class State:
    """Where a ledger stands. Made by `begin` and `after` only.

    `time`: of the last entry that has one. `vouched`: the time that a person last answered for.
    `spent`: what is charged, by study: kept up with each entry, for a round must not cost the sum of all before it.
    `stopped`: id of the reservation whose failure stopped the ledger, or "".
    """

    opened: Opened
    head: Head
    signed_time: int
    time: int
    vouched: int
    reservations: Mapping[str, Reservation] = field(default_factory=lambda: MappingProxyType({}))
    imports: Mapping[str, Mirrored] = field(default_factory=lambda: MappingProxyType({}))
    spent: Mapping[str, Composition] = field(default_factory=lambda: MappingProxyType({}))
    stopped: str = ""

    @classmethod
    def begin(cls, opened: Entry) -> "State":
        """The state after a first entry.

        Raises:
            IntegrityBroken: it is none.
        """
        if not isinstance(opened, Opened) or opened.sequence != 0 or opened.previous != GENESIS:
            raise IntegrityBroken("ledger: the first entry is not the opening of a ledger")
        head = Head(0, opened.digest())
        return cls(opened, head, signed_time=opened.signed_time, time=opened.time, vouched=opened.time)

    @classmethod
    def replay(cls, entries: Iterable[Entry]) -> "State":
        """The state after all of a ledger's entries. Raises: as `begin` and `after`; IntegrityBroken for none."""
        rest = iter(entries)
        first = next(rest, None)
        if first is None:
            raise IntegrityBroken("ledger: it holds no entry")
        state = cls.begin(first)
        for entry in rest:
            state = state.after(entry)
        return state

    def after(self, entry: Entry) -> "State":
        """The state after one more entry.

        Raises:
            IntegrityBroken: it does not follow the last one (gap, other digest, other data set, time backwards).
            Conflict: the state of its reservation, its round or the ledger forbids it.
            ApprovalNeeded: its time is over ten minutes from the signed one and no person has vouched for it.
        """
        self._check_link(entry)
        state = _apply(self, entry)
        return replace(state, head=Head(entry.sequence, entry.digest()), signed_time=entry.signed_time)

    @property
    def charged(self) -> Composition:
        """Everything spent of the data set by this ledger, over all studies and tuning."""
        return join(self.spent.values())

    def charged_to(self, study: str) -> Composition:
        """What of it one study spent, its tuning included."""
        return self.spent.get(study, ())

    @property
    def outstanding(self) -> tuple[Reservation, ...]:
        """Reservations that are neither committed, voided nor failed, in order."""
        return tuple(each for each in self.reservations.values() if each.phase in OUTSTANDING)

    def reservation(self, identity: str) -> Reservation:
        """A reservation by its id.

        Raises:
            Conflict: there is none.
        """
        found = self.reservations.get(identity)
        if found is None:
            raise Conflict(f"the ledger has no reservation {identity[:16]}", hint="reserve before anything else")
        return found

    def attempts(self, claim: Claim) -> tuple[Reservation, ...]:
        """All attempts at the round of a claim, in order."""
        return tuple(each for each in self.reservations.values() if each.claim.place == claim.place)

    def _check_link(self, entry: Entry) -> None:
        if entry.sequence != self.head.sequence + 1:
            raise IntegrityBroken(f"ledger: entry {self.head.sequence + 1} is missing, {entry.sequence} stands there")
        if entry.previous != self.head.digest:
            raise IntegrityBroken(f"ledger: entry {entry.sequence} does not follow the entry before it")
        if entry.data_set != self.opened.data_set:
            raise IntegrityBroken(f"ledger: entry {entry.sequence} is of another data set")
        if entry.signed_time < self.signed_time:
            raise IntegrityBroken(f"ledger: the signed time goes back at entry {entry.sequence}")


def heads_of(entry: Entry) -> frozenset[str]:
    """The digests that are known to have been a head once this entry is there: its own, and an imported one."""
    return frozenset({entry.digest(), entry.mirrored.head} if isinstance(entry, Imported) else {entry.digest()})


def _apply(state: State, entry: Entry) -> State:
    match entry:
        case Opened():
            raise IntegrityBroken(f"ledger: entry {entry.sequence} opens it a second time")
        case Reserved():
            return _reserve(state, entry)
        case Countersigned():
            return _move(state, entry.reservation, {Phase.RESERVED}, Phase.COUNTERSIGNED)
        case Begun():
            return _begin(state, entry)
        case Committed():
            return _commit(state, entry)
        case Voided():
            return _void(state, entry)
        case Failed():
            moved = _move(state, entry.reservation, {Phase.BEGUN}, Phase.FAILED)
            return replace(moved, stopped=entry.reservation)
        case Acknowledged():
            return _acknowledge(state, entry)
        case Imported():
            return _import(state, entry)


def _reserve(state: State, entry: Reserved) -> State:
    claim = entry.claim
    _demand_running(state)
    _demand_order(state, entry.time, entry.sequence)
    known = max(state.vouched, entry.signed_time)
    if entry.time > known + LIMITS.clock_skew or entry.signed_time > entry.time + LIMITS.clock_skew:
        raise ApprovalNeeded(
            f"this host's clock is {abs(entry.time - known)} s from the last time that is vouched for",
            hint="check the clock; after a long pause hear from the server first, or acknowledge the clock",
        )
    if state.opened.origin is Origin.RECOVERED and not state.imports:
        raise Conflict("the ledger was recovered and holds no import yet", hint="import the server's mirror first")
    imported = state.imports.get(claim.study)
    if imported and claim.kind is Kind.ROUND and claim.round <= imported.through:
        raise Conflict(f"{claim}: the import holds rounds up to {imported.through}", hint="sit that round out")
    for other in state.attempts(claim):
        if other.phase is Phase.COMMITTED:
            raise Conflict(f"{claim}: attempt {other.claim.attempt} is committed", hint="send its sealed bytes again")
        if other.claim.attempt >= claim.attempt:
            raise Conflict(f"{claim}: attempt {other.claim.attempt} was reserved before", hint="count attempts up")
    identity = entry.digest()
    made = Reservation(identity, claim, Phase.RESERVED)
    charged = _charge(state, claim.study, claim.composition)
    return replace(charged, time=entry.time, reservations={**state.reservations, identity: made})


def _charge(state: State, study: str, more: Composition) -> State:
    return replace(state, spent={**state.spent, study: join([state.charged_to(study), more])})


def _void(state: State, entry: Voided) -> State:
    moved = _move(state, entry.reservation, {Phase.RESERVED, Phase.COUNTERSIGNED}, Phase.VOIDED)
    study = moved.reservation(entry.reservation).claim.study
    # Added up anew: compositions have no difference.
    others = moved.reservations.values()
    kept = [each.claim.composition for each in others if each.claim.study == study and each.phase is not Phase.VOIDED]
    imported = [moved.imports[study].composition] if study in moved.imports else []
    return replace(moved, spent={**moved.spent, study: join([*kept, *imported])})


def _begin(state: State, entry: Begun) -> State:
    _demand_running(state)
    # Tuning stays at the site: no server has a say in it, and none could be asked before a study runs.
    tuning = state.reservation(entry.reservation).claim.kind is Kind.TUNING
    ready = {Phase.COUNTERSIGNED, Phase.RESERVED} if tuning else {Phase.COUNTERSIGNED}
    return _move(state, entry.reservation, ready, Phase.BEGUN)


def _commit(state: State, entry: Committed) -> State:
    before = state.reservation(entry.reservation)
    if before.phase is Phase.COMMITTED and before.sealed == entry.sealed:
        return state  # the same bytes again are the same release
    _demand_running(state)
    if before.phase is Phase.COMMITTED:
        raise Conflict(f"{before.claim}: other bytes are committed", hint="a grant is for one body: send that one")
    if any(other.phase is Phase.COMMITTED for other in state.attempts(before.claim)):
        raise Conflict(f"{before.claim}: another attempt is committed", hint="send the sealed bytes of that one")
    return _move(state, entry.reservation, {Phase.BEGUN}, Phase.COMMITTED, sealed=entry.sealed)


def _acknowledge(state: State, entry: Acknowledged) -> State:
    if entry.subject is Subject.CLOCK:
        # A person may set the time back too: else one reservation under a wrong clock would stop the site for good.
        if entry.time < entry.signed_time - LIMITS.clock_skew:
            raise IntegrityBroken("ledger: the acknowledged time is before one that the server signed")
        return replace(state, time=entry.time, vouched=entry.time)
    _demand_order(state, entry.time, entry.sequence)
    if not state.stopped:
        raise Conflict("the ledger is not stopped: there is no failure to acknowledge")
    return replace(state, time=entry.time, stopped="")


def _import(state: State, entry: Imported) -> State:
    _demand_order(state, entry.time, entry.sequence)
    study = entry.mirrored.study
    if study in state.imports or any(each.claim.study == study for each in state.reservations.values()):
        raise Conflict(f"study {study} has entries here: an import would charge it twice")
    imports = {**state.imports, study: entry.mirrored}
    charged = _charge(state, study, entry.mirrored.composition)
    return replace(charged, time=entry.time, vouched=entry.time, imports=imports)


def _move(state: State, identity: str, ready: set[Phase], then: Phase, *, sealed: str = "") -> State:
    before = state.reservation(identity)
    if before.phase not in ready:
        raise Conflict(f"{before.claim} is {before.phase} and cannot become {then}", hint=_HINTS.get(then, ""))
    moved = replace(before, phase=then, sealed=sealed)
    return replace(state, reservations={**state.reservations, identity: moved})


_HINTS = {
    Phase.BEGUN: "an attempt begins once, after the server's countersignature; after a crash reserve another",
    Phase.VOIDED: "once the data are opened an attempt is spent, whatever comes of it",
    Phase.COMMITTED: "reserve, countersign and begin first",
}


def _demand_running(state: State) -> None:
    if state.stopped:
        raise Conflict(STOPPED, hint=STOPPED_HINT)


def _demand_order(state: State, time: int, sequence: int) -> None:
    if time < state.time:
        raise IntegrityBroken(f"ledger: the time goes back by {state.time - time} s at entry {sequence}")

"""Ledgers of tests: first entries, claims, entries that follow, and a gate that is right and plain.

`RhoGate` is zero-concentrated differential privacy of Gaussian events (Bun, Steinke 2016, propositions 1.3 and 1.6):
a release with noise multiplier σ costs ρ = 1/(2σ²), costs add up, ε = ρ + 2√(ρ ln(1/δ)). A sampled event is charged
as if nothing were sampled: more, so safe.
"""

from dataclasses import dataclass
from itertools import count
from math import inf, log, sqrt
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec

from secureproto.crypto.keys import FileSigner
from secureproto.privacy.events import Composition, Gaussian, Mechanism, SampledGaussian, Unprotected, merge
from secureproto.privacy.ledger.charging import Caps, Charging, Moment
from secureproto.privacy.ledger.claims import Claim, Kind, releases
from secureproto.privacy.ledger.entries import GENESIS, Countersignable, Opened, Origin, Parent
from secureproto.privacy.ledger.seam import Gate
from secureproto.privacy.ledger.state import Reservation, State
from secureproto.wire import base64url

START = 1_790_000_000
SITE = "cleveland"
DATA_SET = "d" * 32
SERVER = FileSigner(ec.generate_private_key(ec.SECP256R1()))
OFFICER = FileSigner(ec.generate_private_key(ec.SECP256R1()))
NOW = Moment(START, START)


def hex_id(number: int) -> str:
    """A 128-bit id."""
    return f"{number:032x}"


@dataclass(frozen=True)
class RhoGate(Gate):
    """A cap on ε at δ, closed form."""

    cap: float
    delta: float = 1e-5

    def fits(self, spent: Composition, more: Composition) -> bool:
        return self.epsilon((*spent, *more)) <= self.cap

    def epsilon(self, spent: Composition) -> float:
        rho = sum(times * _rho(event) for event, times in spent)
        return rho + 2 * sqrt(rho * log(1 / self.delta)) if rho < inf else inf


def _rho(event: Mechanism) -> float:
    match event:
        case Unprotected():
            return inf
        case SampledGaussian():
            return event.steps / (2 * event.noise_multiplier**2)
        case Gaussian():
            return 1 / (2 * event.noise_multiplier**2)


@dataclass(frozen=True)
class CountGate(Gate):
    """At most so many events, whatever they are."""

    most: int

    def fits(self, spent: Composition, more: Composition) -> bool:
        return sum(times for _, times in (*spent, *more)) <= self.most

    def epsilon(self, spent: Composition) -> float:
        return float(sum(times for _, times in spent))


def counting(data_set: int = 10**6, study: int = 10**6) -> Caps:
    """Caps on the number of events."""
    return Caps(CountGate(data_set), CountGate(study))


def opened(data_set: str = DATA_SET, **changes: Any) -> Opened:
    """A first entry: by default the site's first data set."""
    said = {
        "sequence": 0,
        "previous": GENESIS,
        "data_set": data_set,
        "signed_time": START,
        "salt": hex_id(1),
        "site": SITE,
        "ledger": f"{int(data_set, 16) ^ 1:032x}",
        "origin": Origin.FIRST,
        "time": START,
    }
    return Opened(**{**said, **changes})


def derived(data_set: str, *parents: State, **changes: Any) -> Opened:
    """The first entry of a data set made from others."""
    named = sorted((parent.opened.data_set, parent.head.digest) for parent in parents)
    links = tuple(Parent(data_set=name, head=head) for name, head in named)
    return opened(data_set, origin=Origin.DERIVED, parents=links, **changes)


def claim(number: int = 0, attempt: int = 1, **changes: Any) -> Claim:
    """A claim of one Gaussian event, σ = 4."""
    events = changes.pop("events", [Gaussian(4.0)])
    said = {
        "data_set": DATA_SET,
        "study": "heart",
        "round": number,
        "attempt": attempt,
        "kind": Kind.ROUND,
        "events": releases(merge(events)),
        "plan": "a" * 64,
    }
    return Claim(**{**said, **changes})


def salts() -> Any:
    """Salts that are different and the same in each run."""
    numbers = count(1000)
    return lambda: hex_id(next(numbers))


def link(state: State, **changes: Any) -> dict[str, Any]:
    """The fields with which an entry follows a state."""
    said = {
        "sequence": state.head.sequence + 1,
        "previous": state.head.digest,
        "data_set": state.opened.data_set,
        "signed_time": state.signed_time,
        "salt": hex_id(state.head.sequence + 5),
    }
    return {**said, **changes}


def countersignature(signable: Countersignable) -> bytes:
    """The server's."""
    return SERVER.sign(Countersignable.LABEL, signable.canonical())


def countersigned(charging: Charging, one: Claim, caps: Caps | None = None) -> Reservation:
    """An attempt as far as its countersignature."""
    reservation = charging.reserve(one, caps or counting(), NOW)
    signature = countersignature(charging.countersignable(reservation.id))
    return charging.countersign(reservation.id, SERVER.public, signature)


def begun(charging: Charging, one: Claim, caps: Caps | None = None) -> Reservation:
    """An attempt whose data may be opened."""
    return charging.begin(countersigned(charging, one, caps).id)


def committed(charging: Charging, one: Claim, sealed: bytes = b"sealed") -> Reservation:
    """An attempt that has come to its end."""
    identity = begun(charging, one).id
    charging.commit(identity, sealed).release()
    return charging.ledger.state.reservation(identity)


def text_of(signature: bytes) -> str:
    """A signature as an entry holds it."""
    return base64url.encode(signature)

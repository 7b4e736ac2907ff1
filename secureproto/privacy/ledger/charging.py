"""Charge before release: the procedure of one attempt, over any `Ledger`.

 1. `reserve`: the worst case of the attempt is checked against both caps, that of the data set (everything that its
    family of ledgers spent, all studies and tuning) and that of the study, and is charged. Durable at the return.
 2. `countersign`: the server's signature over claim and head is verified and kept. (Not for tuning.)
 3. `begin`: durable, right before the data are opened and the first noise is drawn.
 4. The caller trains, draws the noise, seals the upload and writes it durably to its own disk.
 5. `commit`: the digest of the sealed bytes becomes durable; only then there is a `Grant`.
 6. `Grant.release`: gives the bytes, once. From here on they may leave.

After a lost reply or a restart: `resend` gives the same bytes and no others.
`void` before 3, for a cause that the data have no part in. Failure after 3: `fail`, and a person acknowledges.
A crash before 3: the same `reserve` finds the reservation again. A crash between 3 and 5: sealed bytes that are
already on the disk may still be committed; otherwise the attempt stays spent, and a new one is reserved.

What the caller owes: one process; all ledgers of the site as `kin`; nothing of the data is read between 1 and 3;
`sealed` is the whole upload, or the signed manifest, which names its body by length and digest; how many rounds would
still fit, when a cap refuses; the signed times of the server, verified.
Source: PRIVACY.md, "Ledger".
"""

import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from secureproto.crypto.keys import PublicKey
from secureproto.errors import BudgetExhausted, Conflict, IntegrityBroken, Misconfigured
from secureproto.privacy.events import Composition
from secureproto.privacy.ledger.claims import Claim, join
from secureproto.privacy.ledger.entries import (
    Acknowledged,
    Begun,
    Cause,
    Committed,
    Countersignable,
    Countersigned,
    Entry,
    Failed,
    Imported,
    Mirrored,
    Reserved,
    Subject,
    Voided,
)
from secureproto.privacy.ledger.lineage import family
from secureproto.privacy.ledger.seam import Gate, Ledger
from secureproto.privacy.ledger.state import STOPPED, STOPPED_HINT, Phase, Reservation, State
from secureproto.wire import base64url, canonical

SEALED_LABEL = "secureproto/v1/ledger-sealed"
_SALT_BYTES = 16


@dataclass(frozen=True)
class Caps:
    """The two caps of a reservation: of the data set, over all studies, and of the one study."""

    data_set: Gate
    study: Gate


@dataclass(frozen=True)
class Moment:
    """This host's time, and the highest time that the server has signed so far (0: none), in whole seconds."""

    time: int
    signed: int


class Grant:
    """Leave to send one body, made by `Charging.commit` only. Used once."""

    def __init__(self, sealed: bytes) -> None:
        self._sealed: bytes | None = sealed

    def release(self) -> bytes:
        """The committed bytes.

        Raises:
            Conflict: the grant was used.
        """
        sealed, self._sealed = self._sealed, None
        if sealed is None:
            raise Conflict("this grant was used", hint="send again what was committed (resend)")
        return sealed


def sealed_digest(sealed: bytes) -> str:
    """What a commit says of the bytes that may leave."""
    return canonical.labelled_digest(SEALED_LABEL, sealed)


class Charging:
    """The procedure over one ledger. A move is durable when it returns; one that raises has charged nothing."""

    def __init__(
        self,
        ledger: Ledger,
        *,
        kin: Iterable[Ledger] = (),
        salt: Callable[[], str] = lambda: secrets.token_hex(_SALT_BYTES),
    ) -> None:
        """`kin`: all other ledgers of the site; those that share records with this one are charged with it.

        Raises:
            IntegrityBroken: an ancestor's ledger is missing or went back.
        """
        self.ledger = ledger
        self._others = tuple(kin)
        self._salt = salt
        family(ledger, self._others)

    def spent(self) -> Composition:
        """What counts against the cap of the data set: all of the family, each ledger once."""
        return join(ledger.state.charged for ledger in family(self.ledger, self._others))

    def spent_by(self, study: str) -> Composition:
        """What counts against the cap of the study: its part of the same."""
        return join(ledger.state.charged_to(study) for ledger in family(self.ledger, self._others))

    def reserve(self, claim: Claim, caps: Caps, moment: Moment) -> Reservation:
        """Charge an attempt. The same claim again, before it has begun, is the same reservation.

        Raises:
            BudgetExhausted: a cap would be passed; `reasons` names which. Nothing was charged.
            Conflict: the ledger is stopped, or the round has a later attempt or a committed one.
            ApprovalNeeded: a person must look at the clock. Misconfigured: it went back.
            Unavailable: the ledger cannot be written.
        """
        if claim.data_set != self.ledger.state.opened.data_set:
            raise ValueError("a claim on another data set than this ledger's")
        for known in self.ledger.state.attempts(claim):
            if known.claim == claim and known.phase in {Phase.RESERVED, Phase.COUNTERSIGNED}:
                return known
        self._demand_running()
        self._demand_order(moment)
        self._demand_room(claim, caps)
        entry = Reserved(claim=claim, time=moment.time, **self._link(moment.signed))
        return self._append(entry).reservation(entry.digest())

    def countersignable(self, identity: str) -> Countersignable:
        """What the server is asked to sign for a reservation. Raises Conflict: there is none."""
        return Countersignable(claim=self.ledger.state.reservation(identity).claim.digest(), head=identity)

    def countersign(self, identity: str, key: PublicKey, signature: bytes) -> Reservation:
        """Keep the server's countersignature. A second one changes nothing.

        Raises:
            IntegrityBroken: it does not verify under `key`. Conflict: no such reservation, or it has ended.
        """
        signed = self.countersignable(identity)
        key.verify(Countersignable.LABEL, signed.canonical(), signature)
        if self.ledger.state.reservation(identity).phase is not Phase.COUNTERSIGNED:
            text = base64url.encode(signature)
            self._append(Countersigned(reservation=identity, key=key.key_id, signature=text, **self._link()))
        return self.ledger.state.reservation(identity)

    def begin(self, identity: str) -> Reservation:
        """The last durable step before the data are opened.

        Raises:
            Conflict: begun before, not countersigned, or a ledger of the site is stopped.
        """
        self._demand_running()
        return self._append(Begun(reservation=identity, **self._link())).reservation(identity)

    def commit(self, identity: str, sealed: bytes) -> Grant:
        """Fix the bytes that may leave; the same bytes again get a grant for the same release.

        Raises:
            Conflict: others are committed for this round, or it has not begun. Unavailable: not on the disk.
        """
        before, digest = self.ledger.state.reservation(identity), sealed_digest(sealed)
        if (before.phase, before.sealed) != (Phase.COMMITTED, digest):
            self._append(Committed(reservation=identity, sealed=digest, **self._link()))
        return Grant(sealed)

    def resend(self, identity: str, sealed: bytes) -> bytes:
        """The bytes, if they are the committed ones. Raises Conflict: others, or none, are committed."""
        before = self.ledger.state.reservation(identity)
        if before.phase is not Phase.COMMITTED or before.sealed != sealed_digest(sealed):
            raise Conflict(f"{before.claim}: these bytes are not committed", hint="send what was, or nothing")
        return sealed

    def void(self, identity: str, cause: Cause) -> None:
        """Take an attempt back. Raises Conflict: it has begun or ended."""
        self._append(Voided(reservation=identity, cause=cause, **self._link()))

    def fail(self, identity: str) -> None:
        """An attempt broke after the data were opened: charged, and everything stops. Raises Conflict."""
        self._append(Failed(reservation=identity, **self._link()))

    def acknowledge(self, subject: Subject, by: str, words: str, moment: Moment) -> None:
        """A person answers for a failure, or for the clock.

        Raises:
            Conflict: there is no failure. IntegrityBroken: the time is before a signed one. Misconfigured: backwards.
        """
        if subject is Subject.FAILURE:
            self._demand_order(moment)
        entry = Acknowledged(subject=subject, by=by, words=words, time=moment.time, **self._link(moment.signed))
        self._append(entry)

    def restore(self, mirrored: Mirrored, moment: Moment) -> None:
        """Charge what a server's mirror holds of a study.

        Raises:
            Conflict: the study has entries here already. Misconfigured: the clock went back.
        """
        self._demand_order(moment)
        self._append(Imported(mirrored=mirrored, time=moment.time, **self._link(moment.signed)))

    def _append(self, entry: Entry) -> State:
        return self.ledger.append(entry)

    def _link(self, signed: int = 0) -> dict[str, Any]:
        state = self.ledger.state
        return {
            "sequence": state.head.sequence + 1,
            "previous": state.head.digest,
            "data_set": state.opened.data_set,
            "signed_time": max(signed, state.signed_time),
            "salt": self._salt(),
        }

    def _demand_running(self) -> None:
        # A failure stops the site, not only the data set at which it happened: its cause may be anywhere.
        if any(ledger.state.stopped for ledger in (self.ledger, *self._others)):
            raise Conflict(STOPPED, hint=STOPPED_HINT)

    def _demand_order(self, moment: Moment) -> None:
        behind = self.ledger.state.time - moment.time
        if behind > 0:
            raise Misconfigured(
                f"this host's clock is {behind} s behind the ledger's last entry",
                hint="set the clock (time service); nothing is reserved until it is right",
            )

    def _demand_room(self, claim: Claim, caps: Caps) -> None:
        more = claim.composition
        for name, gate, spent in (
            ("max_epsilon_data_set", caps.data_set, self.spent()),
            ("max_epsilon_study", caps.study, self.spent_by(claim.study)),
        ):
            if not gate.fits(spent, more):
                # No ε here: the message reaches the server, and other studies' spending is not its business.
                raise BudgetExhausted(
                    f"{claim} would pass {name}",
                    reasons=(name,),
                    hint="nothing was charged; `client budget` shows what would still fit",
                )


def require_at_least(ledger: Ledger, head: str, sequence: int | None = None) -> None:
    """Check that a head known elsewhere (the server's receipt, a parent, a backup) is in the ledger.

    Raises:
        IntegrityBroken: it is not: the ledger went back, or is another one. The site must stop.
    """
    at = ledger.state.head.sequence
    if not ledger.find(head) or (sequence is not None and sequence > at):
        raise IntegrityBroken(
            f"ALARM: the ledger of data set {ledger.state.opened.data_set[:16]} lacks a head that is known elsewhere",
            hint="an older copy was put back, or entries were lost: stop, and recover from the server's mirror",
        )

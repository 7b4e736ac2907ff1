"""The entries of a ledger: what happened to a data set's budget, each bound to all before it.

Invariants: an entry has one encoding and one digest, under the label of its own class; it names its place, the digest
of the entry before it, its data set and the highest time that the server had signed; `salt` makes a digest tell
nothing of the entry to whoever guesses what it says, for digests leave the site and other studies' entries must not.
Source: PRIVACY.md, "Ledger".
"""

from enum import StrEnum
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from secureproto.errors import IntegrityBroken, Rejected
from secureproto.privacy.events import Composition
from secureproto.privacy.ledger.claims import Claim, Release, composition
from secureproto.wire import canonical
from secureproto.wire.messages.base import Base64, Count, Digest, Hex128, Line, Message, Name, Time

MAX_ENTRY_BYTES = 64 * 1024  # a claim of 32 events is 5 KiB, an import of 256 events 40 KiB
MAX_PARENTS = 64  # a union of more is made in steps
MAX_IMPORTED = 256  # distinct events of one study in its lifetime; 20 are many
GENESIS = "0" * 64  # what the first entry follows

Signature = Annotated[Base64, Field(min_length=1, max_length=120)]  # DER ECDSA-P256 is 72 bytes at the most
Who = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[^\x00-\x1f\x7f]*$")]


class Origin(StrEnum):
    """Why a data set may begin with nothing spent, or with what."""

    FIRST = "first"  # the site's first data set: there is no other that it could share a record with
    DECLARED = "declared"  # the privacy officer signed that it shares no record with another
    DERIVED = "derived"  # a version, subset or union: inherits what its parents spent
    RECOVERED = "recovered"  # its ledger was lost: inherits what the servers' mirrors say, at once


class Cause(StrEnum):
    """Causes to void a reservation: none depends on the data, or voiding would be a release about them."""

    SERVER_ABORT = "server_abort"
    QUORUM = "quorum"
    OPERATOR = "operator"


class Subject(StrEnum):
    """What a person has looked at and answers for."""

    FAILURE = "failure"
    CLOCK = "clock"


class Link(Message):
    """What every entry has: its place in the chain."""

    sequence: Count
    previous: Digest
    data_set: Hex128
    signed_time: Time  # the highest time that the server had signed so far; 0: it had not signed any
    salt: Hex128


class Parent(Message):
    """A ledger that this one inherits from, as it was: `head` must still be in it."""

    data_set: Hex128
    head: Digest


class Declaration(Message):
    """What a site's privacy officer signs: no record of this new data set is in another of the site's."""

    LABEL: ClassVar[str] = "secureproto/v1/ledger-declaration"
    site: Name
    data_set: Hex128


class Opened(Link):
    """The first entry. `data_set` is random, never made from content; `ledger` is random, this file's own."""

    LABEL: ClassVar[str] = "secureproto/v1/ledger-opened"
    kind: Literal["opened"] = "opened"
    site: Name
    ledger: Hex128
    origin: Origin
    parents: Annotated[tuple[Parent, ...], Field(max_length=MAX_PARENTS)] = ()
    officer: Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")] = ""  # key id
    signature: Annotated[Base64, Field(max_length=120)] = ""
    time: Time

    @model_validator(mode="after")
    def _check(self) -> Self:
        names = [parent.data_set for parent in self.parents]
        if names != sorted(set(names)) or self.data_set in names:
            raise ValueError("parents are others, each once, in order of their ids")
        if self.origin is not Origin.RECOVERED and bool(names) != (self.origin is Origin.DERIVED):
            raise ValueError("a derived data set has parents, a new one has none")
        if (self.origin is Origin.DECLARED) != bool(self.officer and self.signature):
            raise ValueError("a declared data set, and no other, has an officer's signature")
        return self


class Reserved(Link):
    """An attempt's worst case is charged: from here on it counts, until it is voided. Its digest is its id."""

    LABEL: ClassVar[str] = "secureproto/v1/ledger-reserved"
    kind: Literal["reserved"] = "reserved"
    claim: Claim
    time: Time

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.claim.data_set != self.data_set:
            raise ValueError("a claim on another data set")
        return self


class Countersigned(Link):
    """The server has seen claim and head: `signature` of key `key` over the reservation's `Countersignable`."""

    LABEL: ClassVar[str] = "secureproto/v1/ledger-countersigned"
    kind: Literal["countersigned"] = "countersigned"
    reservation: Digest
    key: Digest
    signature: Signature


class Begun(Link):
    """The data are about to be opened, the first noise to be drawn. No void from here on."""

    LABEL: ClassVar[str] = "secureproto/v1/ledger-begun"
    kind: Literal["begun"] = "begun"
    reservation: Digest


class Committed(Link):
    """These sealed bytes, and no others, may leave under the reservation."""

    LABEL: ClassVar[str] = "secureproto/v1/ledger-committed"
    kind: Literal["committed"] = "committed"
    reservation: Digest
    sealed: Digest


class Voided(Link):
    """The reservation is taken back, for a cause that the data have no part in."""

    LABEL: ClassVar[str] = "secureproto/v1/ledger-voided"
    kind: Literal["voided"] = "voided"
    reservation: Digest
    cause: Cause


class Failed(Link):
    """A failure after the data were opened: outside the guarantee. Charged in full; the ledger stops."""

    LABEL: ClassVar[str] = "secureproto/v1/ledger-failed"
    kind: Literal["failed"] = "failed"
    reservation: Digest


class Acknowledged(Link):
    """A person has acted: after a failure, or on a clock that left what is known of the time."""

    LABEL: ClassVar[str] = "secureproto/v1/ledger-acknowledged"
    kind: Literal["acknowledged"] = "acknowledged"
    subject: Subject
    by: Who
    words: Line
    time: Time


class Mirrored(Message):
    """What a server's mirror holds of a study, everything outstanding in it charged. `head`: its last of our heads.

    Rounds up to `through` are over for the recovered ledger; -1: the mirror holds none. `mirror`: digest of the
    signed statement that this was read from, which the caller has verified.
    """

    study: Name
    through: Annotated[int, Field(ge=-1, le=2**40)]
    head: Digest
    mirror: Digest
    events: Annotated[tuple[Release, ...], Field(max_length=MAX_IMPORTED)]

    @property
    def composition(self) -> Composition:
        """What is charged."""
        return composition(self.events)


class Imported(Link):
    """A lost ledger's spending, taken over from a mirror."""

    LABEL: ClassVar[str] = "secureproto/v1/ledger-imported"
    kind: Literal["imported"] = "imported"
    mirrored: Mirrored
    time: Time


class Countersignable(Message):
    """What the server signs: which claim it saw, and the reservation's digest. Neither place nor other studies."""

    LABEL: ClassVar[str] = "secureproto/v1/ledger-countersignature"
    claim: Digest
    head: Digest

    @classmethod
    def of(cls, reserved: Reserved) -> "Countersignable":
        """That of a reservation."""
        return cls(claim=reserved.claim.digest(), head=reserved.digest())


Entry = Opened | Reserved | Countersigned | Begun | Committed | Voided | Failed | Acknowledged | Imported
_KINDS: dict[str, type[Entry]] = {
    kind.model_fields["kind"].default: kind
    for kind in (Opened, Reserved, Countersigned, Begun, Committed, Voided, Failed, Acknowledged, Imported)
}


def parse(data: object) -> Entry:
    """The entry in stored bytes.

    Raises:
        IntegrityBroken: they are not the one encoding of an entry.
    """
    try:
        value = canonical.decode(data) if isinstance(data, bytes) and len(data) <= MAX_ENTRY_BYTES else None
        kind = _KINDS.get(str(value.get("kind"))) if isinstance(value, dict) else None
        entry: Entry | None = kind.parse(data) if kind and isinstance(data, bytes) else None
    except Rejected:
        entry = None
    if entry is None:
        raise IntegrityBroken("ledger: an entry is not in the form in which entries are written")
    return entry


def writable(entry: Entry) -> bytes:
    """The bytes to store of an entry.

    Raises:
        ValueError: a reader would refuse them, and with them the whole ledger.
    """
    data = entry.canonical()
    try:
        same = parse(data) == entry
    except IntegrityBroken:
        same = False
    if not same:
        raise ValueError("an entry that was not made as entries are")
    return data

"""The rows the server keeps, as frozen values: the schema's only source.

Invariants: a row is immutable and is replaced whole (`Transaction.put`); `KEY` names the fields of its primary
key, in the order in which `select` sorts; `UNIQUE` names further fields that no two rows of the kind share;
`REFERENCES` says which row must exist while this one does. Times are whole seconds since the epoch, UTC; digests
are lower-case hex SHA-256; `blob` names an object of the blob store. No row holds a tensor, a loss or a private
key. The tables of `sql` are generated from these classes.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

Value = str | int | bytes | None


@dataclass(frozen=True, slots=True)
class Reference:
    """The fields of a row that are the key of another row, which must exist."""

    fields: tuple[str, ...]
    kind: "type[Row]"


@dataclass(frozen=True)
class Row:
    """Base of every row; only its subclasses are stored."""

    KEY: ClassVar[tuple[str, ...]] = ()
    UNIQUE: ClassVar[tuple[str, ...]] = ()
    REFERENCES: ClassVar[tuple[Reference, ...]] = ()


class TokenState(StrEnum):
    """An enrolment token: issued, then used once or made void."""

    ISSUED = "issued"
    USED = "used"
    VOID = "void"


class EnrolmentState(StrEnum):
    """A request to enrol: waits for a person, who decides."""

    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"


class SiteState(StrEnum):
    """An enrolled site. Suspended is reversible; withdrawn is for good."""

    ACTIVE = "active"
    SUSPENDED = "suspended"
    REVOKED = "revoked"
    WITHDRAWN = "withdrawn"


class StudyState(StrEnum):
    """A study: rounds open only while it is open."""

    OPEN = "open"
    HELD = "held"
    CLOSED = "closed"
    COMPLETED = "completed"


class ParticipantState(StrEnum):
    """A site within one round."""

    INVITED = "invited"
    SUBMITTED = "submitted"
    DECLINED = "declined"
    DROPPED = "dropped"


class UploadState(StrEnum):
    """An upload: its row is reserved by the manifest, and received when body and audit entry are durable."""

    RESERVED = "reserved"
    RECEIVED = "received"


@dataclass(frozen=True)
class Meta(Row):
    """One fact about the server itself: epoch, high-water mark of the clock, state of the audit tree."""

    KEY = ("key",)
    key: str
    value: str


@dataclass(frozen=True)
class Root(Row):
    """A version of the root document: `envelope` with its signatures, `digest` of the document."""

    KEY = ("version",)
    version: int
    digest: str
    envelope: bytes


@dataclass(frozen=True)
class Token(Row):
    """A one-time enrolment token; only the digest of its secret is kept. `root_digest`: the root document it pins."""

    KEY = ("token_id",)
    token_id: str
    site: str
    secret_digest: str
    issued: int
    expires: int
    state: TokenState
    enrolment_fingerprint: str | None
    root_digest: str = ""


@dataclass(frozen=True)
class Enrolment(Row):
    """A site's request to enrol: `request` is the signed envelope as it came."""

    KEY = ("site", "token_id")
    REFERENCES = (Reference(("token_id",), Token),)
    site: str
    token_id: str
    fingerprint: str
    request: bytes
    state: EnrolmentState
    created: int
    decided: int | None


@dataclass(frozen=True)
class Site(Row):
    """An enrolled site with its three public keys (SPKI DER in URL-safe base64) and their ids."""

    KEY = ("site",)
    UNIQUE = ("signing_key_id", "hpke_key_id", "tls_key_id")
    site: str
    state: SiteState
    signing_key_id: str
    hpke_key_id: str
    tls_key_id: str
    signing_key: str
    hpke_key: str
    tls_key: str
    enrolled: int
    last_seen: int | None


@dataclass(frozen=True)
class Study(Row):
    """A study: `digest` of its study file, `descriptor` the signed envelope. `version` counts published models."""

    KEY = ("study",)
    study: str
    digest: str
    descriptor: bytes
    state: StudyState
    version: int
    rounds_wanted: int
    next_round: int
    created: int


@dataclass(frozen=True)
class Round(Row):
    """A round; `phase` and `outcome` are words of `secureproto_server.phases`."""

    KEY = ("study", "round")
    REFERENCES = (Reference(("study",), Study),)
    study: str
    round: int
    base_version: int
    phase: str
    opened: int
    deadline: int
    quorum: int
    outcome: str | None
    closed: int | None


@dataclass(frozen=True)
class Participant(Row):
    """A site invited to a round; `detail` is a stable word (the reason it declined or was dropped), or empty."""

    KEY = ("study", "round", "site")
    REFERENCES = (Reference(("study", "round"), Round), Reference(("site",), Site))
    study: str
    round: int
    site: str
    state: ParticipantState
    detail: str


@dataclass(frozen=True)
class Upload(Row):
    """One site's upload for one round: the row that makes a replay visible. It outlives the manifest's expiry."""

    KEY = ("study", "round", "sender")
    REFERENCES = (Reference(("study", "round"), Round), Reference(("sender",), Site))
    study: str
    round: int
    sender: str
    manifest_digest: str
    manifest: bytes
    state: UploadState
    received_at: int | None
    receipt: bytes | None
    blob: str


@dataclass(frozen=True)
class Head(Row):
    """The personalised head made for a site, by the version it was published with; sealed to that site.

    `site` is empty for the mean of the heads, which a late joiner starts with. `manifest` says how the blob opens.
    """

    KEY = ("study", "site", "version")
    REFERENCES = (Reference(("study",), Study),)
    study: str
    site: str
    version: int
    blob: str
    manifest: bytes = b""


@dataclass(frozen=True)
class Published(Row):
    """A published model: `blob` is what every site gets, `digest` that of its bytes, `manifest` how it opens."""

    KEY = ("study", "version")
    REFERENCES = (Reference(("study",), Study),)
    study: str
    version: int
    round: int | None
    blob: str
    digest: str
    manifest: bytes = b""


@dataclass(frozen=True)
class Nonce(Row):
    """A nonce of an admin request, kept until no request that carries it can still be valid."""

    KEY = ("nonce",)
    nonce: str
    expires: int


@dataclass(frozen=True)
class AuditEntry(Row):
    """One entry of the audit log: its place, its canonical bytes, and the leaf hash that they had when appended."""

    KEY = ("sequence",)
    sequence: int
    data: bytes
    leaf: bytes = b""


KINDS: tuple[type[Row], ...] = (
    Meta,
    Root,
    Token,
    Enrolment,
    Site,
    Study,
    Round,
    Participant,
    Upload,
    Head,
    Published,
    Nonce,
    AuditEntry,
)


def key_of(row: Row) -> tuple[Value, ...]:
    """The primary key of a row."""
    return tuple(getattr(row, field) for field in type(row).KEY)


def identity(row: Row) -> str:
    """A row's kind and key, for an error message: keys are ids, never secrets."""
    return f"{type(row).__name__.lower()} {'/'.join(str(part) for part in key_of(row))}"

"""What passes between server and site in a round (SECURITY.md, The sealed upload)."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from secureproto.wire.messages.base import Base64, Count, Digest, Hex128, Line, Message, Name, Time


class BroadcastCore(Message):
    """The core that a broadcast body is sealed under (`secureproto.crypto.sealing`)."""

    LABEL: ClassVar[str] = "secureproto/v1/broadcast"
    federation: Name
    epoch: Count
    study: Name
    study_digest: Digest
    schema_digest: Digest
    version: Count
    part: Literal["shared", "head"]
    site: str  # the site that a head is for; empty for the shared part
    plaintext_length: Count


class SealedRef(Message):
    """How to fetch and open one sealed body."""

    core: BroadcastCore
    wrapped: Base64  # the content key, for this site
    ciphertext_length: Count
    ciphertext_digest: Digest


class Release(Message):
    """Version `version` of a study's model, for one site."""

    LABEL: ClassVar[str] = "secureproto/v1/release"
    federation: Name
    epoch: Count
    site: Name
    study: Name
    study_digest: Digest
    version: Count
    round: int  # the round that made it; -1: the initial model
    final: bool  # the study is complete: no further round will follow
    shared: SealedRef
    head: SealedRef
    issued: Time


class Invitation(Message):
    """Come and train: one site's invitation to one round."""

    LABEL: ClassVar[str] = "secureproto/v1/invitation"
    federation: Name
    epoch: Count
    site: Name
    study: Name
    study_digest: Digest
    schema_digest: Digest
    round: Count
    base_version: Count
    opened: Time
    deadline: Time
    grace: Count
    policy_digest: Digest
    recipient_key: Digest
    plaintext_length: Count
    quorum: Count
    invited: Count


class RoundOutcome(Message):
    """How a round that the site was invited to ended."""

    LABEL: ClassVar[str] = "secureproto/v1/round-outcome"
    federation: Name
    study: Name
    round: Count
    outcome: Literal["completed", "quorum_missed", "aborted"]
    version: Count  # the study's version after it


class StudyKnown(Message):
    """What a site already has of a study."""

    study: Name
    answered_round: int  # the last round it has answered (upload received or declined); -1: none
    version: int  # the last version it has installed; -1: none
    outcome_round: int  # the last round whose outcome it has seen; -1: none


class PollRequest(Message):
    """A site's long poll, and its heartbeat; signed by its signing key."""

    LABEL: ClassVar[str] = "secureproto/v1/poll"
    federation: Name
    site: Name
    now: Time
    wait: Annotated[int, Field(ge=0, le=60)]
    root_version: Count
    known: tuple[StudyKnown, ...]
    client_version: Line


class StudyRef(Message):
    """A study that the site may see: its descriptor is at /v1/studies/<study>."""

    study: Name
    study_digest: Digest
    state: Literal["open", "held", "closed", "completed"]


class PollReply(Message):
    """What is new for a site; signed by the server. Empty after `wait` seconds without news."""

    LABEL: ClassVar[str] = "secureproto/v1/poll-reply"
    federation: Name
    epoch: Count
    site: Name
    now: Time
    root_version: Count
    studies: tuple[StudyRef, ...]
    releases: tuple[Release, ...]
    invitations: tuple[Invitation, ...]
    outcomes: tuple[RoundOutcome, ...]


class PrivacyReceipt(Message):
    """What protects the numbers in an upload (PRIVACY.md). Until there is differential privacy: nothing does."""

    protection: Literal["unprotected"]
    unit: Literal["record"]
    adjacency: Literal["add_remove"]
    epsilon: Literal["inf"]
    delta: Literal["0"]


UNPROTECTED = PrivacyReceipt(
    protection="unprotected", unit="record", adjacency="add_remove", epsilon="inf", delta="0"
)


class UploadCore(Message):
    """The core of an upload's manifest (SECURITY.md, The sealed upload)."""

    LABEL: ClassVar[str] = "secureproto/v1/upload"
    suite: Literal["p256"]
    federation: Name
    epoch: Count
    study: Name
    round: Count
    attempt: Annotated[int, Field(ge=1, le=10_000)]
    study_digest: Digest
    schema_digest: Digest
    sender: Name
    sender_key: Digest
    recipient_key: Digest
    upload_id: Hex128
    issued: Time
    expires: Time
    policy_digest: Digest
    receipt: PrivacyReceipt
    ledger_head: Digest  # SHA-256 of nothing until there is a ledger
    plaintext_length: Count


class UploadReceipt(Message):
    """Proof that the server took an upload: its log entry and inclusion proof; signed by the server."""

    LABEL: ClassVar[str] = "secureproto/v1/receipt"
    federation: Name
    epoch: Count
    study: Name
    round: Count
    site: Name
    manifest_digest: Digest
    protection: Literal["unprotected"]
    received: Time
    entry: Base64  # the canonical audit entry
    sequence: Count
    proof: tuple[Digest, ...]
    checkpoint: Base64  # the signed checkpoint text that the proof leads to


class Refusal(Message):
    """A site says no to a round, with reasons a machine can read; signed by the site."""

    LABEL: ClassVar[str] = "secureproto/v1/refusal"
    federation: Name
    epoch: Count
    study: Name
    round: Count
    site: Name
    reasons: tuple[
        Literal[
            "policy",
            "budget",
            "operator_approval",
            "study_not_accepted",
            "model_not_allowed",
            "data_unusable",
        ],
        ...,
    ]
    issued: Time

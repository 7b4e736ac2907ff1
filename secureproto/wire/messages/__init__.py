"""Every message of the protocol, one frozen class each. SPEC.md shows them as bytes."""

from secureproto.wire.messages.administration import AdminRequest, Problem
from secureproto.wire.messages.base import Message
from secureproto.wire.messages.identity import (
    EnrolmentReply,
    EnrolmentRequest,
    InviteToken,
    Person,
    PublicKeys,
    RenewalRequest,
    RootDocument,
    ServerKeys,
    SiteEntry,
)
from secureproto.wire.messages.rounds import (
    UNPROTECTED,
    BroadcastCore,
    Invitation,
    PollReply,
    PollRequest,
    PrivacyReceipt,
    Refusal,
    Release,
    RoundOutcome,
    SealedRef,
    StudyKnown,
    StudyRef,
    UploadCore,
    UploadReceipt,
)
from secureproto.wire.messages.study import ModelSchema, StudyDescriptor, TensorEntry

__all__ = [
    "UNPROTECTED",
    "AdminRequest",
    "BroadcastCore",
    "EnrolmentReply",
    "EnrolmentRequest",
    "Invitation",
    "InviteToken",
    "Message",
    "ModelSchema",
    "Person",
    "PollReply",
    "PollRequest",
    "PrivacyReceipt",
    "Problem",
    "PublicKeys",
    "Refusal",
    "Release",
    "RenewalRequest",
    "RootDocument",
    "RoundOutcome",
    "SealedRef",
    "ServerKeys",
    "SiteEntry",
    "StudyDescriptor",
    "StudyKnown",
    "StudyRef",
    "TensorEntry",
    "UploadCore",
    "UploadReceipt",
]

"""What an operator's requests say: canonical JSON, each of one frozen form."""

from typing import Annotated

from pydantic import Field

from secureproto.wire.messages.base import Base64, Digest, Message, Name

Reason = Annotated[str, Field(min_length=1, max_length=300, pattern=r"^[^\x00-\x1f\x7f]*$")]


class IssueToken(Message):
    """POST /v1/admin/tokens"""

    site: Name
    hours: Annotated[int, Field(ge=1, le=24)]


class Approve(Message):
    """POST /v1/admin/enrolments/{site}/approve: `root` is the new root document, signed."""

    fingerprint: Digest
    root: Base64


class Because(Message):
    """Whatever a person must give a reason for."""

    reason: Reason


class OpenRounds(Message):
    """POST /v1/admin/studies/{study}/rounds"""

    rounds: Annotated[int, Field(ge=1, le=1_000_000)]

"""What an operator signs, and how a refusal is written."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from secureproto.wire.messages.base import Count, Digest, Hex128, Line, Message, Name, Time


class AdminRequest(Message):
    """What an admin request's signature covers; the envelope travels in the Authorization header."""

    LABEL: ClassVar[str] = "secureproto/v1/admin-request"
    federation: Name
    epoch: Count
    method: Literal["GET", "POST"]
    path: Line
    body_digest: Digest
    meaning: Line  # what the person says they are doing, e.g. "approve site cleveland"
    nonce: Hex128
    issued: Time
    expires: Time


class Problem(Message):
    """A refusal's body (RFC 9457, application/problem+json)."""

    type: Line
    title: Line
    status: Annotated[int, Field(ge=400, le=599)]
    detail: Line
    hint: Line

"""What every message is: frozen, strict, with exactly one encoding.

Invariants: a message has exactly one encoding (`canonical`); `parse` accepts nothing else, no unknown key, no
coerced type; what is signed is the label of the class and those bytes, so that no message can stand for another.
"""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from secureproto.errors import Rejected
from secureproto.wire import canonical
from secureproto.wire.reasons import Reason

Name = Annotated[str, Field(pattern=r"^[a-z0-9](-?[a-z0-9])*$", max_length=63)]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Hex128 = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
Base64 = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]*$")]  # RFC 4648 §5, without padding
Time = Annotated[int, Field(ge=0, le=2**40)]  # seconds since the epoch, UTC
Count = Annotated[int, Field(ge=0, le=2**40)]
Line = Annotated[str, Field(max_length=300, pattern=r"^[^\x00-\x1f\x7f-\x9f]*$")]
Dtype = Literal["F32", "F64", "I64"]


class Message(BaseModel):
    """A message: frozen, strict, without unknown keys. `LABEL` separates its signatures from all others."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")
    LABEL: ClassVar[str] = ""

    def canonical(self) -> bytes:
        """The message's only encoding."""
        return canonical.encode(self.model_dump(mode="json"))

    def digest(self) -> str:
        """Hex SHA-256 of the encoding under the label."""
        return canonical.labelled_digest(self.LABEL, self.canonical())

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """The message in `data`.

        Raises:
            Rejected: MALFORMED, naming the field but never its value.
        """
        value = canonical.decode(data)
        try:
            message = cls.model_validate_json(data) if isinstance(value, dict) else None
        except ValidationError as error:
            where = ".".join(str(part) for part in error.errors()[0]["loc"]) or "the whole"
            raise Rejected(Reason.MALFORMED, f"{cls.__name__}: {where[:80]} does not fit") from None
        if message is None or message.canonical() != data:
            raise Rejected(Reason.MALFORMED, f"{cls.__name__}: not in canonical form")
        return message

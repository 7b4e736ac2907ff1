"""One entry of the log: what happened (Event), and where it stands (Entry).

Invariants: an entry has one encoding, its canonical bytes, which are the leaf of the tree; every action says what
`vocabulary.NEEDS` asks of it; absent text is "", an absent round -1.
"""

from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from secureproto.audit.vocabulary import NEEDS, REFUSALS, Action, ClockSource, Detail, Result, Role
from secureproto.wire.messages.base import Count, Line, Message, Time
from secureproto.wire.reasons import Reason

MAX_ENTRY_BYTES = 16 * 1024  # with every field at its bound, four bytes a character: 14 KiB
MAX_DETAILS = 8  # the longest entry of today has 4

Who = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[^\x00-\x1f\x7f]*$")]
OptionalName = Annotated[str, Field(pattern=r"^([a-z0-9](-?[a-z0-9])*)?$", max_length=63)]
OptionalDigest = Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")]
Round = Annotated[int, Field(ge=-1, le=2**40)]
Number = Annotated[int, Field(ge=-(2**53) + 1, le=2**53 - 1)]


class Event(Message):
    """What happened: who did what to which object, and how it ended."""

    LABEL: ClassVar[str] = "secureproto/v1/audit-event"
    actor: Who  # site id, person's name, or "server"
    role: Role
    action: Action
    result: Result = Result.DONE
    object: Line = ""  # what it was done to: a site, a study, a request
    object_digest: OptionalDigest = ""
    before: OptionalDigest = ""  # digest of the object's state before, where there is one
    after: OptionalDigest = ""
    study: OptionalName = ""
    round: Round = -1
    reason: Line = ""  # of a refusal: a Reason; else the words of whoever acted
    meaning: Line = ""  # what the person declared by signing (21 CFR 11.50)
    policy_digest: OptionalDigest = ""
    details: dict[Detail, Line | Number] = Field(default_factory=dict, max_length=MAX_DETAILS)

    @model_validator(mode="after")
    def _complete(self) -> Self:
        for name in sorted(NEEDS[self.action]):
            if name not in self.details and getattr(self, name, "") in ("", -1):
                raise ValueError(f"{self.action} needs {name}")
        if self.action in REFUSALS and self.result is not Result.REFUSED:
            raise ValueError(f"{self.action} has the result refused")
        if self.action is Action.UPLOAD_REJECTED and self.reason not in frozenset(Reason):
            raise ValueError("upload_rejected needs a reason of the one Reason enum")
        return self


class Entry(Event):
    """An event at its place in the log."""

    LABEL: ClassVar[str] = "secureproto/v1/audit-entry"
    sequence: Count  # from 0, without gaps: the leaf's index
    time: Time
    clock: ClockSource

    @classmethod
    def of(cls, event: Event, *, sequence: int, time: int, clock: ClockSource) -> "Entry":
        """The entry that `event` becomes."""
        return cls.model_validate({**dict(event), "sequence": sequence, "time": time, "clock": clock})

"""Errors, by whose fault they are. No error exits the process: only `secureproto.cli` maps families to exit codes.

    SecureProtoError                 exit 1
    ├── Misconfigured                2   ours: settings, arguments, files of this host
    ├── Unavailable                  3   nobody's: try again (time-out, connection refused, disk full)
    ├── Rejected                     4   the peer's input was refused; carries a Reason
    ├── PolicyDenied                 5   a rule said no; carries the rules
    │   └── BudgetExhausted          5   never retried
    ├── IntegrityBroken              6   alarm: a signature, hash or chain does not hold
    ├── Conflict                     7   the state forbids it
    │   └── NotFound                 7
    ├── Partial                      8   some of it was done
    └── ApprovalNeeded               9   waits for another person

Misuse by our own code stays ValueError or TypeError.
"""

from enum import StrEnum
from typing import ClassVar


class SecureProtoError(Exception):
    """Root of the family.

    `message` is one line: what was wrong and where. `hint` is one line: what to do. Neither may ever hold a
    value of a record, a tensor or a secret: they are logged and sent to peers.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class Misconfigured(SecureProtoError):
    """Settings, arguments or files of this host are wrong."""

    exit_code = 2


class Unavailable(SecureProtoError):
    """Something needed is not there now; the same call may work later."""

    exit_code = 3


class Rejected(SecureProtoError):
    """A peer's input was refused. `reason` is a member of `secureproto.wire.reasons.Reason`."""

    exit_code = 4

    def __init__(self, reason: StrEnum, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.reason = reason


class PolicyDenied(SecureProtoError):
    """A rule of the study, the site or a policy forbids it. `reasons` are stable rule ids."""

    exit_code = 5

    def __init__(self, message: str, *, reasons: tuple[str, ...] = (), hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.reasons = reasons


class BudgetExhausted(PolicyDenied):
    """A privacy budget would be exceeded. Never retried."""


class IntegrityBroken(SecureProtoError):
    """A signature, digest, chain or proof does not hold. Raises an alarm; never retried."""

    exit_code = 6


class Conflict(SecureProtoError):
    """The present state forbids the request."""

    exit_code = 7


class NotFound(Conflict):
    """The thing named does not exist."""


class Partial(SecureProtoError):
    """Some of the work was done, some was not; the message says which."""

    exit_code = 8


class ApprovalNeeded(SecureProtoError):
    """Recorded, and waits for another person."""

    exit_code = 9

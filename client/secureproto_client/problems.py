"""Replies of the server as results or errors: a problem document becomes the error of its family, once more.

A reply that is neither what was asked for nor a problem document is not our server's (a proxy, a portal): that is
`Unavailable`, to be tried again, and its text is never shown.
"""

from secureproto.errors import (
    ApprovalNeeded,
    Conflict,
    IntegrityBroken,
    Misconfigured,
    NotFound,
    PolicyDenied,
    Rejected,
    SecureProtoError,
    Unavailable,
)
from secureproto.wire.messages import Problem
from secureproto.wire.reasons import PROBLEM_PREFIX, Reason
from secureproto_client.transport.seam import Reply

FAMILIES: dict[str, type[SecureProtoError]] = {
    "misconfigured": Misconfigured,
    "unavailable": Unavailable,
    "policy_denied": PolicyDenied,
    "integrity_broken": IntegrityBroken,
    "conflict": Conflict,
    "not_found": NotFound,
    "approval_needed": ApprovalNeeded,
}
BUSY = frozenset({408, 429, 500, 502, 503, 504, 507})  # passing trouble, of the server or a proxy


def demand(reply: Reply, *statuses: int) -> bytes:
    """The body of a reply whose status is one of `statuses`.

    Raises:
        Rejected, Conflict, ...: the problem that the server wrote, as the error of its family.
        Unavailable: anything else.
    """
    if reply.status in statuses:
        return reply.body
    raise _error(reply)


def _error(reply: Reply) -> SecureProtoError:
    try:
        problem = Problem.parse(reply.body)
    except Rejected:
        return Unavailable(f"HTTP status {reply.status} without a problem document: not our server's answer")
    name = problem.type.removeprefix(PROBLEM_PREFIX)
    detail, hint = f"the server says: {problem.detail or problem.title}", problem.hint
    if name in frozenset(Reason) and reply.status not in BUSY:
        return Rejected(Reason(name), detail, hint=hint)
    if name in FAMILIES:
        return FAMILIES[name](detail, hint=hint)
    return (Unavailable if reply.status in BUSY else Conflict)(detail, hint=hint)

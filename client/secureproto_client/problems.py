"""Replies of the server as results or errors: a problem document becomes the error of its family, once more.

A reply that is neither what was asked for nor a problem document is not our server's (a proxy, a portal): that is
`Unavailable`, to be tried again, and its text is never shown.
"""

from secureproto.errors import IntegrityBroken, Rejected, SecureProtoError, Unavailable
from secureproto.wire.messages import Problem
from secureproto.wire.problems import error_of
from secureproto_client.transport.seam import Reply

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
    told = error_of(problem.model_copy(update={"detail": f"the server says: {problem.detail or problem.title}"}))
    # a proxy's or the server's passing trouble is tried again, whatever it is called; a refusal is not
    passing = reply.status in BUSY and not isinstance(told, IntegrityBroken)
    return Unavailable(told.message, hint=told.hint) if passing else told

"""Who sends an admin request: signed whatever the address, once, for this server, this path and this body.

    1. The envelope is signed by a person of the root document in force, in the role of operator.
    2. It is for this federation and epoch, this method and path, and this body.
    3. It is valid now, and not for longer than an admin request may be.
    4. Its nonce was never seen: it is kept, durably, before anything is done.

There is no password and no session: every request stands for itself.
"""

from hashlib import sha256

from secureproto.audit.entries import Event
from secureproto.audit.vocabulary import Action, Detail, Result, Role
from secureproto.clock import seconds
from secureproto.crypto.envelope import peek_key, verify
from secureproto.errors import Conflict, Rejected
from secureproto.wire import base64url
from secureproto.wire.limits import LIMITS
from secureproto.wire.messages import AdminRequest, Person
from secureproto.wire.reasons import Reason
from secureproto_server import roots
from secureproto_server.services import Services
from secureproto_server.storage.records import Nonce

SCHEME = "SecureProto "


def operator(services: Services, *, authorization: str, method: str, path: str, body: bytes) -> Person:
    """The operator who sent the request.

    Raises:
        Rejected: one of the checks fails; counted, and logged when a person of the root document signed it.
    """
    person: Person | None = None
    try:
        if not authorization.startswith(SCHEME):
            raise Rejected(Reason.UNKNOWN_KEY, "an admin request is signed", hint="use the secureproto command")
        envelope = base64url.decode(authorization.removeprefix(SCHEME))
        with services.store.transaction("authenticate operator") as tx:
            root = roots.in_force(tx)
        person = roots.person_of(root, peek_key(envelope))
        request = verify(envelope, AdminRequest, roots.people_keys(root))
        if person is None or person.role != "operator":
            raise Rejected(Reason.UNKNOWN_KEY, "only an operator may ask this")
        _check(services, request, method, path, sha256(body).hexdigest())
        _use_nonce(services, request)
    except Rejected as error:
        _note(services, error, person, request=f"{method} {path}")
        raise
    return person


def _check(services: Services, request: AdminRequest, method: str, path: str, digest: str) -> None:
    if request.federation != services.federation or request.epoch != services.epoch:
        raise Rejected(Reason.WRONG_FEDERATION, "the request is for another federation or epoch of this server")
    if (request.method, request.path, request.body_digest) != (method, path, digest):
        raise Rejected(Reason.BAD_SIGNATURE, "the request is not the one that was signed")
    now = seconds(services.clock)
    if request.expires - request.issued > LIMITS.admin_seconds:
        raise Rejected(Reason.STALE, "the request would be valid too long")
    if request.issued > now + LIMITS.admin_seconds or request.expires < now:
        raise Rejected(Reason.STALE, "the request is not valid now", hint="compare the clocks of desk and server")


def _use_nonce(services: Services, request: AdminRequest) -> None:
    with services.store.transaction("use nonce") as tx:
        try:
            tx.insert(Nonce(request.nonce, request.expires + LIMITS.admin_seconds))
        except Conflict:
            raise Rejected(Reason.REPLAYED, "the request was sent before") from None


def _note(services: Services, error: Rejected, person: Person | None, *, request: str) -> None:
    services.metrics.auth_failed("admin", Reason(error.reason))
    if person is None:
        return  # a stranger cannot make the log grow
    with services.store.transaction("log refused admin request") as tx:
        event = Event(
            actor=person.name,
            role=Role(person.role),
            action=Action.ADMIN_REFUSED,
            result=Result.REFUSED,
            reason=str(error.reason),
            details={Detail.REQUEST: request[:300]},
        )
        services.log.append(tx, event)

"""Who sends an admin request: signed whatever the address, once, for this server, this path and this body.

    1. The envelope is signed by a person of the root document in force, in the role of operator.
    2. It is for this federation and epoch, this method and path.
    3. It is valid now, and not for longer than an admin request may be.
    4. The body, read only now (a stranger's is never held in memory), is the one that was signed.
    5. Its nonce was never seen: it is kept, durably, before anything is done.

There is no password and no session: every request stands for itself. A refused request is logged when the signature
of a person of the root document is under it; a key id alone names nobody, for the root document shows it to all.
"""

from dataclasses import dataclass
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


@dataclass(frozen=True)
class Signed:
    """A request that passed steps 1 to 3: whose it is, and what was signed."""

    person: Person
    request: AdminRequest


def signed(services: Services, *, authorization: str, method: str, path: str) -> Signed:
    """Steps 1 to 3, before the body is read.

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
        request = verify(envelope, AdminRequest, roots.people_keys(root))
        person = roots.person_of(root, peek_key(envelope))
        if person is None or person.role != "operator":
            raise Rejected(Reason.UNKNOWN_KEY, "only an operator may ask this")
        _check(services, request, method, path)
    except Rejected as error:
        _note(services, error, person, request=f"{method} {path}")
        raise
    return Signed(person, request)


def confirm(services: Services, asked: Signed, body: bytes) -> Person:
    """Steps 4 and 5: the operator who sent the request with this body.

    Raises:
        Rejected: as `signed`.
    """
    try:
        if asked.request.body_digest != sha256(body).hexdigest():
            raise Rejected(Reason.BAD_SIGNATURE, "the request's body is not the one that was signed")
        _use_nonce(services, asked.request)
    except Rejected as error:
        _note(services, error, asked.person, request=f"{asked.request.method} {asked.request.path}")
        raise
    return asked.person


def operator(services: Services, *, authorization: str, method: str, path: str, body: bytes) -> Person:
    """The operator who sent a request whose body is there already. Raises: as `signed` and `confirm`."""
    return confirm(services, signed(services, authorization=authorization, method=method, path=path), body)


def _check(services: Services, request: AdminRequest, method: str, path: str) -> None:
    if request.federation != services.federation or request.epoch != services.epoch:
        raise Rejected(Reason.WRONG_FEDERATION, "the request is for another federation or epoch of this server")
    if (request.method, request.path) != (method, path):
        raise Rejected(Reason.BAD_SIGNATURE, "the request is not the one that was signed")
    now = seconds(services.clock)
    if not 0 <= request.expires - request.issued <= LIMITS.admin_seconds:
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

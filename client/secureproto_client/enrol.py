"""Enrolment at the site: from an invitation to a site that the roster names.

    1  read the invitation; the root document in it must have the digest that the invitation names
    2  make the three key pairs here, if they are not there: they never leave this host
    3  send one request, signed by the new signing key, with the one-time token
    4  show the fingerprint: the operator compares it with what the site's engineer reads out on the telephone
    5  ask again until a person has decided
    6  take the certificates: for our key, our name, under the federation's CA
    7  follow the root document to the version that names us, with exactly our keys

Idempotent: run again after any interruption it goes on with the same keys. What the caller owes: the invitation
reached the site by a channel that keeps a secret and cannot be forged.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from secureproto.clock import Clock, seconds
from secureproto.crypto import envelope
from secureproto.crypto.certificates import new_csr
from secureproto.errors import ApprovalNeeded, IntegrityBroken, Misconfigured, Rejected
from secureproto.wire import base64url
from secureproto.wire.messages import EnrolmentReply, EnrolmentRequest, InviteToken
from secureproto.wire.reasons import Reason
from secureproto_client import identity as identities
from secureproto_client import roots
from secureproto_client.certificates import install
from secureproto_client.identity import Identity, SiteFile
from secureproto_client.link import Link
from secureproto_client.paths import SitePaths
from secureproto_client.problems import demand
from secureproto_client.transport.seam import Reply, Transport
from secureproto_client.trust import Trust, demand_own_keys, pinned

PATH = "/v1/enrolments"
ASK_AGAIN = 3.0  # seconds between two questions whether a person has decided

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Enrolling:
    """A site on its way in: its invitation, keys, and the line to the server."""

    paths: SitePaths
    token: InviteToken
    identity: Identity
    link: Link
    clock: Clock


def read_invitation(path: Path) -> tuple[InviteToken, Trust]:
    """The invitation in a file, and the root document it brings.

    Raises:
        Misconfigured: unreadable or no invitation.
        IntegrityBroken: its root document is not the one it names, or not signed by its own people.
    """
    try:
        token = InviteToken.parse(base64url.decode(path.read_text(encoding="ascii").strip()))
        signed = base64url.decode(token.root)
    except OSError as error:
        raise Misconfigured(f"{path}: cannot be read: {error.strerror}", hint="give the operator's file") from None
    except (Rejected, ValueError):
        raise Misconfigured(f"{path}: is not an invitation", hint="ask the operator to send the file again") from None
    try:
        return token, pinned(signed, token.root_digest)
    except IntegrityBroken as error:
        raise IntegrityBroken(
            f"{path}: the invitation does not hold: {error.message}",
            hint="it was changed on its way: ask the operator",
        ) from None


def prepare(paths: SitePaths, token: InviteToken, trust: Trust, passphrase: bytes) -> Identity:
    """Steps 1 and 2: all that the site needs on its disk before it speaks to anybody.

    Raises:
        Conflict: the directory belongs to another site or federation.
    """
    paths.make()
    site = SiteFile(federation=token.federation, site=token.site, server=token.server, root_digest=token.root_digest)
    identities.write_site_file(paths, site)
    if not list(paths.roots.glob("*.json")):
        roots.store(paths, trust)
    identities.make_keys(paths, passphrase)
    return identities.load(paths, passphrase)


def ask(enrolling: Enrolling) -> EnrolmentReply:
    """Steps 3 to 5, once: the server's decision so far.

    Raises:
        Rejected: the token is unknown, expired, used by other keys, or for another site.
    """
    body = envelope.sign(request(enrolling), enrolling.identity.signer)

    def once(transport: Transport) -> EnrolmentReply:
        return _read(enrolling.link.trust, transport.post(PATH, body))

    reply = enrolling.link.ask_bare(once)
    mine = request(enrolling).fingerprint()
    if (reply.federation, reply.site, reply.fingerprint) != (enrolling.token.federation, enrolling.token.site, mine):
        raise Rejected(Reason.MALFORMED, "the server's answer is about another enrolment")
    return reply


def request(enrolling: Enrolling) -> EnrolmentRequest:
    """What the site asks. Whether the invitation has expired is the server's to say: once used, it stays good for
    the keys that used it, however long a person takes to decide."""
    now, token, me = seconds(enrolling.clock), enrolling.token, enrolling.identity
    return EnrolmentRequest(
        federation=token.federation,
        site=token.site,
        token=token.token,
        secret=token.secret,
        root_digest=token.root_digest,
        keys=me.keys,
        csr=base64url.encode(new_csr(me.tls, token.federation, token.site)),
        issued=now,
    )


def complete(enrolling: Enrolling, reply: EnrolmentReply) -> None:
    """Steps 6 and 7, of an approved enrolment.

    Raises:
        IntegrityBroken: certificates or roster are not about this site's own keys.
    """
    link, me = enrolling.link, enrolling.identity
    install(enrolling.paths, reply.certificates, me, link.trust)
    link.certificate = me.certificate
    link.renew()
    trust = roots.follow(enrolling.paths, link.trust, reply.root_version, lambda n: fetch_root(link, n))
    demand_own_keys(trust, me.site, me.keys)
    link.renew(trust)


def fetch_root(link: Link, version: int) -> bytes:
    """The signed root document of a version, not verified."""
    return link.ask(lambda transport: demand(transport.get(f"/v1/roots/{version}"), 200))


def enrol(
    enrolling: Enrolling, *, wait: bool, sleep: Callable[[float], None], pending: Callable[[], None] = lambda: None
) -> None:
    """Steps 3 to 7. `pending` is called once when a person has yet to decide: what they must compare is shown then.

    Raises:
        ApprovalNeeded: nobody has decided yet, and `wait` is off.
        Rejected: refused, or denied by a person.
    """
    reply = ask(enrolling)
    if reply.state == "pending":
        pending()
    while reply.state == "pending" and wait:
        sleep(ASK_AGAIN)
        reply = ask(enrolling)
    if reply.state == "pending":
        raise ApprovalNeeded(
            "the request is with the operator", hint="read the fingerprint to them, then run the same command again"
        )
    if reply.state == "denied":
        raise Rejected(Reason.UNKNOWN_KEY, "the operator denied this enrolment", hint="ask them why")
    complete(enrolling, reply)


def _read(trust: Trust, reply: Reply) -> EnrolmentReply:
    if reply.status == 403 and b'"payload"' in reply.body:  # denied: still a signed answer, not a problem document
        return trust.from_server(reply.body, EnrolmentReply)
    return trust.from_server(demand(reply, 200, 202), EnrolmentReply)

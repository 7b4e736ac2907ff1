"""Who may take part: tokens, approvals, and the deny-list. What an operator decides about sites.

Invariants: every decision is one transaction with its audit entry; the deny-list is the state of a site's row, read
at each request and again when a round is aggregated, so a decision is in force at once; approval takes a root
document signed at the operator's desk and checks that it does nothing but what was asked.
"""

import hmac
import secrets
from dataclasses import replace
from hashlib import sha256

from secureproto.audit.entries import Event
from secureproto.audit.vocabulary import Action, Detail, Result, Role
from secureproto.clock import seconds
from secureproto.crypto.envelope import verify_self_signed
from secureproto.crypto.keys import PublicKey
from secureproto.errors import Conflict, NotFound
from secureproto.wire import base64url
from secureproto.wire.limits import LIMITS
from secureproto.wire.messages import EnrolmentRequest, InviteToken, Person, PublicKeys, RootDocument
from secureproto_server import roots, roster
from secureproto_server.services import Services
from secureproto_server.storage.records import (
    Enrolment,
    EnrolmentState,
    Root,
    Site,
    SiteState,
    Token,
    TokenState,
)
from secureproto_server.storage.store import Transaction

# verb -> (state it needs, state it makes, entry); a revoked key stays revoked: the site enrols with new ones
VERBS: dict[str, tuple[frozenset[SiteState], SiteState, Action]] = {
    "suspend": (frozenset({SiteState.ACTIVE}), SiteState.SUSPENDED, Action.SITE_SUSPENDED),
    "resume": (frozenset({SiteState.SUSPENDED}), SiteState.ACTIVE, Action.SITE_RESUMED),
    "revoke": (frozenset({SiteState.ACTIVE, SiteState.SUSPENDED}), SiteState.REVOKED, Action.SITE_REVOKED),
}


def issue_token(services: Services, person: Person, *, site: str, hours: int) -> InviteToken:
    """A new one-time token for a site. Until it is used only the digest of its secret lies here; the request that
    uses it up is kept as it was signed, with the secret, which then opens nothing any more.

    Raises:
        Conflict: over the longest life of a token.
    """
    if not 1 <= hours * 3600 <= LIMITS.token_seconds:
        raise Conflict(f"a token lives 1 to {LIMITS.token_seconds // 3600} hours")
    token, secret, now = secrets.token_hex(16), secrets.token_bytes(32), seconds(services.clock)
    expires = now + hours * 3600
    with services.store.transaction("issue token") as tx:
        root = roots.row_in_force(tx)
        digest = sha256(secret).hexdigest()
        tx.insert(Token(token, site, digest, now, expires, TokenState.ISSUED, None, root.digest))
        event = Event(
            actor=person.name,
            role=Role(person.role),
            action=Action.TOKEN_ISSUED,
            object=site,
            details={Detail.TOKEN: token, Detail.EXPIRES: expires},
        )
        services.log.append(tx, event)
    return InviteToken(
        federation=services.federation,
        site=site,
        server=services.public_url,
        token=token,
        secret=base64url.encode(secret),
        expires=expires,
        root_digest=root.digest,
        root=base64url.encode(root.envelope),
    )


def approve(services: Services, person: Person, *, site: str, fingerprint: str, envelope: bytes) -> RootDocument:
    """Put a pending site on the roster, with the root document that names it.

    Raises:
        NotFound: nobody of that name waits. Conflict: another fingerprint, or a root document that does not fit.
        Rejected: the root document is not signed as it must be.
    """
    now = seconds(services.clock)
    with services.store.transaction("approve site") as tx:
        enrolment = _pending(tx, site)
        if not hmac.compare_digest(enrolment.fingerprint, fingerprint):
            raise Conflict(
                f"the keys that {site} sent do not have the fingerprint given",
                hint="compare it with the site by telephone; deny the request if it differs",
            )
        request = verify_self_signed(
            enrolment.request, EnrolmentRequest, lambda r: PublicKey.from_b64(r.keys.signing)
        )
        roster.require_not_retired(tx, site, request.keys)  # it may have been revoked since it asked
        before = roots.in_force(tx)
        root = roots.successor(envelope, before, now=now)
        roots.roster_change(root, before, site=site, keys=request.keys)
        tx.insert(Root(root.version, root.digest(), envelope))
        tx.put(_site_row(tx, site, request.keys, now))
        tx.put(replace(enrolment, state=EnrolmentState.APPROVED, decided=now))
        _log_approval(services, tx, person, enrolment, before, root)
    services.tell_sites()
    return root


def deny(services: Services, person: Person, *, site: str, reason: str) -> None:
    """Refuse a pending site.

    Raises:
        NotFound: nobody of that name waits.
    """
    with services.store.transaction("deny site") as tx:
        enrolment = _pending(tx, site)
        tx.put(replace(enrolment, state=EnrolmentState.DENIED, decided=seconds(services.clock)))
        event = Event(
            actor=person.name,
            role=Role(person.role),
            action=Action.SITE_DENIED,
            result=Result.REFUSED,
            object=site,
            reason=reason,
        )
        services.log.append(tx, event)
    services.tell_sites()


def set_state(services: Services, person: Person, *, site: str, verb: str, reason: str) -> SiteState:
    """Suspend, resume or revoke a site; returns its new state.

    Raises:
        NotFound: no such site. Conflict: its state does not allow the verb.
    """
    needed, made, action = VERBS[verb]
    with services.store.transaction(f"{verb} site") as tx:
        row = tx.get(Site, site)
        if row is None:
            raise NotFound(f"there is no site {site}", hint="secureproto site list")
        if row.state not in needed:
            raise Conflict(f"{site} is {row.state}: it cannot be changed by {verb}")
        tx.put(replace(row, state=made))
        event = Event(actor=person.name, role=Role(person.role), action=action, object=site, reason=reason)
        services.log.append(tx, event)
    services.tell_sites()
    return made


def _pending(tx: Transaction, site: str) -> Enrolment:
    waiting = tx.select(Enrolment, site=site, state=EnrolmentState.PENDING)
    if not waiting:
        raise NotFound(f"no request of {site} waits for approval", hint="secureproto site list")
    return waiting[-1]


def _site_row(tx: Transaction, site: str, keys: PublicKeys, now: int) -> Site:
    known = tx.get(Site, site)
    signing, hpke, tls = (PublicKey.from_b64(text).key_id for text in (keys.signing, keys.hpke, keys.tls))
    row = Site(
        site, SiteState.ACTIVE, signing, hpke, tls, keys.signing, keys.hpke, keys.tls, enrolled=now, last_seen=None
    )
    return row if known is None else replace(row, last_seen=known.last_seen)


def _log_approval(
    services: Services,
    tx: Transaction,
    person: Person,
    enrolment: Enrolment,
    before: RootDocument,
    root: RootDocument,
) -> None:
    approved = Event(
        actor=person.name,
        role=Role(person.role),
        action=Action.SITE_APPROVED,
        object=enrolment.site,
        object_digest=enrolment.fingerprint,
    )
    services.log.append(tx, approved)
    published = Event(
        actor=person.name,
        role=Role(person.role),
        action=Action.ROOT_PUBLISHED,
        before=before.digest(),
        after=root.digest(),
        details={Detail.ROOT_VERSION: root.version},
    )
    services.log.append(tx, published)

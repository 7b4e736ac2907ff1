"""Enrolment: from a one-time token to a site on the roster (SECURITY.md, Identity and enrolment).

A request is checked in this order:
    1. It is signed by the signing key it brings, and is for this federation.
    2. Its three keys are P-256 and differ; its certificate request is for its TLS key and for its site.
    3. The token exists, its secret fits, it is for this site and names the root document the request names.
    4. The token is unused and not expired, or was used by these same keys (a poll).
Then the token is used up, in one transaction with the request and the audit entry, and the request waits for a
person (`admission`). Certificates are issued to approved sites only, for the TLS key that was enrolled.

Invariants: a token is used once; enrolment touches no other site; a stranger learns no more than that an
invitation is not known.
"""

import hmac
from dataclasses import replace
from hashlib import sha256

from cryptography.hazmat.primitives.serialization import Encoding

from secureproto.audit.entries import Event
from secureproto.audit.vocabulary import Action, Detail, Role
from secureproto.clock import seconds
from secureproto.crypto.certificates import client_certificate, key_of_csr
from secureproto.crypto.envelope import sign, verify, verify_self_signed
from secureproto.crypto.keys import PublicKey
from secureproto.errors import Rejected
from secureproto.wire import base64url, canonical
from secureproto.wire.limits import LIMITS
from secureproto.wire.messages import EnrolmentReply, EnrolmentRequest, PublicKeys, RenewalRequest
from secureproto.wire.reasons import Reason
from secureproto_server import roots, roster
from secureproto_server.services import Services
from secureproto_server.storage.records import Enrolment, EnrolmentState, Site, Token, TokenState
from secureproto_server.storage.store import Transaction


def enrol(services: Services, body: bytes) -> tuple[int, bytes]:
    """Take an enrolment request or a poll for its decision; returns HTTP status and the signed reply.

    Raises:
        Rejected: a check of the list above.
    """
    request = verify_self_signed(body, EnrolmentRequest, lambda r: PublicKey.from_b64(r.keys.signing))
    if request.federation != services.federation:
        raise Rejected(Reason.WRONG_FEDERATION, "the request is for another federation")
    _check_keys(request)
    fingerprint = request.fingerprint()
    with services.store.transaction("enrol site") as tx:
        token = _token_for(tx, request, fingerprint, now=seconds(services.clock))
        if token.state is TokenState.ISSUED:
            _use(services, tx, token, request, body)
        enrolment = tx.get(Enrolment, request.site, request.token)
        if enrolment is None:
            raise Rejected(Reason.REPLAYED, "the invitation was used for another request")
        certificates: tuple[str, ...] = ()
        if enrolment.state is EnrolmentState.APPROVED:
            site = roster.require_active(tx.get(Site, request.site))
            certificates = _certificates(services, tx, site, Action.CERTIFICATE_ISSUED)
        version = roots.in_force(tx).version
    reply = EnrolmentReply(
        federation=services.federation,
        site=request.site,
        state=enrolment.state.value,
        fingerprint=fingerprint,
        certificates=certificates,
        root_version=version,
        now=seconds(services.clock),
    )
    status = {EnrolmentState.PENDING: 202, EnrolmentState.APPROVED: 200, EnrolmentState.DENIED: 403}
    return status[enrolment.state], sign(reply, services.identity.signer)


def renew(services: Services, body: bytes) -> bytes:
    """A new TLS certificate for an enrolled site, asked for with its signing key.

    Raises:
        Rejected: not signed by an active site, stale, or for another TLS key than the enrolled one.
    """
    with services.store.transaction("renew certificate") as tx:
        site = roster.sender(tx, body)
        request = verify(body, RenewalRequest, {site.signing_key_id: PublicKey.from_b64(site.signing_key)})
        roster.require_active(site)
        if request.federation != services.federation or request.site != site.site:
            raise Rejected(Reason.WRONG_FEDERATION, "the renewal is for another federation or site")
        now = seconds(services.clock)
        if abs(now - request.issued) > LIMITS.clock_skew:
            raise Rejected(Reason.STALE, "the renewal was signed more than ten minutes off the server's time")
        if key_of_csr(base64url.decode(request.csr), services.federation, site.site).b64 != site.tls_key:
            raise Rejected(Reason.UNKNOWN_KEY, "the renewal is for another TLS key than the enrolled one")
        certificates = _certificates(services, tx, site, Action.CERTIFICATE_RENEWED)
        version = roots.in_force(tx).version
    keys = PublicKeys(tls=site.tls_key, signing=site.signing_key, hpke=site.hpke_key)
    reply = EnrolmentReply(
        federation=services.federation,
        site=site.site,
        state="approved",
        fingerprint=_fingerprint(services.federation, site.site, keys),
        certificates=certificates,
        root_version=version,
        now=now,
    )
    return sign(reply, services.identity.signer)


def _check_keys(request: EnrolmentRequest) -> None:
    keys = [PublicKey.from_b64(text) for text in (request.keys.tls, request.keys.signing, request.keys.hpke)]
    if len({key.key_id for key in keys}) != len(keys):
        raise Rejected(Reason.MALFORMED, "the three keys of a site must differ")
    if key_of_csr(base64url.decode(request.csr), request.federation, request.site) != keys[0]:
        raise Rejected(Reason.MALFORMED, "the certificate request is for another key than the TLS key")


def _token_for(tx: Transaction, request: EnrolmentRequest, fingerprint: str, *, now: int) -> Token:
    token = tx.get(Token, request.token)
    secret = sha256(base64url.decode(request.secret)).hexdigest()
    if token is None or not hmac.compare_digest(token.secret_digest, secret):
        raise Rejected(Reason.UNKNOWN_KEY, "the invitation is not known here", hint="ask the operator for a new one")
    if token.site != request.site:
        raise Rejected(Reason.UNKNOWN_KEY, "the invitation is for another site")
    if token.root_digest != request.root_digest:
        raise Rejected(Reason.WRONG_FEDERATION, "the invitation was issued with another root document")
    if token.state is TokenState.USED and token.enrolment_fingerprint == fingerprint:
        return token
    if token.state is TokenState.USED:
        raise Rejected(Reason.REPLAYED, "the invitation was used before", hint="ask the operator for a new one")
    if now > token.expires or token.state is TokenState.VOID:
        raise Rejected(Reason.STALE, "the invitation has expired", hint="ask the operator for a new one")
    return token


def _use(services: Services, tx: Transaction, token: Token, request: EnrolmentRequest, body: bytes) -> None:
    """Use the token up and keep the request for a person to decide."""
    taken = [PublicKey.from_b64(text).key_id for text in (request.keys.signing, request.keys.hpke, request.keys.tls)]
    if roster.knows_key(tx, taken, other_than=request.site):
        raise Rejected(Reason.REPLAYED, "one of these keys belongs to another site")
    roster.require_not_retired(tx, request.site, request.keys)
    fingerprint, now = request.fingerprint(), seconds(services.clock)
    tx.put(replace(token, state=TokenState.USED, enrolment_fingerprint=fingerprint))
    for earlier in tx.select(Enrolment, site=request.site, state=EnrolmentState.PENDING):
        tx.put(replace(earlier, state=EnrolmentState.DENIED, decided=now))
    tx.insert(Enrolment(request.site, token.token_id, fingerprint, body, EnrolmentState.PENDING, now, None))
    for action in (Action.TOKEN_USED, Action.SITE_ENROLLED):
        event = Event(
            actor=request.site,
            role=Role.SITE,
            action=action,
            object=request.site,
            object_digest=fingerprint,
            details={Detail.TOKEN: token.token_id},
        )
        services.log.append(tx, event)


def _certificates(services: Services, tx: Transaction, site: Site, action: Action) -> tuple[str, ...]:
    now = seconds(services.clock)
    leaf = client_certificate(
        services.identity.issuer,
        PublicKey.from_b64(site.tls_key),
        services.federation,
        site.site,
        now=now,
        seconds=services.settings.certificate_hours * 3600,
    )
    der = leaf.public_bytes(Encoding.DER)
    event = Event(
        actor="server",
        role=Role.SERVER,
        action=action,
        object=site.site,
        object_digest=sha256(der).hexdigest(),
        details={
            Detail.SERIAL: f"{leaf.serial_number:x}",
            Detail.EXPIRES: int(leaf.not_valid_after_utc.timestamp()),
        },
    )
    services.log.append(tx, event)
    return base64url.encode(der), base64url.encode(services.identity.issuer_der)


def _fingerprint(federation: str, site: str, keys: PublicKeys) -> str:
    return canonical.labelled_digest(
        "secureproto/v1/fingerprint", canonical.encode([federation, site, keys.model_dump()])
    )

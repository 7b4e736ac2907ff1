"""Who a request is from, and whether they may: lookups among the enrolled sites.

Invariant: every request of a site passes `require_active`, so the deny-list (the state of the site's row) is in
force at once.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from secureproto.crypto.certificates import site_of
from secureproto.crypto.envelope import peek_key, verify_self_signed
from secureproto.crypto.keys import PublicKey
from secureproto.errors import Rejected
from secureproto.wire.messages import EnrolmentRequest, PublicKeys
from secureproto.wire.reasons import Reason
from secureproto_server.storage.records import Enrolment, EnrolmentState, Site, SiteState
from secureproto_server.storage.store import Transaction


@dataclass(frozen=True)
class Peer:
    """The other end of a connection: the site that its certificate names, and the id of its TLS key."""

    site: str
    tls_key_id: str


def sender(tx: Transaction, envelope: bytes) -> Site:
    """The site whose signing key an envelope says it is signed with; the signature is the caller's to check.

    Raises:
        Rejected: MALFORMED, UNKNOWN_KEY.
    """
    return by_signing_key(tx, peek_key(envelope))


def by_signing_key(tx: Transaction, key_id: str) -> Site:
    """The site of a signing key. Raises Rejected(UNKNOWN_KEY)."""
    found = tx.select(Site, signing_key_id=key_id)
    if not found:
        raise Rejected(Reason.UNKNOWN_KEY, f"no enrolled site has the key {key_id[:16]}")
    return found[0]


def require_active(site: Site | None) -> Site:
    """The site, if it may take part.

    Raises:
        Rejected: UNKNOWN_KEY, REVOKED_KEY, SUSPENDED.
    """
    if site is None:
        raise Rejected(Reason.UNKNOWN_KEY, "no enrolled site has this name")
    if site.state is SiteState.SUSPENDED:
        raise Rejected(Reason.SUSPENDED, f"{site.site} is suspended", hint="ask the operator of the federation")
    if site.state is not SiteState.ACTIVE:
        raise Rejected(Reason.REVOKED_KEY, f"the keys of {site.site} are {site.state}")
    return site


def peer_of(certificate: bytes | None, federation: str) -> Peer:
    """Who is connected, as the client certificate (verified by TLS) says.

    Raises:
        Rejected: UNKNOWN_KEY without a certificate; MALFORMED or WRONG_FEDERATION for an odd one.
    """
    if certificate is None:
        raise Rejected(Reason.UNKNOWN_KEY, "this request needs the site's client certificate")
    site = site_of(certificate, federation)
    key = x509.load_der_x509_certificate(certificate).public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise Rejected(Reason.MALFORMED, "the client certificate is not for a P-256 key")
    return Peer(site, PublicKey.of(key).key_id)


def require_same(site: Site, peer: Peer) -> Site:
    """Check that this site is the one that is connected, with the TLS key it has now.

    Raises:
        Rejected: UNKNOWN_KEY.
    """
    if site.site != peer.site:
        raise Rejected(Reason.UNKNOWN_KEY, f"signed by {site.site}, sent over the connection of {peer.site}")
    if site.tls_key_id != peer.tls_key_id:  # a certificate of earlier keys, not yet expired
        raise Rejected(Reason.UNKNOWN_KEY, f"the connection's key is no longer the one of {site.site}")
    return site


def connected(tx: Transaction, peer: Peer) -> Site:
    """The active site that is connected. Raises Rejected as `require_active` and `require_same`."""
    return require_same(require_active(tx.get(Site, peer.site)), peer)


def knows_key(tx: Transaction, key_ids: Iterable[str], *, other_than: str) -> bool:
    """Whether one of the keys belongs to another site, whatever it is used for there."""
    wanted = set(key_ids)
    return any(
        wanted & {site.signing_key_id, site.hpke_key_id, site.tls_key_id}
        for site in tx.select(Site)
        if site.site != other_than
    )


def require_not_retired(tx: Transaction, site: str, keys: PublicKeys) -> None:
    """Check that none of these keys was revoked, or was this site's once and replaced: such a key never comes back.

    Raises:
        Rejected: REVOKED_KEY.
    """
    row = tx.get(Site, site)
    in_use = row is not None and row.state in (SiteState.ACTIVE, SiteState.SUSPENDED)
    wanted = _key_ids(keys) - ({row.signing_key_id, row.hpke_key_id, row.tls_key_id} if row and in_use else set())
    for earlier in tx.select(Enrolment, site=site, state=EnrolmentState.APPROVED):
        request = verify_self_signed(earlier.request, EnrolmentRequest, lambda r: PublicKey.from_b64(r.keys.signing))
        if wanted & _key_ids(request.keys):
            raise Rejected(
                Reason.REVOKED_KEY, f"a key of {site} was revoked or replaced", hint="enrol the site with new keys"
            )


def _key_ids(keys: PublicKeys) -> set[str]:
    return {PublicKey.from_b64(text).key_id for text in (keys.tls, keys.signing, keys.hpke)}


def active(tx: Transaction) -> list[Site]:
    """Sites that may take part, in the order of their names."""
    return tx.select(Site, state=SiteState.ACTIVE)

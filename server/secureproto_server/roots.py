"""Root documents on the server: the chain of versions, and what a new one may change.

    1. Its version is the last + 1, of this federation and suite, issued and not expired.
    2. It is signed by the threshold of the people of the version before, and by its own.
    3. The CA and the server's own keys are those of the version before (a rebuild never makes a new root).
    4. It names the server's keys that this process has.

Only people at the operator's desk sign root documents; the server checks, keeps and hands them on.
"""

from secureproto.crypto.envelope import SharedEnvelope, unverified, verify_threshold
from secureproto.crypto.keys import PublicKey
from secureproto.errors import Conflict, IntegrityBroken, Rejected
from secureproto.wire.limits import LIMITS
from secureproto.wire.messages import Person, PublicKeys, RootDocument, SiteEntry
from secureproto.wire.reasons import Reason
from secureproto_server.storage.records import Root
from secureproto_server.storage.store import Transaction


def people_keys(root: RootDocument, *, role: str = "") -> dict[str, PublicKey]:
    """The keys of everybody whom the document names, or of those in one role, by key id."""
    keys = [PublicKey.from_b64(person.key) for person in root.people if role in ("", person.role)]
    return {key.key_id: key for key in keys}


def person_of(root: RootDocument, key_id: str) -> Person | None:
    """Whose key it is."""
    return next((p for p in root.people if PublicKey.from_b64(p.key).key_id == key_id), None)


def founding(envelope: bytes) -> RootDocument:
    """The first version, signed by its own people.

    Raises:
        Rejected: malformed, or not signed by its threshold.
    """
    root = parse_unverified(envelope)
    return verify_threshold(envelope, RootDocument, people_keys(root), root.threshold)


def in_force(tx: Transaction) -> RootDocument:
    """The newest version. It was verified when it was taken in.

    Raises:
        IntegrityBroken: the store has none.
    """
    return parse_unverified(row_in_force(tx).envelope)


def row_in_force(tx: Transaction) -> Root:
    """The newest version's row. Raises: as `in_force`."""
    rows = tx.select(Root)
    if not rows:
        raise IntegrityBroken("the server's database has no root document")
    return rows[-1]


def successor(envelope: bytes, before: RootDocument, *, now: int) -> RootDocument:
    """A new version, checked against the one before it.

    Raises:
        Rejected: malformed, or not signed as it must be.
        Conflict: it is not the next version, or changes what it must not.
    """
    root = verify_threshold(envelope, RootDocument, people_keys(before), before.threshold)
    verify_threshold(envelope, RootDocument, people_keys(root), root.threshold)
    if root.federation != before.federation or root.suite != before.suite:
        raise Rejected(Reason.WRONG_FEDERATION, "the root document is of another federation or suite")
    if root.version != before.version + 1:
        raise Conflict(
            f"the root document has version {root.version}, the next is {before.version + 1}",
            hint="somebody published another one: fetch it and sign again",
        )
    if not before.issued <= root.issued <= now + LIMITS.clock_skew or root.expires <= now:
        raise Conflict("the root document is not valid now", hint="check the clock of the desk that signed it")
    if root.ca != before.ca or root.server != before.server:
        raise Conflict("the root document changes the CA or the server's keys")
    return root


def follow(envelope: bytes, kept: RootDocument) -> RootDocument:
    """A newer version than the kept one, of the same people: signed by them, with the same CA and server keys.

    Raises:
        Rejected: not signed by the kept people. IntegrityBroken: not newer, or of another federation or CA.
    """
    root = verify_threshold(envelope, RootDocument, people_keys(kept), kept.threshold)
    same = (root.federation, root.ca, root.people) == (kept.federation, kept.ca, kept.people)
    if not same or root.version <= kept.version:
        raise IntegrityBroken("the server shows a root document that does not follow from the one kept here")
    return root


def roster_change(root: RootDocument, before: RootDocument, *, site: str, keys: PublicKeys) -> None:
    """Check that the only change is that this site is on the roster with these keys.

    Raises:
        Conflict: anything else changed too, or the entry is not the one that was enrolled.
    """
    entry = SiteEntry(site=site, keys=keys, since=root.version)
    others = tuple(known for known in before.sites if known.site != site)
    expected = tuple(sorted((*others, entry), key=lambda known: known.site))
    if root.sites != expected or root.people != before.people or root.threshold != before.threshold:
        raise Conflict(f"the root document must add {site} with the enrolled keys, and change nothing else")


def require_own_keys(root: RootDocument, signing: PublicKey, hpke: PublicKey) -> None:
    """Check that this process has the keys that the document names for the server.

    Raises:
        IntegrityBroken: they are others: sites would refuse all that this server signs.
    """
    if root.server.signing[0] != signing.b64 or root.server.hpke[0] != hpke.b64:
        raise IntegrityBroken("the root document names other server keys than the ones in this directory")


def parse_unverified(envelope: bytes) -> RootDocument:
    """What a root document says, before anybody has checked who signed it. Raises Rejected(MALFORMED)."""
    return unverified(envelope, RootDocument, SharedEnvelope)

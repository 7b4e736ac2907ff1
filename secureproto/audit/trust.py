"""What a verifier starts from: a root document that it got by a way of its own, and the log's keys in it.

Invariant: everything that is verified rests on this one file; it is checked to be signed by its own people, and
its digest is returned so that a person can compare it with the one the federation made known.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from secureproto.audit.checkpoint import origin_of
from secureproto.crypto.envelope import SharedEnvelope, unverified, verify_threshold
from secureproto.crypto.keys import PublicKey
from secureproto.errors import IntegrityBroken, Rejected
from secureproto.wire.messages import RootDocument


@dataclass(frozen=True)
class LogTrust:
    """Which log, whose keys sign it, and the digest of the root document that says so."""

    origin: str
    keys: Mapping[str, PublicKey]
    root_digest: str


def log_trust(root: RootDocument) -> LogTrust:
    """The log of the federation of a root document that is already trusted."""
    keys = [PublicKey.from_b64(text) for text in root.server.signing]
    return LogTrust(origin_of(root.federation), {key.key_id: key for key in keys}, root.digest())


def read_root(data: bytes) -> LogTrust:
    """The log of the federation whose signed root document `data` is.

    Raises:
        IntegrityBroken: it is not one, or not signed by as many of its people as it asks for.
    """
    try:
        document = unverified(data, RootDocument, SharedEnvelope)
        people = [PublicKey.from_b64(person.key) for person in document.people]
        keys = {key.key_id: key for key in people}
        return log_trust(verify_threshold(data, RootDocument, keys, document.threshold))
    except Rejected as error:
        raise IntegrityBroken(
            f"root document: {error.message}",
            hint="take the root document that the federation's people gave you, not one from the server",
        ) from None

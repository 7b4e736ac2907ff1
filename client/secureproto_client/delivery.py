"""From sealed bytes to a verified receipt: the second half of a round at the site.

    7  the outbox file is what was sealed; journal: sent
    8  the manifest; the server says from which byte it wants the body, or that it has all of it
    9  the body from there on; a cut connection goes back to 8
    10 the receipt: the server's signature, about exactly this manifest, its entry's inclusion proof, the checkpoint
    11 journal: done. The outbox keeps the file until the round's outcome is known.

Everything here may be repeated: the server knows the manifest by its digest and takes the same bytes once.
"""

import logging
from hashlib import file_digest
from pathlib import Path

from secureproto.audit import checkpoint as notes
from secureproto.audit.receipt import verify_upload_receipt
from secureproto.crypto.sealing import SignedManifest
from secureproto.errors import Conflict, IntegrityBroken, Rejected
from secureproto.wire import base64url, canonical
from secureproto.wire.messages import UploadReceipt
from secureproto.wire.reasons import Reason
from secureproto_client.facts import Facts
from secureproto_client.journal import RoundRow, State
from secureproto_client.problems import demand
from secureproto_client.site import Site
from secureproto_client.transport.seam import Transport
from secureproto_client.trust import Trust

CHECKPOINT, CHECKPOINT_SIZE, CHECKPOINT_ROOT = "checkpoint", "checkpoint_size", "checkpoint_root"
# The server has looked at these bytes, or at the round, and will not change its mind.
FINAL = frozenset(Reason) - {Reason.SUSPENDED, Reason.QUOTA, Reason.TOO_SLOW}

log = logging.getLogger(__name__)


def deliver(site: Site, row: RoundRow) -> None:
    """Steps 7 to 11 for a sealed round. A round that the server has closed, or an update that it refuses for good,
    ends as `closed`, with the reason.

    Raises:
        IntegrityBroken: the receipt does not hold.
        Rejected: the site itself is refused (suspended, revoked).
    """
    encoded, name = row.sealed
    manifest, body = SignedManifest.parse(encoded), site.paths.outbox / name
    if not _intact(manifest, body):
        return _give_up(site, row, "the sealed file is missing or damaged")
    site.journal.send(row.study, row.round)
    path = f"/v1/studies/{row.study}/rounds/{row.round}"
    try:
        signed = site.link.ask(lambda transport: _exchange(transport, path, manifest, body))
    except Rejected as error:
        if error.reason not in FINAL:
            raise
        return _give_up(site, row, str(error.reason))
    except Conflict as error:
        return _give_up(site, row, error.message)
    receipt = check_receipt(site.link.trust, signed, row, site=site.identity.site, digest=manifest.digest)
    _witness(site.link.trust, site.facts, receipt)
    site.journal.finish(row.study, row.round, signed)
    log.info("study %s round %d: the server has the update and has logged it", row.study, row.round)
    return None


def check_receipt(trust: Trust, signed: bytes, row: RoundRow, *, site: str, digest: str) -> UploadReceipt:
    """Step 10.

    Raises:
        IntegrityBroken: not the server's, about something else, or not in the log.
    """
    receipt = trust.from_server(signed, UploadReceipt)
    about = (receipt.federation, receipt.study, receipt.round, receipt.site, receipt.manifest_digest)
    if about != (trust.document.federation, row.study, row.round, site, digest):
        raise IntegrityBroken("the server's receipt is about another upload")
    verify_upload_receipt(receipt, notes.origin_of(receipt.federation), keys=trust.server_keys)
    return receipt


def tidy(site: Site) -> None:
    """Remove the outbox files of rounds that are over, and what an interrupted sealing left."""
    outcomes = site.journal.outcomes()
    wanted = {
        row.body
        for row in site.journal.rounds()
        if row.state in (State.SEALED, State.SENT)
        or (row.state is State.DONE and (row.study, row.round) not in outcomes)
    }
    for path in site.paths.outbox.iterdir():
        if path.name not in wanted:
            path.unlink()


def _exchange(transport: Transport, path: str, manifest: SignedManifest, body: Path) -> bytes:
    """Steps 8 and 9: the signed receipt."""
    reply = transport.post(f"{path}/manifest", manifest.encode())
    if reply.status == 200:
        return reply.body
    offset = _offset(demand(reply, 201), manifest.ciphertext_length)
    return demand(transport.put(f"{path}/body/{manifest.digest}", body, offset=offset), 200)


def _offset(data: bytes, length: int) -> int:
    value = canonical.decode(data)
    offset = value.get("offset") if isinstance(value, dict) else None
    if not isinstance(offset, int) or isinstance(offset, bool) or not 0 <= offset <= length:
        raise IntegrityBroken("the server asks for a part of the update that does not exist")
    return offset


def _intact(manifest: SignedManifest, body: Path) -> bool:
    try:
        with body.open("rb") as file:
            return file_digest(file, "sha256").digest() == manifest.ciphertext_digest
    except OSError:
        return False


def _give_up(site: Site, row: RoundRow, reason: str) -> None:
    log.error("study %s round %d: no receipt, and no further try: %s", row.study, row.round, reason)
    site.journal.close(row.study, row.round, reason[:200])


def _witness(trust: Trust, facts: Facts, receipt: UploadReceipt) -> None:
    """Keep the largest checkpoint seen. Raises IntegrityBroken for another tree of the same size."""
    text, origin = base64url.decode(receipt.checkpoint).decode(), notes.origin_of(receipt.federation)
    new = notes.verify(text, origin, keys=trust.server_keys)
    size, root = facts.number(CHECKPOINT_SIZE), facts.text(CHECKPOINT_ROOT)
    if new.size == size and new.root.hex() != root:
        raise IntegrityBroken(f"the server's log has two histories of {size} entries", hint="call the auditor")
    if new.size > size:  # a receipt that is sent again carries an older one
        facts.keep_all({CHECKPOINT: text, CHECKPOINT_SIZE: str(new.size), CHECKPOINT_ROOT: new.root.hex()})

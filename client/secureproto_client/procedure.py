"""A round at the site, from invitation to sealed bytes (`delivery` has what follows).

    1  the invitation, verified (`invitations`)
    2  journal: started, attempt + 1
    3  train from the version the round starts from: the shared part and this site's own head
    4  class sums and counts, in a pass after training
    5  seal to the server's key, into the outbox; flushed to the disk
    6  journal: sealed. From here on these bytes are the site's answer, and no others ever are.

Killed before 6: the next attempt trains again. Killed after 6: `delivery` sends what was sealed. A no is an answer
too: it is fixed in the journal, then sent, signed, with reasons that a machine can read.
"""

import logging
import secrets
from hashlib import sha256

from secureproto.crypto import envelope
from secureproto.crypto.keys import PublicKey
from secureproto.crypto.sealing import Sealer, SignedManifest, sign_manifest
from secureproto.errors import Rejected
from secureproto.wire.layouts import upload_schema
from secureproto.wire.messages import UNPROTECTED, Invitation, Refusal, UploadCore
from secureproto.wire.reasons import Reason
from secureproto.wire.tensors import encode
from secureproto_client.durable import replacing
from secureproto_client.journal import RoundRow, State
from secureproto_client.learner import Learner
from secureproto_client.models import Arrays, StoredModel, model_name
from secureproto_client.problems import demand
from secureproto_client.site import Site
from secureproto_client.studies import Study

NO_LEDGER = sha256(b"").hexdigest()
OVER = frozenset({Reason.CLOSED, Reason.WRONG_ROUND, Reason.REPLAYED})  # nobody waits for a refusal any more
MAX_ATTEMPTS = 5  # a site that dies in every one of so many trainings says so instead of dying again

log = logging.getLogger(__name__)


def answer(site: Site, study: Study, learner: Learner, invitation: Invitation) -> None:
    """Steps 2 to 6.

    Raises:
        Misconfigured, PolicyDenied: what `learner.train` raises; the round stays `started`.
    """
    attempt = site.journal.start(invitation.study, invitation.round, invitation.base_version)
    log.info("study %s round %d: training, attempt %d", invitation.study, invitation.round, attempt)
    base = _base(site, study, invitation)
    trained = learner.train(base, invitation.round)
    core = upload_core(site, invitation, attempt)
    name = f"{invitation.study}-{invitation.round}.sealed"
    manifest = seal(site, study, core, name, arrays=trained.update)
    site.journal.seal(invitation.study, invitation.round, manifest.encode(), name)
    log.info("study %s round %d: sealed, %d bytes", invitation.study, invitation.round, manifest.ciphertext_length)


def upload_core(site: Site, invitation: Invitation, attempt: int) -> UploadCore:
    """What the upload says of itself."""
    now = site.times.now()
    return UploadCore(
        suite="p256",
        federation=invitation.federation,
        epoch=invitation.epoch,
        study=invitation.study,
        round=invitation.round,
        attempt=attempt,
        study_digest=invitation.study_digest,
        schema_digest=invitation.schema_digest,
        sender=site.identity.site,
        sender_key=site.identity.signer.public.key_id,
        recipient_key=invitation.recipient_key,
        upload_id=secrets.token_hex(16),
        issued=now,
        expires=invitation.deadline + invitation.grace,
        policy_digest=invitation.policy_digest,
        receipt=UNPROTECTED,
        ledger_head=NO_LEDGER,
        plaintext_length=invitation.plaintext_length,
    )


def seal(site: Site, study: Study, core: UploadCore, name: str, *, arrays: Arrays) -> SignedManifest:
    """Seal an update into the outbox under `name`, flushed; returns its signed manifest."""
    sealer = Sealer(core.canonical(), [_recipient(site, core.recipient_key)])
    with replacing(site.paths.outbox / name) as file:
        for chunk in encode(upload_schema(study.descriptor.model), arrays):
            file.write(sealer.update(chunk))
        file.write(sealer.finalize())
    return sign_manifest(sealer, site.identity.signer)


def decline(site: Site, invitation: Invitation, reason: str) -> None:
    """Say no to a round: first in the journal, then to the server. Again with the same reason if it was said."""
    row = site.journal.row(invitation.study, invitation.round)
    said = row.reason if row and row.reason else reason
    if row is None or row.state is not State.DECLINED:
        site.journal.decline(invitation.study, invitation.round, said)
    refusal = Refusal.model_validate(
        {
            "federation": invitation.federation,
            "epoch": invitation.epoch,
            "study": invitation.study,
            "round": invitation.round,
            "site": site.identity.site,
            "reasons": (said,),
            "issued": site.times.now(),
        }
    )
    body = envelope.sign(refusal, site.identity.signer)
    path = f"/v1/studies/{invitation.study}/rounds/{invitation.round}/refusal"
    try:
        site.link.ask(lambda transport: demand(transport.post(path, body), 204))
    except Rejected as error:
        if error.reason not in OVER:
            raise
        log.info("study %s round %d: over before the refusal came", invitation.study, invitation.round)
    site.journal.acknowledge(invitation.study, invitation.round)
    log.warning("study %s round %d: declined: %s", invitation.study, invitation.round, said)


def exhausted(row: RoundRow | None) -> bool:
    """Whether training for the round was begun as often as it may be."""
    return row is not None and row.attempt >= MAX_ATTEMPTS


def _base(site: Site, study: Study, invitation: Invitation) -> StoredModel:
    store = site.models(study.name)
    return store.load(model_name(invitation.base_version, "received"), study.descriptor.model)


def _recipient(site: Site, key_id: str) -> PublicKey:
    key = site.link.trust.recipient
    if key.key_id != key_id:  # `invitations` has checked it; sealing to another key would tell a stranger
        raise ValueError("the recipient is not the server's key of the root document")
    return key

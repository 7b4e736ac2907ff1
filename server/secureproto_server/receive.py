"""Receiving an upload: the procedure of SECURITY.md (The sealed upload, 4), once, in its order.

    Of the manifest (`accept_manifest`):
     1. sizes                      manifest and core at most as LIMITS says
     2. parse                      manifest, then core: canonical, no unknown key
     3. sender known               the key id of an enrolled site, and that site's name
     4. key valid now              the TLS identity is the same site; neither suspended nor revoked
     5. signature
     6. as this round has it       federation, epoch, study, digests, recipient key, lengths
     7. the row                    the same bytes again: their receipt, or where to go on; other bytes: 409
     8. times                      issued <= now <= expires <= deadline + grace
     9. open to this site          round open, site invited, policy digest, privacy receipt; then the row is reserved
    Of the body (`Body`):
    10. ciphertext                 streamed to the spool while hashing; never more than was signed
    11. length and digest          as signed
    12. one decrypting pass        header, finite, norms; the plaintext is thrown away
    13. durable                    fsync and rename, then ONE transaction: row, participant, entry, receipt
    14. the signed receipt

Steps 7 and 8 stand in this order so that a retry gets its receipt however late it comes. Times may be off by what
the protocol lets clocks differ. A body that is not what was signed (11) may be sent again; one that was signed and
does not pass (12) is the site's answer to the round: the site is dropped from it.
What the caller owes: `certificate` was verified by TLS; a refusal is counted and logged (`refusals`).
"""

from dataclasses import dataclass, replace
from hashlib import sha256

from secureproto.audit.entries import Event
from secureproto.audit.vocabulary import Action, Detail, Role
from secureproto.clock import seconds
from secureproto.crypto.envelope import sign
from secureproto.crypto.keys import PublicKey
from secureproto.crypto.sealing import Opener, SignedManifest, sealed_length
from secureproto.errors import NotFound, Rejected
from secureproto.wire import base64url, canonical, layouts
from secureproto.wire.limits import LIMITS
from secureproto.wire.messages import UNPROTECTED, UploadCore, UploadReceipt
from secureproto.wire.reasons import Reason
from secureproto.wire.tensors import TensorReader
from secureproto_server import phases, refusals, releases, roster, rounds, studies, uploads, vault
from secureproto_server.services import Services
from secureproto_server.storage.blobs import Spool
from secureproto_server.storage.records import (
    Head,
    Participant,
    ParticipantState,
    Published,
    Site,
    Upload,
    UploadState,
)
from secureproto_server.storage.store import Transaction

NO_LEDGER = sha256(b"").hexdigest()  # the ledger head of a site that has no ledger


@dataclass(frozen=True)
class Admitted:
    """A manifest that passed: the receipt if its body is in already, else what is needed to receive the body."""

    upload: Upload
    manifest: SignedManifest
    receipt: bytes | None


def accept_manifest(
    services: Services, study: str, number: int, *, certificate: bytes | None, data: bytes
) -> Admitted:
    """Steps 1 to 9.

    Raises:
        Rejected: with the reason of the first check that fails.
    """
    manifest = SignedManifest.parse(data)  # 1, 2
    core = _parse_core(manifest.core)
    peer = roster.peer_of(certificate, services.federation)
    with services.store.transaction("accept manifest") as tx:
        site = roster.by_signing_key(tx, core.sender_key)  # 3
        if site.site != core.sender:
            raise Rejected(Reason.UNKNOWN_KEY, "the sender's key belongs to another site than it says")
        roster.require_same(site, peer)  # 4: first, or one site could ask how another stands
        roster.require_active(site)
        manifest.verify(PublicKey.from_b64(site.signing_key))  # 5
        if (core.study, core.round) != (study, number):  # 6
            raise Rejected(Reason.WRONG_ROUND, "the manifest is for another study or round than the request")
        plan = _require_plan(tx, study)
        _check_constants(services, plan, core, manifest)
        known = tx.get(Upload, study, number, site.site)
        if known is not None:  # 7
            return _again(tx, known, manifest)
        standing = _require_round(tx, core)
        _check_times(services, core, standing.rules)  # 8
        return Admitted(_reserve(services, tx, standing, plan, core, manifest), manifest, None)  # 9


def resume(services: Services, study: str, number: int, *, certificate: bytes | None, digest: str) -> Admitted:
    """The upload whose body is about to be sent: its manifest was accepted before.

    Raises:
        Rejected: the manifest is not known here, the site is excluded, or the round no longer takes bodies.
    """
    peer = roster.peer_of(certificate, services.federation)
    with services.store.transaction("find upload") as tx:
        site = roster.connected(tx, peer)
        upload = tx.get(Upload, study, number, site.site)
        if upload is None or upload.manifest_digest != digest:
            raise Rejected(Reason.WRONG_ROUND, "no manifest of this digest was accepted", hint="send it first")
        if upload.state is UploadState.RECEIVED:
            return Admitted(upload, SignedManifest.parse(upload.manifest), upload.receipt)
        _require_body_open(services, tx, upload)
    return Admitted(upload, SignedManifest.parse(upload.manifest), None)


def offset(services: Services, admitted: Admitted) -> int:
    """From which byte the body of an accepted manifest is wanted."""
    with services.blobs.spool(admitted.upload.blob) as spool:
        if spool.length > admitted.manifest.ciphertext_length:
            spool.discard()  # not what was received: somebody wrote to the disk. From the start, then
            return 0
        return spool.length


class Body:
    """Steps 10 to 14 for one body, in the block of its spool. Blocking: not for the event loop."""

    def __init__(self, services: Services, admitted: Admitted, spool: Spool) -> None:
        self._services, self._admitted, self._spool = services, admitted, spool
        self._digest = sha256()
        self.dropped = False  # the refusal is in the log already, with the site's leaving of the round
        for chunk in spool.chunks():  # of a connection that was cut
            self._digest.update(chunk)

    def write(self, offset: int, chunk: bytes) -> None:
        """Step 10: the next piece.

        Raises:
            Conflict: not at the end of what is there. Rejected: MALFORMED beyond the signed length; QUOTA.
            Unavailable: the disk is full.
        """
        if offset + len(chunk) > self._admitted.manifest.ciphertext_length:
            raise Rejected(Reason.MALFORMED, "the body is longer than its manifest says")
        self._spool.write(offset, chunk)
        self._digest.update(chunk)

    def finish(self) -> bytes:
        """Steps 11 to 14: the signed receipt.

        Raises:
            Rejected: with the reason of the check that fails.
        """
        manifest = self._admitted.manifest
        if self._spool.length != manifest.ciphertext_length or self._digest.digest() != manifest.ciphertext_digest:
            self._spool.discard()
            raise Rejected(Reason.BAD_SIGNATURE, "the body is not the one that the manifest signs")  # 11
        clock = self._services.clock
        begun = clock.monotonic()
        try:
            self._inspect()  # 12
        except Rejected as error:
            self._spool.discard()
            refusals.drop(self._services, self._admitted.upload, error)
            self.dropped = True
            raise
        spent = clock.monotonic() - begun
        self._spool.finish()  # 13
        receipt, fresh = _receive(self._services, self._admitted.upload)  # 13, 14
        if fresh:
            self._services.metrics.upload_accepted(
                self._admitted.upload.sender, size=manifest.ciphertext_length, verify_seconds=spent
            )
        return receipt

    def _inspect(self) -> None:
        upload, manifest = self._admitted.upload, self._admitted.manifest
        plan, base = _base(self._services, upload)
        inspection = uploads.Inspection(plan, upload.sender, base)
        opener = Opener(manifest.core, manifest.wrapped, self._services.identity.hpke)
        reader = TensorReader(plan.upload_schema)
        for chunk in self._spool.chunks():
            for piece in reader.feed(opener.update(chunk)):
                inspection.see(piece)
        for piece in reader.feed(opener.finalize()):
            inspection.see(piece)
        reader.finish()
        inspection.finish()


def _parse_core(data: bytes) -> UploadCore:
    try:
        core = UploadCore.parse(data)
    except Rejected:
        value = canonical.decode(data)
        said = value.get("receipt") if isinstance(value, dict) else None
        if isinstance(said, dict) and said != UNPROTECTED.model_dump():
            raise Rejected(Reason.RECEIPT, "the privacy receipt is not one that this server knows") from None
        raise
    if core.ledger_head != NO_LEDGER:
        raise Rejected(Reason.RECEIPT, "the manifest names a ledger, and this study has none")
    return core


def _require_plan(tx: Transaction, study: str) -> studies.Plan:
    try:
        return studies.PLANS.of(studies.require(tx, study))
    except NotFound:
        raise Rejected(Reason.WRONG_ROUND, "there is no study of this name") from None


def _check_constants(services: Services, plan: studies.Plan, core: UploadCore, manifest: SignedManifest) -> None:
    descriptor = plan.descriptor
    if core.federation != services.federation:
        raise Rejected(Reason.WRONG_FEDERATION, "the manifest is for another federation")
    if core.epoch != services.epoch:
        raise Rejected(Reason.WRONG_FEDERATION, "the manifest is for another epoch of this server")
    if core.schema_digest != descriptor.schema_digest:
        raise Rejected(Reason.SCHEMA, "the manifest is for another tensor schema")
    if core.study_digest != descriptor.study_digest:
        raise Rejected(Reason.POLICY_DIGEST, "the manifest is for another version of the study file")
    if core.recipient_key != services.identity.hpke_public.key_id:
        raise Rejected(Reason.UNKNOWN_KEY, "the body is sealed to another key than this server's")
    if core.plaintext_length != plan.upload_schema.plaintext_length:
        raise Rejected(Reason.SCHEMA, "the plaintext's length is not that of the schema")
    if manifest.ciphertext_length > plan.file.bounds.max_upload_bytes:
        raise Rejected(Reason.TOO_LARGE, "the body is larger than bounds.max_upload_bytes allows")
    if manifest.ciphertext_length != sealed_length(core.plaintext_length):
        raise Rejected(Reason.SCHEMA, "the body's length is not that of a sealed body of this schema")


def _again(tx: Transaction, known: Upload, manifest: SignedManifest) -> Admitted:
    if known.manifest_digest != manifest.digest:
        raise Rejected(Reason.REPLAYED, "this site has answered the round with other bytes")
    if known.state is UploadState.RESERVED:
        _require_not_dropped(tx, known)
    return Admitted(known, manifest, known.receipt)


def _require_round(tx: Transaction, core: UploadCore) -> rounds.Standing:
    try:
        return rounds.standing(tx, core.study, core.round)
    except NotFound:
        raise Rejected(Reason.WRONG_ROUND, "the study has no such round") from None


def _check_times(services: Services, core: UploadCore, rules: phases.Rules) -> None:
    now = seconds(services.clock)
    if core.issued > now + LIMITS.clock_skew or core.issued > core.expires:
        raise Rejected(Reason.STALE, "the manifest is from the future", hint="check the site's clock")
    if core.expires < now:
        raise Rejected(Reason.STALE, "the manifest has expired")
    if core.expires > rules.deadline + rules.grace:
        raise Rejected(Reason.STALE, "the manifest would be valid longer than the round")


def _reserve(
    services: Services,
    tx: Transaction,
    standing: rounds.Standing,
    plan: studies.Plan,
    core: UploadCore,
    manifest: SignedManifest,
) -> Upload:
    if not phases.accepts_upload(standing.phase, standing.rules, now=services.clock.now()):
        raise Rejected(Reason.CLOSED, "the round is closed")
    mine = next((p for p in standing.participants if p.site == core.sender), None)
    if mine is None:
        raise Rejected(Reason.WRONG_ROUND, f"{core.sender} is not invited to this round")
    if mine.state is not ParticipantState.INVITED:
        raise Rejected(Reason.REPLAYED, f"{core.sender} has answered this round: {mine.state}")
    if core.policy_digest != plan.descriptor.study_digest:
        raise Rejected(Reason.POLICY_DIGEST, "the manifest was made under another policy")
    upload = Upload(
        core.study,
        core.round,
        core.sender,
        manifest.digest,
        manifest.encode(),
        UploadState.RESERVED,
        None,
        None,
        uploads.blob_name(core.study, core.round, core.sender),
    )
    tx.insert(upload)
    return upload


def _require_body_open(services: Services, tx: Transaction, upload: Upload) -> None:
    _require_not_dropped(tx, upload)
    standing = rounds.standing(tx, upload.study, upload.round)
    if not phases.accepts_body(standing.phase, standing.rules, now=services.clock.now()):
        raise Rejected(Reason.CLOSED, "the round is closed")


def _require_not_dropped(tx: Transaction, upload: Upload) -> None:
    mine = tx.get(Participant, upload.study, upload.round, upload.sender)
    if mine is not None and mine.state is ParticipantState.DROPPED:
        raise Rejected(Reason.CLOSED, f"the site is out of this round: {mine.detail}")


def _base(services: Services, upload: Upload) -> tuple[studies.Plan, uploads.Base | None]:
    """The plan, and the tensors that the site started from when the update's norm is bounded."""
    with services.store.transaction("read base version") as tx:
        plan = studies.PLANS.of(studies.require(tx, upload.study))
        if plan.file.bounds.max_update_norm is None:
            return plan, None
        version = rounds.standing(tx, upload.study, upload.round).row.base_version
        shared = releases.require_published(tx, upload.study, version)
        head = tx.get(Head, upload.study, upload.sender, version) or releases.require_head(
            tx, upload.study, releases.MEAN, version
        )
    base = services.bases.get(shared.blob, lambda: _shared(services, plan, shared))
    mine = vault.arrays(plan.head_schema, vault.open_chunks(services, head.blob, head.manifest))
    return plan, {**base, **mine}


def _shared(services: Services, plan: studies.Plan, shared: Published) -> uploads.Base:
    base = vault.arrays(plan.shared_schema, vault.open_chunks(services, shared.blob, shared.manifest))
    return {name: array for name, array in base.items() if name.startswith(layouts.EXTRACTOR)}


def _receive(services: Services, upload: Upload) -> tuple[bytes, bool]:
    """Step 13's transaction: everything that makes the upload count, or nothing. The receipt, and whether it is new.

    Another connection may have brought the same bytes since this one began: then its receipt is the receipt.
    """
    with services.store.transaction("receive upload") as tx:
        known = tx.get(Upload, upload.study, upload.round, upload.sender)
        if known is not None and known.receipt is not None:
            return known.receipt, False
        _require_body_open(services, tx, upload)
        roster.require_active(tx.get(Site, upload.sender))
        study = studies.require(tx, upload.study)
        event = Event(
            actor=upload.sender,
            role=Role.SITE,
            action=Action.UPLOAD_ACCEPTED,
            object="upload",
            object_digest=upload.manifest_digest,
            study=upload.study,
            round=upload.round,
            policy_digest=study.digest,
            details={Detail.PROTECTION: UNPROTECTED.protection},
        )
        proved = services.log.append_proved(tx, event)
        now = seconds(services.clock)
        receipt = UploadReceipt(
            federation=services.federation,
            epoch=services.epoch,
            study=upload.study,
            round=upload.round,
            site=upload.sender,
            manifest_digest=upload.manifest_digest,
            protection=UNPROTECTED.protection,
            received=now,
            entry=base64url.encode(proved.data),
            sequence=proved.sequence,
            proof=proved.proof,
            checkpoint=base64url.encode(proved.checkpoint.encode()),
        )
        signed = sign(receipt, services.identity.signer)
        tx.put(replace(upload, state=UploadState.RECEIVED, received_at=now, receipt=signed))
        tx.put(Participant(upload.study, upload.round, upload.sender, ParticipantState.SUBMITTED, ""))
    services.work.tell()
    return signed, True

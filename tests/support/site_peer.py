"""A site's peer in this process: root document, keys, one study, one site, real sealing, signatures and log.

It keeps the protocol of the site port (not its defences, which the server's own tests try) and remembers every set
of sealed bytes that reached it. A round it has opened completes with the one upload; the new version's head is the
head of the upload plus nothing, so that a count which a learner keeps in the head shows every update taken twice.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from secureproto.audit import checkpoint as notes
from secureproto.audit.checkpoint import Checkpoint, origin_of
from secureproto.audit.entries import Event
from secureproto.audit.log import LogHead
from secureproto.audit.merkle import inclusion_proof, stored_leaves
from secureproto.audit.vocabulary import Action, ClockSource, Detail, Role
from secureproto.clock import ManualClock, seconds
from secureproto.crypto import envelope
from secureproto.crypto.certificates import client_certificate, key_of_csr, new_intermediate, new_root_ca
from secureproto.crypto.keys import FileSigner, PublicKey
from secureproto.crypto.sealing import Opener, Sealer, SignedManifest
from secureproto.errors import Rejected, Unavailable
from secureproto.learning.model import Model, build, model_schema, to_arrays
from secureproto.study import file as study_files
from secureproto.wire import base64url, canonical
from secureproto.wire.layouts import head_schema, shared_schema, upload_schema
from secureproto.wire.messages import (
    BroadcastCore,
    EnrolmentReply,
    EnrolmentRequest,
    Invitation,
    InviteToken,
    Person,
    PollReply,
    PollRequest,
    Problem,
    PublicKeys,
    Refusal,
    Release,
    RenewalRequest,
    RootDocument,
    RoundOutcome,
    SealedRef,
    ServerKeys,
    SiteEntry,
    StudyDescriptor,
    StudyRef,
    UploadCore,
    UploadReceipt,
)
from secureproto.wire.reasons import Reason, problem_type, status
from secureproto.wire.tensors import TensorSchema, encode, read_all
from secureproto_client.transport.memory import Request
from secureproto_client.transport.seam import Reply
from support.study_toml import dumps, tabular_table

FEDERATION, SITE, STUDY = "heart", "cleveland", "small"
START = 1_790_000_000
DAY = 86_400
Arrays = dict[str, np.ndarray[Any, np.dtype[Any]]]


def private(number: int) -> ec.EllipticCurvePrivateKey:
    """A key that is the same in every run: tests only."""
    return ec.derive_private_key(number, ec.SECP256R1())


def study_bytes() -> bytes:
    """The study file of the peer: few numbers, one epoch, no stopping rule."""
    table = tabular_table()
    del table["stopping"], table["bounds"]
    table["rounds"] = {"total": 50, "quorum": 1, "deadline": "10m"}
    return dumps(table)


@dataclass
class Upload:
    """A manifest that reached the peer, and what came of its body."""

    manifest: SignedManifest
    body: bytes = b""
    receipt: bytes = b""


@dataclass
class Peer:
    """The server side of one site's protocol. `handle` is a MemoryTransport's handler."""

    clock: ManualClock = field(default_factory=lambda: ManualClock(float(START)))
    total: int = 50
    certificate_seconds: int = 72 * 3600
    manifests: dict[int, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    uploads: dict[int, Upload] = field(default_factory=dict)
    refusals: list[Refusal] = field(default_factory=list)
    released: dict[int, Release] = field(default_factory=dict)
    outcomes: dict[int, RoundOutcome] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    open_round: int | None = None
    next_round: int = 0
    version: int = 0
    epoch: int = 0
    state: str = "open"

    def __post_init__(self) -> None:
        self.signer, self.operator = FileSigner(private(11)), FileSigner(private(12))
        self.hpke = private(13)
        now = seconds(self.clock)
        self.ca = new_root_ca(FEDERATION, private(14), now)
        self.intermediate = new_intermediate(self.ca, FEDERATION, private(15), now)
        self.roots: dict[int, bytes] = {}
        self.publish_root(self.first_root(now))
        self.study = study_files.load(study_bytes())
        model = build(self.study)
        self.schema = model_schema(model, self.study)
        self.blobs: dict[tuple[int, str], bytes] = {}
        self.sites: dict[str, PublicKeys] = {}
        self.tokens: dict[str, str] = {}
        self.invitation_ends = seconds(self.clock) + DAY
        self.approve_at_once = True
        self.head, self.leaves = LogHead(), list[bytes]()
        self._first_version(model)

    def first_root(self, now: int) -> RootDocument:
        """Version 1: one operator, no site."""
        operator = Person(name="alice", organisation="consortium", role="operator", key=self.operator.public.b64)
        return RootDocument(
            federation=FEDERATION,
            version=1,
            suite="p256",
            issued=now,
            expires=now + 365 * DAY,
            threshold=1,
            people=(operator,),
            ca=base64url.encode(self.ca.certificate.public_bytes(Encoding.DER)),
            server=ServerKeys(signing=(self.signer.public.b64,), hpke=(PublicKey.of(self.hpke.public_key()).b64,)),
            sites=(),
        )

    def publish_root(self, root: RootDocument, signer: FileSigner | None = None) -> None:
        """Sign a root document and make it the one in force."""
        self.root = root
        self.roots[root.version] = envelope.sign_threshold(root, signer or self.operator)

    def invitation(self) -> InviteToken:
        """An invitation for the site."""
        return InviteToken(
            federation=FEDERATION,
            site=SITE,
            server="https://localhost:8443",
            token="a" * 32,
            secret=base64url.encode(b"s" * 32),
            expires=self.invitation_ends,
            root_digest=self.root.digest(),
            root=base64url.encode(self.roots[self.root.version]),
        )

    def open(self) -> int:
        """Open the next round; its number."""
        self.open_round = self.next_round
        self.next_round += 1
        return self.open_round

    def miss(self) -> None:
        """The open round ends without its quorum."""
        assert self.open_round is not None
        self._end(self.open_round, "quorum_missed")

    def complete(self, number: int, *, final: bool = False) -> None:
        """The round's upload becomes the next version."""
        arrays = self.opened(number)
        shared = {
            "prototypes": np.zeros((self.schema.classes, self.schema.embedding_width)),
            "prototype_age": np.zeros(self.schema.classes, np.int64),
            **{name: array for name, array in arrays.items() if name.startswith("extractor.")},
        }
        head = {name: array for name, array in arrays.items() if name.startswith("head.")}
        self.version += 1
        self._publish(self.version, shared, head, round_=number, final=final)
        if final:
            self.state = "completed"
        self._end(number, "completed")

    def opened(self, number: int) -> Arrays:
        """The tensors of the upload that was taken for a round."""
        upload = self.uploads[number]
        opener = Opener(upload.manifest.core, upload.manifest.wrapped, self.hpke)
        return read_all(upload_schema(self.schema), opener.update(upload.body) + opener.finalize())

    def handle(self, request: Request) -> Reply:
        """One request of the site."""
        self.requests.append(request)
        try:
            return self._route(request)
        except Rejected as error:
            return problem(str(error.reason), status(Reason(error.reason)), error.message)

    def _route(self, request: Request) -> Reply:
        match request.method, *request.path.strip("/").split("/")[1:]:
            case "POST", "enrolments":
                return self._enrol(request.body)
            case "POST", "renewals":
                return self._renew(request.body)
            case "POST", "poll":
                return Reply(200, envelope.sign(self._news(request.body), self.signer))
            case "GET", "roots", version:
                return Reply(200, self.roots[int(version)])
            case "GET", "studies", name if name == STUDY:
                return Reply(200, self.descriptor)
            case "GET", "studies", _, "versions", version, part:
                start = int(request.headers.get("range", "bytes=0-").removeprefix("bytes=").rstrip("-"))
                return Reply(206 if start else 200, self.blobs[int(version), part][start:])
            case "POST", "studies", _, "rounds", number, "manifest":
                return self._manifest(int(number), request.body)
            case "PUT", "studies", _, "rounds", number, "body", digest:
                return self._body(int(number), digest, int(request.headers["upload-offset"]), request.body)
            case "POST", "studies", _, "rounds", _, "refusal":
                self.refusals.append(envelope.verify(request.body, Refusal, self._site_keys()))
                return Reply(204)
        return problem("not_found", 404, "no such path")

    def _enrol(self, body: bytes) -> Reply:
        request = envelope.verify_self_signed(body, EnrolmentRequest, lambda r: PublicKey.from_b64(r.keys.signing))
        if request.token not in self.tokens and seconds(self.clock) > self.invitation_ends:
            raise Rejected(Reason.STALE, "the invitation has expired")
        if self.tokens.setdefault(request.token, request.fingerprint()) != request.fingerprint():
            raise Rejected(Reason.REPLAYED, "the invitation was used before")
        if SITE not in self.sites and self.approve_at_once:
            self.admit(request.keys)
        approved = SITE in self.sites
        certificates = self._certificates(request.csr) if approved else ()
        return Reply(
            200 if approved else 202,
            envelope.sign(self._enrolment(request.fingerprint(), approved, certificates), self.signer),
        )

    def admit(self, keys: PublicKeys) -> None:
        """Put the site on the roster."""
        self.sites[SITE] = keys
        version = self.root.version + 1
        entry = SiteEntry(site=SITE, keys=keys, since=version)
        self.publish_root(self.root.model_copy(update={"version": version, "sites": (entry,)}))

    def _enrolment(self, fingerprint: str, approved: bool, certificates: tuple[str, ...]) -> EnrolmentReply:
        return EnrolmentReply(
            federation=FEDERATION,
            site=SITE,
            state="approved" if approved else "pending",
            fingerprint=fingerprint,
            certificates=certificates,
            root_version=self.root.version,
            now=seconds(self.clock),
        )

    def _renew(self, body: bytes) -> Reply:
        request = envelope.verify(body, RenewalRequest, self._site_keys())
        reply = self._enrolment("0" * 64, True, self._certificates(request.csr))
        return Reply(200, envelope.sign(reply, self.signer))

    def _certificates(self, csr: str) -> tuple[str, ...]:
        key = key_of_csr(base64url.decode(csr), FEDERATION, SITE)
        leaf = client_certificate(
            self.intermediate, key, FEDERATION, SITE, now=seconds(self.clock), seconds=self.certificate_seconds
        )
        return tuple(
            base64url.encode(each.public_bytes(Encoding.DER)) for each in (leaf, self.intermediate.certificate)
        )

    def _site_keys(self) -> dict[str, PublicKey]:
        if SITE not in self.sites:
            raise Rejected(Reason.UNKNOWN_KEY, "the site is not enrolled")
        key = PublicKey.from_b64(self.sites[SITE].signing)
        return {key.key_id: key}

    def _news(self, body: bytes) -> PollReply:
        poll = envelope.verify(body, PollRequest, self._site_keys())
        if abs(poll.now - seconds(self.clock)) > 600:
            raise Rejected(Reason.STALE, "the site's clock is off by more than ten minutes")
        known = next((k for k in poll.known if k.study == STUDY), None)
        has = known.version if known else -1
        answered = known.answered_round if known else -1
        seen = known.outcome_round if known else -1
        inviting = self.open_round is not None and self.open_round > answered and self._unanswered()
        return PollReply(
            federation=FEDERATION,
            epoch=self.epoch,
            site=SITE,
            now=seconds(self.clock),
            root_version=self.root.version,
            studies=(StudyRef.model_validate({"study": STUDY, "study_digest": self.digest, "state": self.state}),),
            releases=(self.released[self.version],) if self.version > has else (),
            invitations=(self.invite(self.open_round),) if inviting and self.open_round is not None else (),
            outcomes=tuple(outcome for number, outcome in sorted(self.outcomes.items()) if number > seen),
        )

    def _unanswered(self) -> bool:
        upload = self.uploads.get(self.open_round if self.open_round is not None else -1)
        return upload is None or not upload.receipt

    def invite(self, number: int) -> Invitation:
        """The site's invitation to a round."""
        now = seconds(self.clock)
        return Invitation(
            federation=FEDERATION,
            epoch=self.epoch,
            site=SITE,
            study=STUDY,
            study_digest=self.digest,
            schema_digest=self.schema.digest(),
            round=number,
            base_version=self.version,
            opened=now,
            deadline=now + 600,
            grace=0,
            policy_digest=self.digest,
            recipient_key=PublicKey.of(self.hpke.public_key()).key_id,
            plaintext_length=upload_schema(self.schema).plaintext_length,
            quorum=1,
            invited=1,
        )

    def _manifest(self, number: int, data: bytes) -> Reply:
        manifest = SignedManifest.parse(data)
        manifest.verify(next(iter(self._site_keys().values())))
        self.manifests[number].append(data)
        known = self.uploads.get(number)
        if known is not None and known.manifest.digest != manifest.digest:
            raise Rejected(Reason.REPLAYED, "this site has answered the round with other bytes")
        if known is not None and known.receipt:
            return Reply(200, known.receipt)
        if number != self.open_round:
            raise Rejected(Reason.CLOSED, "the round is closed")
        if known is None:
            self.uploads[number] = Upload(manifest)
        return Reply(201, canonical.encode({"offset": len(self.uploads[number].body)}))

    def _body(self, number: int, digest: str, offset: int, data: bytes) -> Reply:
        upload = self.uploads[number]
        if upload.manifest.digest != digest:
            raise Rejected(Reason.WRONG_ROUND, "no manifest of this digest was accepted")
        if upload.receipt:
            return Reply(200, upload.receipt)
        if number != self.open_round:
            raise Rejected(Reason.CLOSED, "the round is closed")
        upload.body = upload.body[:offset] + data
        if len(upload.body) < upload.manifest.ciphertext_length:
            raise Unavailable("the connection was cut")  # what came stays in the spool
        if sha256(upload.body).digest() != upload.manifest.ciphertext_digest:
            upload.body = b""
            raise Rejected(Reason.BAD_SIGNATURE, "the body is not the one that the manifest signs")
        upload.receipt = self._receipt(number, upload)
        return Reply(200, upload.receipt)

    def _receipt(self, number: int, upload: Upload) -> bytes:
        core = UploadCore.parse(upload.manifest.core)
        event = Event(
            actor=core.sender,
            role=Role.SITE,
            action=Action.UPLOAD_ACCEPTED,
            object="upload",
            object_digest=upload.manifest.digest,
            study=STUDY,
            round=number,
            policy_digest=self.digest,
            details={Detail.PROTECTION: "unprotected"},
        )
        self.head, added = self.head.append(event, time=seconds(self.clock), clock=ClockSource.MANUAL)
        self.leaves.append(added.leaf)
        proof = inclusion_proof(added.entry.sequence, self.head.size, stored_leaves(self.leaves))
        text = notes.sign(Checkpoint(origin_of(FEDERATION), self.head.size, self.head.root), self.signer)
        receipt = UploadReceipt(
            federation=FEDERATION,
            epoch=self.epoch,
            study=STUDY,
            round=number,
            site=SITE,
            manifest_digest=upload.manifest.digest,
            protection="unprotected",
            received=seconds(self.clock),
            entry=base64url.encode(added.data),
            sequence=added.entry.sequence,
            proof=tuple(node.hex() for node in proof),
            checkpoint=base64url.encode(text.encode()),
        )
        return envelope.sign(receipt, self.signer)

    def _end(self, number: int, outcome: str) -> None:
        self.open_round = None
        self.outcomes[number] = RoundOutcome.model_validate(
            {
                "federation": FEDERATION,
                "study": STUDY,
                "round": number,
                "outcome": outcome,
                "version": self.version,
            }
        )

    def _first_version(self, model: Model) -> None:
        shared = {
            "prototypes": np.zeros((self.schema.classes, self.schema.embedding_width)),
            "prototype_age": np.full(self.schema.classes, -1, np.int64),
            **{f"extractor.{name}": array for name, array in to_arrays(model.extractor).items()},
        }
        head = {f"head.{name}": array for name, array in to_arrays(model.head).items()}
        self.digest = study_files.digest(study_bytes())
        descriptor = StudyDescriptor(
            federation=FEDERATION,
            study=STUDY,
            file=base64url.encode(study_bytes()),
            study_digest=self.digest,
            model=self.schema,
            schema_digest=self.schema.digest(),
            initial_shared=sha256(b"".join(encode(shared_schema(self.schema), shared))).hexdigest(),
            initial_head=sha256(b"".join(encode(head_schema(self.schema), head))).hexdigest(),
            created=seconds(self.clock),
        )
        self.descriptor = envelope.sign(descriptor, self.operator)
        self._first = (shared, head)

    def publish_first(self) -> None:
        """Publish version 0 to the site, once it is enrolled."""
        self._publish(0, *self._first, round_=-1, final=False)

    def _publish(self, version: int, shared: Arrays, head: Arrays, *, round_: int, final: bool) -> None:
        self.released[version] = Release(
            federation=FEDERATION,
            epoch=self.epoch,
            site=SITE,
            study=STUDY,
            study_digest=self.digest,
            version=version,
            round=round_,
            final=final,
            shared=self._seal(version, "shared", shared_schema(self.schema), shared),
            head=self._seal(version, "head", head_schema(self.schema), head),
            issued=seconds(self.clock),
        )

    def _seal(self, version: int, part: str, schema: TensorSchema, arrays: Arrays) -> SealedRef:
        core = BroadcastCore.model_validate(
            {
                "federation": FEDERATION,
                "epoch": self.epoch,
                "study": STUDY,
                "study_digest": self.digest,
                "schema_digest": self.schema.digest(),
                "version": version,
                "part": part,
                "site": SITE if part == "head" else "",
                "plaintext_length": schema.plaintext_length,
            }
        )
        sealer = Sealer(core.canonical(), [PublicKey.from_b64(self.sites[SITE].hpke)])
        sealed = b"".join(sealer.update(chunk) for chunk in encode(schema, arrays)) + sealer.finalize()
        self.blobs[version, part] = sealed
        return SealedRef(
            core=core,
            wrapped=base64url.encode(sealer.wrapped[0]),
            ciphertext_length=sealer.ciphertext_length,
            ciphertext_digest=sealer.ciphertext_digest.hex(),
        )


def problem(name: str, code: int, detail: str) -> Reply:
    """A problem document."""
    document = Problem(type=problem_type(name), title="refused", status=code, detail=detail, hint="")
    return Reply(code, document.canonical())

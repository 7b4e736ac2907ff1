"""A site made of the core's crypto and httpx: as much of a client as a test of the server needs, and no more.

It can misbehave: `core` and `seal` take changes, and what is sent is bytes that a test may alter.
"""

import secrets
import ssl
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from secureproto.clock import Clock, SystemClock, seconds
from secureproto.crypto.certificates import new_csr
from secureproto.crypto.envelope import sign, verify
from secureproto.crypto.keys import FileSigner, PublicKey
from secureproto.crypto.sealing import MANIFEST_LABEL, Opener, Sealer, SignedManifest, sign_manifest
from secureproto.wire import base64url, layouts, tensors
from secureproto.wire.messages import (
    UNPROTECTED,
    EnrolmentReply,
    EnrolmentRequest,
    Invitation,
    InviteToken,
    ModelSchema,
    PollReply,
    PollRequest,
    PublicKeys,
    Release,
    RootDocument,
    StudyKnown,
    UploadCore,
)
from secureproto.wire.tensors import TensorSchema
from secureproto_server import invitations
from secureproto_server.desk import Desk
from support.sim_study import Arrays

OCTETS = {"content-type": "application/octet-stream"}


@dataclass(frozen=True)
class Keys:
    """A site's three private keys."""

    tls: ec.EllipticCurvePrivateKey
    signing: ec.EllipticCurvePrivateKey
    hpke: ec.EllipticCurvePrivateKey

    @staticmethod
    def make() -> "Keys":
        return Keys(*(ec.generate_private_key(ec.SECP256R1()) for _ in range(3)))

    @property
    def public(self) -> PublicKeys:
        tls, signing, hpke = (PublicKey.of(k.public_key()).b64 for k in (self.tls, self.signing, self.hpke))
        return PublicKeys(tls=tls, signing=signing, hpke=hpke)


@dataclass(frozen=True)
class Sealed:
    """An upload as it is sent."""

    manifest: SignedManifest
    body: bytes

    @property
    def digest(self) -> str:
        return self.manifest.digest


class SimSite:
    """One enrolled site. `client` is its mTLS connection; `anonymous` one without a certificate."""

    def __init__(self, directory: Path, name: str, *, keys: Keys, root: RootDocument, port: int) -> None:
        self.directory, self.name, self.keys, self.root, self.port = directory, name, keys, root, port
        self.signer = FileSigner(keys.signing)
        self.clock: Clock = SystemClock()
        self.server = {k.key_id: k for k in (PublicKey.from_b64(t) for t in root.server.signing)}
        self.anonymous = connect(root, port)
        self.client = self.anonymous

    def certify(self, certificates: tuple[str, ...]) -> None:
        """Use these certificates (DER, base64url; leaf first) from now on."""
        self.directory.mkdir(parents=True, exist_ok=True)
        chain = b"".join(
            x509.load_der_x509_certificate(base64url.decode(text)).public_bytes(Encoding.PEM) for text in certificates
        )
        key = self.keys.tls.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        path = self.directory / "tls.pem"
        path.write_bytes(key + chain)
        self.client = connect(self.root, self.port, path)

    def close(self) -> None:
        self.client.close()
        self.anonymous.close()

    def poll(self, *known: StudyKnown, wait: int = 0, root_version: int = 1_000_000) -> PollReply:
        """One poll; without `known` the site knows nothing of any study."""
        request = PollRequest(
            federation=self.root.federation,
            site=self.name,
            now=seconds(self.clock),
            wait=wait,
            root_version=root_version,
            known=known,
            client_version="0.1.0",
        )
        answer = self.client.post("/v1/poll", content=sign(request, self.signer), headers=OCTETS, timeout=wait + 10)
        return verify(ok(answer).content, PollReply, self.server)

    def invitation(self, study: str = "small") -> Invitation:
        """The open invitation to a study."""
        return next(item for item in self.poll().invitations if item.study == study)

    def release(self, study: str = "small") -> Release:
        """The newest version."""
        return next(item for item in self.poll().releases if item.study == study)

    def fetch(self, release: Release, model: ModelSchema) -> tuple[Arrays, Arrays]:
        """Shared part and head of a release, opened."""
        shared = self.open(release, "shared", layouts.shared_schema(model))
        return shared, self.open(release, "head", layouts.head_schema(model))

    def open(self, release: Release, part: str, schema: TensorSchema) -> Arrays:
        """One part of a release, its digest checked."""
        reference = release.shared if part == "shared" else release.head
        path = f"/v1/studies/{release.study}/versions/{release.version}/{part}"
        body = ok(self.client.get(path)).content
        assert sha256(body).hexdigest() == reference.ciphertext_digest
        opener = Opener(reference.core.canonical(), base64url.decode(reference.wrapped), self.keys.hpke)
        return dict(tensors.read_all(schema, opener.update(body) + opener.finalize()))

    def core(self, invitation: Invitation, **changes: Any) -> UploadCore:
        """The core of an upload as the invitation asks for it, but for `changes`."""
        now = seconds(self.clock)
        return UploadCore(
            **{
                "suite": "p256",
                "federation": invitation.federation,
                "epoch": invitation.epoch,
                "study": invitation.study,
                "round": invitation.round,
                "attempt": 1,
                "study_digest": invitation.study_digest,
                "schema_digest": invitation.schema_digest,
                "sender": self.name,
                "sender_key": self.signer.public.key_id,
                "recipient_key": invitation.recipient_key,
                "upload_id": secrets.token_hex(16),
                "issued": now,
                "expires": invitation.deadline,
                "policy_digest": invitation.policy_digest,
                "receipt": UNPROTECTED,
                "ledger_head": sha256(b"").hexdigest(),
                "plaintext_length": invitation.plaintext_length,
                **changes,
            }
        )

    def seal(self, core: UploadCore | bytes, plaintext: bytes, *, signer: FileSigner | None = None) -> Sealed:
        """Seal and sign any plaintext under any core."""
        data = core if isinstance(core, bytes) else core.canonical()
        sealer = Sealer(data, [self.server_key])
        body = sealer.update(plaintext) + sealer.finalize()
        return Sealed(sign_manifest(sealer, signer or self.signer), body)

    @property
    def server_key(self) -> PublicKey:
        """What uploads are sealed to."""
        return PublicKey.from_b64(self.root.server.hpke[0])

    def resign(self, honest: SignedManifest, body: bytes) -> Sealed:
        """Another body under the same core and key, signed as if it were the one."""
        draft = replace(honest, ciphertext_digest=sha256(body).digest(), signature=b"")
        return Sealed(replace(draft, signature=self.signer.sign(MANIFEST_LABEL, draft.signed_part)), body)

    def sealed_update(self, invitation: Invitation, arrays: Arrays, model: ModelSchema, **changes: Any) -> Sealed:
        """A whole upload."""
        plaintext = b"".join(tensors.encode(layouts.upload_schema(model), arrays))
        return self.seal(self.core(invitation, **changes), plaintext)

    def send_manifest(self, invitation: Invitation, data: bytes) -> httpx.Response:
        """POST the manifest; the answer as it is."""
        path = f"/v1/studies/{invitation.study}/rounds/{invitation.round}/manifest"
        return self.client.post(path, content=data, headers=OCTETS)

    def send_body(self, invitation: Invitation, digest: str, body: bytes, *, offset: int = 0) -> httpx.Response:
        """PUT the body; the answer as it is."""
        path = f"/v1/studies/{invitation.study}/rounds/{invitation.round}/body/{digest}"
        return self.client.put(path, content=body, headers={**OCTETS, "upload-offset": str(offset)})

    def send(self, invitation: Invitation, sealed: Sealed) -> httpx.Response:
        """Manifest, then body from where the server is."""
        answer = self.send_manifest(invitation, sealed.manifest.encode())
        if answer.status_code != 201:
            return answer
        offset = answer.json()["offset"]
        return self.send_body(invitation, sealed.digest, sealed.body[offset:], offset=offset)


def enrol(desk: Desk, port: int, directory: Path, name: str, *, keys: Keys | None = None) -> SimSite:
    """A site from its invitation to its certificate."""
    site, token = request(desk, port, directory, name, keys=keys)
    pending = ask(site, token)
    assert pending.state == "pending"
    waiting = invitations.waiting(desk, name, pending.fingerprint)
    invitations.approve(desk, waiting)
    site.root = desk.root
    site.certify(ask(site, token).certificates)
    return site


def request(
    desk: Desk, port: int, directory: Path, name: str, *, keys: Keys | None = None
) -> tuple[SimSite, InviteToken]:
    """An invited site that has not asked yet."""
    directory.mkdir(parents=True, exist_ok=True)
    token = invitations.invite(desk, site=name, hours=1, out=directory / f"{secrets.token_hex(4)}.invite")
    return SimSite(directory, name, keys=keys or Keys.make(), root=desk.root, port=port), token


def enrolment(site: SimSite, token: InviteToken, **changes: Any) -> bytes:
    """The signed request, but for `changes`."""
    message = EnrolmentRequest(
        **{
            "federation": token.federation,
            "site": site.name,
            "token": token.token,
            "secret": token.secret,
            "root_digest": token.root_digest,
            "keys": site.keys.public,
            "csr": base64url.encode(new_csr(site.keys.tls, token.federation, site.name)),
            "issued": seconds(site.clock),
            **changes,
        }
    )
    return sign(message, site.signer)


def ask(site: SimSite, token: InviteToken) -> EnrolmentReply:
    """Send the request, or ask again for the decision."""
    answer = site.anonymous.post("/v1/enrolments", content=enrolment(site, token), headers=OCTETS)
    return verify(ok(answer).content, EnrolmentReply, site.server)


def connect(root: RootDocument, port: int, identity: Path | None = None) -> httpx.Client:
    """A connection to the site port, with a certificate or without."""
    context = ssl.create_default_context(cadata=ssl.DER_cert_to_PEM_cert(base64url.decode(root.ca)))
    if identity is not None:
        context.load_cert_chain(identity)
    return httpx.Client(base_url=f"https://localhost:{port}", verify=context, timeout=30, trust_env=False)


def ok(answer: httpx.Response) -> httpx.Response:
    """The answer, if it is no refusal."""
    assert answer.status_code < 400, answer.text
    return answer


def reason_of(answer: httpx.Response) -> str:
    """The reason of a refusal."""
    assert answer.status_code >= 400, answer.status_code
    return str(answer.json()["type"]).rpartition(":")[2]

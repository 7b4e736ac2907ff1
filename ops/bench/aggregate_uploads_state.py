"""The server's state that `aggregate_uploads.py` measures on: a round that every site has answered.

The server's own code makes it, from the founding of the federation to the receipt of each upload; only sockets are
left out, and the sites' enrolment is rows written.
"""

import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from numpy.typing import NDArray

from secureproto.clock import SystemClock, seconds
from secureproto.crypto.certificates import client_certificate
from secureproto.crypto.envelope import sign
from secureproto.crypto.keys import FileSigner, PublicKey, load_signer
from secureproto.crypto.passphrase import read_passphrase
from secureproto.crypto.sealing import Sealer, sign_manifest
from secureproto.simulation.heart.hospitals import study_path
from secureproto.study import file as study_file
from secureproto.wire import base64url, layouts, tensors
from secureproto.wire.messages import UNPROTECTED, ModelSchema, StudyDescriptor, TensorEntry, UploadCore
from secureproto_server import creation, receive, roots, rounds
from secureproto_server.founding import Charter, found
from secureproto_server.services import Services
from secureproto_server.settings import load
from secureproto_server.startup import started
from secureproto_server.storage.records import Site, SiteState

STUDY, CLASSES, WIDTH = "heart", 2, 16
TENSORS, SIDE = 25, 1024  # 25 matrices of 4 MiB: 100 MiB in float32
BODIES = 4
Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Peer:
    """A site with its keys; `number` seeds what it uploads."""

    name: str
    number: int
    tls: ec.EllipticCurvePrivateKey
    signer: FileSigner
    hpke: PublicKey

    @classmethod
    def make(cls, number: int) -> "Peer":
        tls, signing, hpke = (ec.generate_private_key(ec.SECP256R1()) for _ in range(3))
        return cls(f"site-{number:02d}", number, tls, FileSigner(signing), PublicKey.of(hpke.public_key()))

    def row(self, now: int) -> Site:
        tls, signing = PublicKey.of(self.tls.public_key()), self.signer.public
        ids = (signing.key_id, self.hpke.key_id, tls.key_id)
        return Site(self.name, SiteState.ACTIVE, *ids, signing.b64, self.hpke.b64, tls.b64, now, None)


def prepare(directory: str, count: int) -> None:
    """A server's state with a round that every site has answered; a copy of its database beside it."""
    place = Path(directory)
    found(place / "federation", Charter("bench", ("localhost",), "alice", "Bench"), place / "keys", SystemClock())
    bodies = [extractor(number) for number in range(BODIES)]
    with server(place) as services:
        peers = [Peer.make(number) for number in range(count)]
        with services.store.transaction("enrol sites") as tx:
            person = roots.in_force(tx).people[0]
            for peer in peers:
                tx.insert(peer.row(seconds(services.clock)))
        operator = load_signer(
            place / "federation/operator/operator.key", read_passphrase("operator", place / "keys")
        )
        study, shared, head = descriptor(count, bodies[0])
        creation.create(services, person, creation.parts(sign(study, operator), shared, head))
        rounds.want(services, person, study=STUDY, rounds=1)
        for peer in peers:
            upload(services, peer, study, bodies[peer.number % BODIES])
    shutil.copyfile(place / "federation/server/state/server.db", place / "server.db")
    print("{}")


@contextmanager
def server(place: Path) -> Iterator[Services]:
    """The server's own parts on the state directory, as its process makes them; without ports."""
    settings = load(place / "federation/server")
    with started(settings, SystemClock(), public_url="https://localhost", accept_forward=False) as services:
        yield services


def schema() -> ModelSchema:
    """The model: 100 MiB of extractor, a small head."""
    return ModelSchema(
        classes=CLASSES,
        embedding_width=WIDTH,
        extractor=tuple(TensorEntry(name=f"layer{n:02d}", dtype="F32", shape=(SIDE, SIDE)) for n in range(TENSORS)),
        head=(TensorEntry(name="weight", dtype="F32", shape=(CLASSES, WIDTH)),),
        reports_loss=False,
    )


def extractor(number: int) -> Arrays:
    """One of the bodies, the same whenever it is asked for."""
    generator = np.random.default_rng(number)
    names = [f"extractor.layer{n:02d}" for n in range(TENSORS)]
    return {name: generator.standard_normal((SIDE, SIDE), np.float32) for name in names}


def counts(number: int) -> NDArray[np.float64]:
    """How many records of each class a site says it has."""
    return np.random.default_rng(number).integers(1, 500, CLASSES).astype(np.float64)


def descriptor(count: int, body: Arrays) -> tuple[StudyDescriptor, bytes, bytes]:
    """The heart study for so many sites and the large model, with its first weights."""
    text = study_path().read_text(encoding="utf-8")
    data = text.replace("quorum = 3", f"quorum = {count}").replace('deadline = "60s"', 'deadline = "12h"').encode()
    model = schema()
    absent = {"prototypes": np.zeros((CLASSES, WIDTH)), "prototype_age": np.full(CLASSES, -1, np.int64)}
    head = {"head.weight": np.zeros((CLASSES, WIDTH), np.float32)}
    parts = [
        b"".join(tensors.encode(layout(model), arrays))
        for layout, arrays in ((layouts.shared_schema, {**absent, **body}), (layouts.head_schema, head))
    ]
    study = StudyDescriptor(
        federation="bench",
        study=STUDY,
        file=base64url.encode(data),
        study_digest=study_file.digest(data),
        model=model,
        schema_digest=model.digest(),
        initial_shared=sha256(parts[0]).hexdigest(),
        initial_head=sha256(parts[1]).hexdigest(),
        created=seconds(SystemClock()),
    )
    return study, parts[0], parts[1]


def upload(services: Services, peer: Peer, study: StudyDescriptor, body: Arrays) -> None:
    """One site's upload, sealed by it and received by the server."""
    now, layout = seconds(services.clock), layouts.upload_schema(study.model)
    generator, mine = np.random.default_rng(1000 + peer.number), counts(peer.number)
    sums = np.abs(generator.standard_normal((CLASSES, WIDTH))) * mine[:, None]
    head = generator.standard_normal((CLASSES, WIDTH), np.float32)
    arrays: Arrays = {"prototypes": np.column_stack([sums, mine]), "head.weight": head, **body}
    core = upload_core(services, peer, study, layout.plaintext_length, now)
    sealer = Sealer(core.canonical(), [services.identity.hpke_public])
    chunks = [sealer.update(chunk) for chunk in tensors.encode(layout, arrays)]
    chunks.append(sealer.finalize())
    manifest = sign_manifest(sealer, peer.signer)
    public = PublicKey.of(peer.tls.public_key())
    leaf = client_certificate(services.identity.issuer, public, "bench", peer.name, now=now, seconds=3600)
    admitted = receive.accept_manifest(
        services, STUDY, 0, certificate=leaf.public_bytes(Encoding.DER), data=manifest.encode()
    )
    with services.blobs.spool(admitted.upload.blob) as spool:
        receiving, offset = receive.Body(services, admitted, spool), 0
        for chunk in chunks:
            receiving.write(offset, chunk)
            offset += len(chunk)
        receiving.finish()


def upload_core(services: Services, peer: Peer, study: StudyDescriptor, length: int, now: int) -> UploadCore:
    """What the upload says of itself."""
    return UploadCore(
        suite="p256",
        federation="bench",
        epoch=services.epoch,
        study=STUDY,
        round=0,
        attempt=1,
        study_digest=study.study_digest,
        schema_digest=study.schema_digest,
        sender=peer.name,
        sender_key=peer.signer.public.key_id,
        recipient_key=services.identity.hpke_public.key_id,
        upload_id=secrets.token_hex(16),
        issued=now,
        expires=now + 3600,
        policy_digest=study.study_digest,
        receipt=UNPROTECTED,
        ledger_head=sha256(b"").hexdigest(),
        plaintext_length=length,
    )

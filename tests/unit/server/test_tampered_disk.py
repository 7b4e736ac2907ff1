"""Somebody writes to the server's disk: rows and blobs change, and none of it comes into a model.

Sealing to the server needs only its public key, so a body that opens proves nothing: the signature in the manifest
beside it must be that of who made it, and the body must be the very one that was signed.
"""

from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.cobblestone import Cobblestone256Encryptor

from secureproto.crypto import sealing
from secureproto.crypto.keys import FileSigner
from secureproto.crypto.sealing import Sealer, SignedManifest, sign_manifest
from secureproto.errors import IntegrityBroken
from secureproto.wire import layouts, tensors
from secureproto_server import coordinator, receive, views
from secureproto_server.phases import Phase
from secureproto_server.storage.memory_blobs import MemoryBlobs
from secureproto_server.storage.records import Published, Upload
from support.parts import Parts, parts_in
from support.sending import admit, begun, deliver, send
from support.sending import sealed as sealed_update
from support.sim_site import Keys
from support.sim_study import Arrays, SimStudy

STRANGER = FileSigner(Keys.make().signing)


@pytest.fixture
def blobs() -> MemoryBlobs:
    return MemoryBlobs()


@pytest.fixture
def parts(tmp_path: Path, blobs: MemoryBlobs) -> Parts:
    return parts_in(tmp_path, blobs=blobs)


def sealed(parts: Parts, core: bytes, plaintext: bytes) -> tuple[Sealer, bytes]:
    """A body for the server, as anybody can make it."""
    sealer = Sealer(core, [parts.services.identity.hpke_public])
    return sealer, sealer.update(plaintext) + sealer.finalize()


def upload_bytes(study: SimStudy, arrays: Arrays) -> bytes:
    return b"".join(tensors.encode(layouts.upload_schema(study.model), arrays))


def stored(parts: Parts) -> Upload:
    with parts.services.store.transaction("look") as tx:
        found = tx.get(Upload, "small", 0, "alpha")
    assert found is not None
    return found


def outcome(parts: Parts) -> tuple[str, dict[str, str]]:
    coordinator.step(parts.services, "small")
    record = views.round_(parts.services, "small", 0)
    return record["phase"], record["details"]


def test_an_upload_that_somebody_else_signed(parts: Parts, blobs: MemoryBlobs, tmp_path: Path) -> None:
    study, members = begun(parts, tmp_path, "alpha", "beta")
    for seed, member in enumerate(members.values()):
        send(parts, member, study, seed)
    row = stored(parts)
    core = SignedManifest.parse(row.manifest).core
    sealer, body = sealed(parts, core, upload_bytes(study, study.update(99)))
    with parts.services.store.transaction("tamper") as tx:
        tx.put(replace(row, manifest=sign_manifest(sealer, STRANGER).encode()))
    blobs.blobs[row.blob] = body
    assert outcome(parts) == (Phase.COMPLETED, {"alpha": "bad_signature"})
    counted = b'secureproto_upload_rejections_total{reason="bad_signature",site="alpha"} 1.0\n'
    assert counted in parts.services.metrics.exposition()


def test_another_body_under_the_content_key_that_the_site_chose(
    parts: Parts, blobs: MemoryBlobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class OneKey:
        """An encryptor whose content key is known: that of the site, which the server has once it opened the body."""

        def __new__(cls, key: bytes, context: bytes) -> Cobblestone256Encryptor:  # type: ignore[misc]  # the real one
            return Cobblestone256Encryptor(key, context)

        @staticmethod
        def generate_key() -> bytes:
            return b"k" * 32

    monkeypatch.setattr(sealing, "Cobblestone256Encryptor", OneKey)
    study, members = begun(parts, tmp_path, "alpha", "beta")
    for seed, member in enumerate(members.values()):
        send(parts, member, study, seed)
    row = stored(parts)
    core = SignedManifest.parse(row.manifest).core
    blobs.blobs[row.blob] = sealed(parts, core, upload_bytes(study, study.update(99)))[1]
    assert outcome(parts) == (Phase.COMPLETED, {"alpha": "bad_signature"})


def test_a_published_body_that_the_server_did_not_sign(parts: Parts, blobs: MemoryBlobs, tmp_path: Path) -> None:
    study, members = begun(parts, tmp_path, "alpha")
    send(parts, members["alpha"], study, 1)
    with parts.services.store.transaction("tamper") as tx:
        row = tx.get(Published, "small", 0)
        assert row is not None
        sealer, body = sealed(parts, SignedManifest.parse(row.manifest).core, study.shared_bytes())
        tx.put(replace(row, manifest=sign_manifest(sealer, STRANGER).encode()))
    blobs.blobs[row.blob] = body
    with pytest.raises(IntegrityBroken, match=r"shared\.small\.0"):
        coordinator.step(parts.services, "small")
    assert views.round_(parts.services, "small", 0)["phase"] == Phase.AGGREGATE


def test_a_spool_longer_than_its_manifest_is_begun_again(parts: Parts, tmp_path: Path) -> None:
    study, members = begun(parts, tmp_path, "alpha")
    invitation, upload = sealed_update(parts, members["alpha"], study, study.update(1))
    admitted = admit(parts, members["alpha"], invitation, upload)
    with parts.services.blobs.spool(admitted.upload.blob) as spool:
        spool.write(0, upload.body[:100])
    assert receive.offset(parts.services, admitted) == 100
    with parts.services.blobs.spool(admitted.upload.blob) as spool:
        spool.write(100, bytes(len(upload.body)))
    assert receive.offset(parts.services, admitted) == 0
    deliver(parts, admitted, upload)
    assert outcome(parts) == ("completed", {})

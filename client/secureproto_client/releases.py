"""Installing a version of a study's model at the site.

The release came in a poll reply whose server signature was verified. Then, in this order:
    1  it is for this site and the pinned study, of no older epoch, and newer than what the site has
    2  each of its two parts was sealed under exactly the core that this version, part and site must have
    3  the ciphertext, fetched with resume, has the length and SHA-256 that the release names
    4  it opens with this site's key
    5  its tensors are the schema's, every number finite; the initial version has the digests that the operator signed
    6  stored as a whole, then noted, then offered for use

Invariant: a version that fails any step leaves nothing but a part file in the inbox.
"""

import logging
from collections.abc import Callable, Iterator
from hashlib import file_digest, sha256
from pathlib import Path
from typing import BinaryIO

from secureproto.clock import seconds
from secureproto.crypto.sealing import Opener
from secureproto.errors import IntegrityBroken, Rejected, Unavailable
from secureproto.wire import base64url
from secureproto.wire.layouts import head_schema, shared_schema
from secureproto.wire.limits import LIMITS
from secureproto.wire.messages import BroadcastCore, Release, SealedRef
from secureproto.wire.tensors import TensorReader, TensorSchema, check_finite
from secureproto_client.durable import replacing
from secureproto_client.facts import Installed
from secureproto_client.models import HEAD, SHARED, ModelLabel, model_name
from secureproto_client.pointer import Pointer
from secureproto_client.problems import demand
from secureproto_client.site import Site
from secureproto_client.studies import Study
from secureproto_client.transport.seam import Transport

EPOCH = "epoch"

log = logging.getLogger(__name__)


def install(site: Site, study: Study, release: Release) -> bool:
    """Steps 1 to 6. False when the site has the version already.

    Raises:
        IntegrityBroken: a check fails.
    """
    _demand_fit(site, study, release)
    latest = site.facts.latest(study.name)
    if latest is not None and release.version <= latest.version:
        return False
    name, store = model_name(release.version, "received"), site.models(study.name)
    if not store.has(name):
        draft = store.draft(name)
        model = study.descriptor.model
        _take(site, study, release, part="shared", target=draft / SHARED, schema=shared_schema(model))
        _take(site, study, release, part="head", target=draft / HEAD, schema=head_schema(model))
        pin = study.pin
        label = ModelLabel(pin.study_digest, pin.schema_digest, release.version, "received", seconds(site.clock))
        store.adopt(draft, label)
    site.facts.install(Installed(study.name, release.version, release.round, release.final))
    Pointer(store).offer(name)
    log.info("study %s: version %d installed%s", study.name, release.version, ", the last" if release.final else "")
    return True


def _demand_fit(site: Site, study: Study, release: Release) -> None:
    """Step 1."""
    about = (release.federation, release.site, release.study, release.study_digest)
    me = site.identity
    if about != (me.federation, me.site, study.name, study.descriptor.study_digest):
        raise IntegrityBroken("a release is for another site or study than it came for")
    if release.epoch < site.facts.number(EPOCH):
        raise IntegrityBroken(f"a release of {study.name} is of an older epoch than this site has seen")


def expected_core(site: Site, study: Study, release: Release, part: str, *, length: int, epoch: int) -> BroadcastCore:
    """The only core that a part of this release, sealed in this epoch, may have."""
    return BroadcastCore.model_validate(
        {
            "federation": site.identity.federation,
            "epoch": epoch,
            "study": study.name,
            "study_digest": study.descriptor.study_digest,
            "schema_digest": study.descriptor.schema_digest,
            "version": release.version,
            "part": part,
            "site": site.identity.site if part == "head" else "",
            "plaintext_length": length,
        }
    )


def _take(site: Site, study: Study, release: Release, *, part: str, target: Path, schema: TensorSchema) -> None:
    """Steps 2 to 5 for one part: its plaintext in `target`."""
    ref: SealedRef = release.shared if part == "shared" else release.head
    sealed_in = ref.core.epoch  # it may have been sealed before the server's epoch rose, never after
    core = expected_core(site, study, release, part, length=schema.plaintext_length, epoch=sealed_in)
    if ref.core != core or sealed_in > release.epoch:
        raise IntegrityBroken(
            f"the {part} part of {study.name} version {release.version} is sealed for something else"
        )
    path = f"/v1/studies/{study.name}/versions/{release.version}/{part}"
    sealed = site.paths.inbox / f"{ref.ciphertext_digest}.part"
    site.link.ask(lambda transport: _fetch(transport, path, ref, sealed))
    try:
        digest = _open(site, ref, sealed, target, schema=schema)
    except Rejected as error:
        raise IntegrityBroken(f"{study.name} version {release.version}, {part}: {error.message}") from None
    signed = study.descriptor.initial_shared if part == "shared" else study.descriptor.initial_head
    if release.version == 0 and digest != signed:
        raise IntegrityBroken(f"the first {part} part of {study.name} is not what the operator signed")
    sealed.unlink()


def _fetch(transport: Transport, path: str, ref: SealedRef, sealed: Path) -> None:
    """Step 3. What is there of an earlier try is kept; what is wrong is thrown away."""
    offset = sealed.stat().st_size if sealed.exists() else 0
    if offset < ref.ciphertext_length:
        with sealed.open("ab") as file:
            demand(transport.fetch(path, _bounded(file, ref.ciphertext_length), offset=offset), 200, 206)
    if sealed.stat().st_size < ref.ciphertext_length:
        raise Unavailable(f"{path}: the answer ended early")
    with sealed.open("rb") as file:
        whole = file_digest(file, "sha256").hexdigest()
    if whole != ref.ciphertext_digest:
        sealed.unlink()
        raise IntegrityBroken(f"{path}: not the bytes that the server signed for")


def _bounded(file: BinaryIO, length: int) -> Callable[[bytes], None]:
    """A sink that never lets the file grow over what the release names."""

    def write(piece: bytes) -> None:
        if file.tell() + len(piece) > length:
            raise IntegrityBroken("the server sends more than it signed for")
        file.write(piece)

    return write


def _open(site: Site, ref: SealedRef, sealed: Path, target: Path, *, schema: TensorSchema) -> str:
    """Steps 4 and 5: the plaintext's digest."""
    opener = Opener(ref.core.canonical(), base64url.decode(ref.wrapped), site.identity.hpke)
    reader, digest = TensorReader(schema), sha256()
    with replacing(target) as file:
        for plain in _opened(opener, sealed):
            for piece in reader.feed(plain):
                check_finite(piece)
            digest.update(plain)
            file.write(plain)
        reader.finish()
    return digest.hexdigest()


def _opened(opener: Opener, sealed: Path) -> Iterator[bytes]:
    with sealed.open("rb") as file:
        while chunk := file.read(LIMITS.chunk):
            yield opener.update(chunk)
    yield opener.finalize()

"""Sealed bodies at rest: what the server publishes, under its own key, and wrapped for a site when it is handed out.

Invariants: only ciphertext reaches the blob store; each body lies beside the signed manifest that opens it (its
content key wrapped for the server), so a body that was altered or exchanged on the disk does not open; handing a
body to a site wraps its key once more and leaves the body as it is, so one shared body serves every site.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secureproto.crypto.keys import PublicKey
from secureproto.crypto.sealing import Opener, Sealer, SignedManifest, rewrap, sign_manifest
from secureproto.errors import IntegrityBroken, Rejected
from secureproto.wire import base64url
from secureproto.wire.limits import LIMITS
from secureproto.wire.messages import BroadcastCore, SealedRef
from secureproto.wire.messages.base import Message
from secureproto.wire.tensors import Piece, Tensor, TensorReader, TensorSchema
from secureproto_server.services import Services

Arrays = Mapping[str, NDArray[Any]]
Chunk = bytes | memoryview


def seal(services: Services, name: str, core: Message, chunks: Iterable[Chunk]) -> bytes:
    """Seal a body to the server's own key and make it the durable blob `name`; returns its manifest.

    A body of that name left by an earlier attempt is replaced whole: no row names it yet.

    Raises:
        Unavailable: the disk is full or fails. Rejected: QUOTA.
    """
    sealer = Sealer(core.canonical(), [services.identity.hpke_public])
    services.blobs.delete(name)
    with services.blobs.spool(name) as spool:
        for chunk in chunks:
            if ciphertext := sealer.update(chunk):
                spool.write(spool.length, ciphertext)
        spool.write(spool.length, sealer.finalize())
        spool.finish()
    return sign_manifest(sealer, services.identity.signer).encode()


def open_chunks(services: Services, name: str, manifest: bytes) -> Iterator[bytes]:
    """The plaintext of a body of our own, as it is decrypted.

    Raises:
        IntegrityBroken: it does not open, or the server did not sign it: the disk was tampered with.
    """
    signed = SignedManifest.parse(manifest)
    try:
        signed.verify(services.identity.signer.public)
        yield from plaintext(services, name, signed)
    except Rejected as error:
        raise IntegrityBroken(f"blob {name}: {error.message}", hint="restore the state from a backup") from None


def plaintext(services: Services, name: str, manifest: SignedManifest) -> Iterator[bytes]:
    """The plaintext of a body that is sealed to the server. The manifest's signature is the caller's to check.

    Raises:
        Rejected: DECRYPT_FAILED. NotFound: there is no such blob.
    """
    opener = Opener(manifest.core, manifest.wrapped, services.identity.hpke)
    with closing(services.blobs.open(name)) as blob:
        while chunk := blob.read(LIMITS.chunk):
            yield opener.update(chunk)
    yield opener.finalize()


def pieces(schema: TensorSchema, chunks: Iterable[bytes]) -> Iterator[Piece]:
    """The tensors of a body, piece by piece; ends without error only when the body was whole.

    Raises:
        Rejected: SCHEMA, or what the chunks raise.
    """
    reader = TensorReader(schema)
    for chunk in chunks:
        yield from reader.feed(chunk)
    reader.finish()


def empty(tensor: Tensor) -> NDArray[Any]:
    """Room for a tensor."""
    return np.empty(tensor.shape, tensor.numpy_dtype)


def place(array: NDArray[Any], piece: Piece) -> None:
    """Put a piece where it belongs."""
    array.reshape(-1)[piece.offset : piece.offset + piece.values.size] = piece.values


def arrays(schema: TensorSchema, chunks: Iterable[bytes]) -> dict[str, NDArray[Any]]:
    """All tensors of a body, for one that fits into memory. Raises: as `pieces`."""
    whole = {tensor.name: empty(tensor) for tensor in schema.tensors}
    for piece in pieces(schema, chunks):
        place(whole[piece.tensor.name], piece)
    return whole


def reference(services: Services, manifest: bytes, site_key: PublicKey) -> SealedRef:
    """How a site fetches and opens a body: its manifest with the content key wrapped for that site."""
    signed = SignedManifest.parse(manifest)
    wrapped = rewrap(signed.core, signed.wrapped, services.identity.hpke, site_key)
    return SealedRef(
        core=BroadcastCore.parse(signed.core),
        wrapped=base64url.encode(wrapped),
        ciphertext_length=signed.ciphertext_length,
        ciphertext_digest=signed.ciphertext_digest.hex(),
    )


def watched(chunks: Iterable[Chunk], see: Callable[[Chunk], None]) -> Iterator[Chunk]:
    """The same chunks, each shown to `see` (a digest, say) on its way."""
    for chunk in chunks:
        see(chunk)
        yield chunk

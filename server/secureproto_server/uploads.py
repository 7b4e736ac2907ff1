"""What is checked of an upload's plaintext, and reading a stored upload again to aggregate it.

Invariants: plaintext is never on disk and never whole in memory; nothing is concluded before the stream has ended;
a refusal names no number of the site.
"""

from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256
from math import isfinite, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secureproto.aggregation.intake import check_class_sums, check_not_negative, check_values
from secureproto.crypto.keys import PublicKey
from secureproto.crypto.sealing import Opener, SignedManifest
from secureproto.errors import NotFound, Rejected
from secureproto.wire import layouts
from secureproto.wire.limits import LIMITS
from secureproto.wire.reasons import Reason
from secureproto.wire.tensors import Piece, check_finite
from secureproto_server import vault
from secureproto_server.services import Services
from secureproto_server.storage.records import Site, Upload
from secureproto_server.studies import Plan

SLACK = 1 + 1e-6  # float32 sums round: a norm at the bound must pass
Base = dict[str, NDArray[Any]]


def blob_name(study: str, number: int, site: str) -> str:
    """The blob of a site's upload to a round."""
    return f"upload.{study}.{number}.{site}"


class Inspection:
    """Takes an upload's pieces in order and refuses what the study's bounds exclude.

    `base`: the tensors that the site started from, by their wire name; needed only with a bound on the update.
    """

    def __init__(self, plan: Plan, site: str, base: Base | None) -> None:
        self._plan, self._site, self._base = plan, site, base
        model = plan.descriptor.model
        self._class_sums = np.zeros((model.classes, model.embedding_width + 1))
        self._squares = 0.0

    def see(self, piece: Piece) -> None:
        """Look at the next piece.

        Raises:
            Rejected: NON_FINITE, NORM_BOUND.
        """
        if piece.tensor.dtype != "I64":
            check_finite(piece)
        check_values(piece.values, site=self._site, what=f"tensor {piece.tensor.name!r}")
        stop = piece.offset + piece.values.size
        if piece.tensor.name == layouts.PROTOTYPES:
            self._class_sums.reshape(-1)[piece.offset : stop] = piece.values
        elif self._base is not None and piece.tensor.name in self._base:
            before = self._base[piece.tensor.name].reshape(-1)[piece.offset : stop]
            change = piece.values.astype(np.float64) - before
            self._squares += float(change @ change)

    def finish(self) -> None:
        """Judge the whole.

        Raises:
            Rejected: SCHEMA for class sums that no records give; NORM_BOUND for an update or an embedding over its
                bound.
        """
        check_class_sums(self._class_sums, site=self._site)
        if self._plan.options.form == "linear":
            check_not_negative(self._class_sums, site=self._site)
        bounds = self._plan.file.bounds
        if bounds.max_update_norm is not None:
            norm = sqrt(self._squares)
            if not isfinite(norm) or norm > bounds.max_update_norm * SLACK:
                raise Rejected(Reason.NORM_BOUND, "the update is larger than bounds.max_update_norm allows")
        if bounds.max_embedding_norm is not None:
            sums, counts = self._class_sums[:, :-1], self._class_sums[:, -1]
            if (np.linalg.norm(sums, axis=1) > counts * bounds.max_embedding_norm * SLACK).any():
                raise Rejected(Reason.NORM_BOUND, "a class prototype is larger than bounds.max_embedding_norm allows")


def stored_pieces(services: Services, plan: Plan, upload: Upload, site: Site) -> Iterator[Piece]:
    """A stored upload's tensors, decrypted in memory; signature, length and digest are checked once more.

    Raises:
        Rejected: it is no longer what the site signed.
    """
    manifest = SignedManifest.parse(upload.manifest)
    manifest.verify(PublicKey.from_b64(site.signing_key))
    digest = sha256()
    opener = Opener(manifest.core, manifest.wrapped, services.identity.hpke)

    def plaintext() -> Iterator[bytes]:
        try:
            blob = services.blobs.open(upload.blob)
        except NotFound:
            raise Rejected(Reason.DECRYPT_FAILED, "the stored upload is gone from the disk") from None
        with closing(blob):
            while chunk := blob.read(LIMITS.chunk):
                digest.update(chunk)
                yield opener.update(chunk)
        yield opener.finalize()
        if digest.digest() != manifest.ciphertext_digest:
            raise Rejected(Reason.BAD_SIGNATURE, "the stored upload is not the body that the site signed")

    yield from vault.pieces(plan.upload_schema, plaintext())

"""Folds of a site's training records, to judge models by: by a keyed hash, as the hold-out, and never by a shuffle.

Invariants: a record's fold depends on its id and the site's key alone (where the data have no ids, on the record
itself), so that neither the order of the records nor another record moves it; records with one id (one patient) are
in one fold, and cannot be judged by a model that has seen the patient; the label is another than the hold-out's, so
that the fold of a record has nothing to do with its side.
"""

import hmac
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from secureproto.data.holdout import KEY_BYTES
from secureproto.data.source import Loaded
from secureproto.wire.canonical import length_prefixed

LABEL = b"secureproto/v1/choice-fold"
ID, RECORD = b"id", b"record"


class Folding:
    """Divides records into folds of about `share` of them each.

    Raises:
        ValueError: the share is not in (0, 0.5], or the key not of 32 bytes.
    """

    def __init__(self, share: float, key: bytes) -> None:
        if not 0 < share <= 0.5 or len(key) != KEY_BYTES:
            raise ValueError("folds need a share in (0, 0.5] and a key of 32 bytes")
        self.count = round(1 / share)
        self._key = key

    def of(self, loaded: Loaded) -> NDArray[np.int64]:
        """(n,) the fold, 0 … count − 1, of each training record."""
        return np.array([self._fold(*identity) for identity in _identities(loaded)], dtype=np.int64)

    def _fold(self, kind: bytes, data: bytes) -> int:
        digest = hmac.digest(self._key, length_prefixed(LABEL, kind, data), sha256)
        return int.from_bytes(digest[:8], "big") * self.count >> 64


def _identities(loaded: Loaded) -> list[tuple[bytes, bytes]]:
    """What each training record is known by: its id, or all of it."""
    records = loaded.train
    ids = loaded.train_ids or ("",) * len(records)
    return [
        (ID, name.encode("utf-8", "surrogatepass")) if name else (RECORD, x.tobytes() + y.tobytes())
        for name, x, y in zip(ids, records.x, records.y, strict=True)
    ]

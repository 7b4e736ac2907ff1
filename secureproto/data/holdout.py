"""Which records are held out: by a keyed hash of the record's own id, never by a shuffle.

Invariants: the side of a record depends on its id and the key alone, so that adding or removing records moves no
other one; records with one id (one patient) stay on one side; without the key, which the site keeps, nobody can
tell the side of an id. PRIVACY, "Before the clip".
"""

import hmac
from enum import StrEnum
from hashlib import sha256

from secureproto.study.features import BadRecord
from secureproto.wire.canonical import length_prefixed

LABEL = b"secureproto/v1/hold-out"
KEY_BYTES = 32


class Side(StrEnum):
    """Where a record goes; the texts of a split column."""

    TRAIN = "train"
    TEST = "test"


class HoldOut:
    """A share in [0, 1) of the ids goes to the hold-out."""

    def __init__(self, share: float, key: bytes) -> None:
        if not 0 <= share < 1 or len(key) != KEY_BYTES:
            raise ValueError("a hold-out needs a share in [0, 1) and a key of 32 bytes")
        self._bound = int(share * 2**64)
        self._key = key

    def side(self, record_id: str) -> Side:
        """The side of the record with this id; an empty id raises BadRecord where there is anything to hold out."""
        if self._bound == 0:
            return Side.TRAIN
        if not record_id:
            raise BadRecord("the id is missing")
        # a file's name or an array's text may hold surrogates; they too are an id
        data = record_id.encode("utf-8", "surrogatepass")
        digest = hmac.digest(self._key, length_prefixed(LABEL, data), sha256)
        return Side.TEST if int.from_bytes(digest[:8], "big") < self._bound else Side.TRAIN


def given_side(raw: str) -> Side | None:
    """The side of a record whose data say it themselves; None for neither. Raises BadRecord for another text."""
    if not raw:
        return None
    try:
        return Side(raw)
    except ValueError:
        raise BadRecord('the split is none of "train", "test" and empty') from None

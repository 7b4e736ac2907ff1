"""A receipt proves offline that its upload is in the log, and nothing else passes for it."""

import pytest

from secureproto.audit.checkpoint import Checkpoint, sign
from secureproto.audit.entries import Entry
from secureproto.audit.export import Logged
from secureproto.audit.merkle import inclusion_proof, leaf_hash, root_of, stored_leaves
from secureproto.audit.receipt import verify_receipt, verify_upload_receipt
from secureproto.errors import IntegrityBroken
from secureproto.wire import base64url
from secureproto.wire.messages import UploadReceipt
from support.audit_logs import KEYS, ORIGIN, SERVER, events, last_checkpoint, make_log

RECORDS = make_log(events(11))
ENTRIES = [record.data for record in RECORDS if isinstance(record, Logged)]
READ = stored_leaves([leaf_hash(data) for data in ENTRIES])
TEXT = last_checkpoint(RECORDS)


def receipt(number: int, **changes: object) -> UploadReceipt:
    fields: dict[str, object] = {
        "federation": "heart",
        "epoch": 0,
        "study": "trial",
        "round": number,
        "site": f"site-{number}",
        "manifest_digest": f"{number:064x}",
        "protection": "unprotected",
        "received": 0,
        "entry": base64url.encode(ENTRIES[number]),
        "sequence": number,
        "proof": tuple(node.hex() for node in inclusion_proof(number, 11, READ)),
        "checkpoint": base64url.encode(TEXT.encode()),
    }
    return UploadReceipt.model_validate(fields | changes)


@pytest.mark.parametrize("number", range(1, 11))
def test_a_receipt_holds(number: int) -> None:
    entry = verify_upload_receipt(receipt(number), ORIGIN, keys=KEYS)
    assert (entry.sequence, entry.actor) == (number, f"site-{number}")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"study": "lungs"}, "not about this upload"),
        ({"round": 4}, "not about this upload"),
        ({"site": "site-4"}, "not about this upload"),
        ({"manifest_digest": "e" * 64}, "not about this upload"),
        ({"sequence": 4}, "does not lead to the root"),
        ({"sequence": 11}, "no leaf 11"),
        ({"proof": ()}, "too short"),
        ({"proof": ("0" * 64,) * 4}, "does not lead to the root"),
        ({"entry": base64url.encode(ENTRIES[4])}, "does not lead to the root"),
        ({"entry": "AAB"}, "not text in base64url"),
        ({"checkpoint": "_w"}, "not text in base64url"),
        ({"checkpoint": base64url.encode(TEXT[:-9].encode())}, "checkpoint"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else str(value),  # never the bytes: signatures vary
)
def test_a_changed_receipt_fails(changes: dict[str, object], says: str) -> None:
    with pytest.raises(IntegrityBroken, match=says):
        verify_upload_receipt(receipt(5, **changes), ORIGIN, keys=KEYS)


def test_an_upload_that_is_not_in_the_log_has_no_receipt() -> None:
    forged = ENTRIES[5].replace(b'"actor":"site-5"', b'"actor":"site-6"')
    with pytest.raises(IntegrityBroken, match="does not lead to the root"):
        verify_upload_receipt(receipt(5, site="site-6", entry=base64url.encode(forged)), ORIGIN, keys=KEYS)


def test_an_entry_that_is_no_upload_is_no_receipt() -> None:
    zero = receipt(0, site="server", manifest_digest="0" * 64)
    with pytest.raises(IntegrityBroken, match="not about this upload"):
        verify_upload_receipt(zero, ORIGIN, keys=KEYS)


def one_leaf(data: bytes) -> str:
    return sign(Checkpoint(ORIGIN, 1, root_of(1, stored_leaves([leaf_hash(data)]))), SERVER)


def test_a_leaf_that_is_no_entry_is_refused_though_it_is_in_the_tree() -> None:
    with pytest.raises(IntegrityBroken, match="receipt: not canonical"):
        verify_receipt(b"junk", [], index=0, checkpoint_text=one_leaf(b"junk"), origin=ORIGIN, keys=KEYS)


def test_an_entry_at_another_place_than_its_own_is_refused() -> None:
    data = ENTRIES[5]
    assert Entry.parse(data).sequence == 5
    with pytest.raises(IntegrityBroken, match="entry 5 stands at place 0"):
        verify_receipt(data, [], index=0, checkpoint_text=one_leaf(data), origin=ORIGIN, keys=KEYS)

"""SPEC.md is checked against the program: its example verifies, its tables are complete."""

import io
import re
from pathlib import Path

from secureproto.audit import export
from secureproto.audit.checkpoint import SIGNATURE_TYPE
from secureproto.audit.entries import Entry
from secureproto.audit.verify import verify_records
from secureproto.audit.vocabulary import NEEDS, Action, Detail, Role
from secureproto.crypto.keys import PublicKey
from support.audit_logs import ORIGIN

SPEC = (Path(export.__file__).parent / "SPEC.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", SPEC, re.MULTILINE | re.DOTALL)


def test_the_example_verifies_under_the_printed_key() -> None:
    (log,) = blocks("json")
    note, key_text = blocks("text")
    key = PublicKey.from_b64(key_text.strip())
    records = list(export.read(io.BytesIO(log.encode())))
    report = verify_records(records, origin=ORIGIN, keys={key.key_id: key}, witnessed=[note])
    assert (report.size, report.witnessed) == (2, 1)
    assert records[-1] == export.SignedCheckpoint(note)


def test_every_action_and_what_it_must_say_is_in_the_table() -> None:
    for action in Action:
        (row,) = re.findall(rf"^\| {action} \| (.*) \|$", SPEC, re.MULTILINE)
        said = set() if row == "-" else {word.removeprefix("details.") for word in row.split(", ")}
        assert said == NEEDS[action]
        assert {word for word in NEEDS[action] if f"details.{word}" in row} == NEEDS[action] & frozenset(Detail)


def test_every_field_and_role_is_named() -> None:
    (table,) = re.findall(r"\| field \| value \|\n(.*?)\n\n", SPEC, re.DOTALL)
    named = {name for row in table.splitlines()[1:] for name in row.split("|")[1].strip().split(", ")}
    assert named == set(Entry.model_fields)
    assert all(f"`{role}`" in table for role in Role)


def test_the_signature_type_is_the_printed_one() -> None:
    assert SIGNATURE_TYPE == b"\xff" + b"secureproto/v1/ecdsa-p256-sha256"
    assert '0xff ‖ "secureproto/v1/ecdsa-p256-sha256"' in SPEC

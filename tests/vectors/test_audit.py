"""Every attack on the log in tests/vectors/audit: found, and the first entry that fails is named."""

import io
import json
from pathlib import Path

import pytest

from secureproto.audit import export
from secureproto.audit.verify import verify_records
from secureproto.crypto.keys import PublicKey
from support.audit_vectors import VECTORS, vectors

FILES = sorted(VECTORS.glob("*.json"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_attack_on_the_log(path: Path) -> None:
    vector = json.loads(path.read_text())
    keys = {key.key_id: key for key in map(PublicKey.from_b64, vector["keys"])}

    def verify() -> None:
        verify_records(
            export.read(io.BytesIO(vector["log"].encode())),
            origin=vector["origin"],
            keys=keys,
            witnessed=vector["witnessed"],
        )

    if vector["holds"]:
        verify()
        return
    with pytest.raises(export.LogBroken) as caught:
        verify()
    assert caught.value.sequence == vector["sequence"]
    assert vector["says"] in caught.value.message
    assert caught.value.message.startswith(f"audit log: entry {vector['sequence']}: ")


def test_the_committed_vectors_are_what_the_independent_encoder_writes() -> None:
    committed = {path.stem: json.loads(path.read_text()) for path in FILES}
    assert committed == vectors()

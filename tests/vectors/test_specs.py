"""The examples and tables of both SPEC.md are true."""

import json
import re
from http import HTTPStatus
from pathlib import Path

from secureproto.wire.messages import Problem, Refusal
from secureproto.wire.reasons import Reason, status
from secureproto.wire.tensors import Tensor, TensorSchema
from support import second_format as form
from support.sealing_vectors import CORE
from support.vectors import ROOT

PRODUCT = ROOT.parent.parent / "secureproto"
WIRE, CRYPTO = ((PRODUCT / room / "SPEC.md").read_text(encoding="utf-8") for room in ("wire", "crypto"))


def _vector(path: str) -> dict[str, str]:
    value: dict[str, str] = json.loads((ROOT / path).read_text(encoding="utf-8"))
    return value


def test_the_refusal_and_its_envelope_are_the_vectors() -> None:
    vector = _vector("crypto/envelopes/envelope.json")
    assert f"\n{vector['payload']}\n" in WIRE
    assert Refusal.parse(vector["payload"].encode())
    assert f"Content-Length: {len(vector['envelope'])}\n" in WIRE
    assert vector["envelope"] in CRYPTO.replace(",\n", ",")


def test_the_tensor_header_is_what_is_sent() -> None:
    schema = TensorSchema((Tensor("prototypes", "F64", (2, 3)), Tensor("head.weight", "F32", (1, 3))))
    shown = schema.header[:8].hex() + " " + schema.header[8:].decode().replace("}}   ", "}}···")
    assert f"\n{shown}\n" in WIRE
    assert f"these {len(schema.header)} bytes" in WIRE
    assert schema.plaintext_length == len(schema.header) + 48 + 12


def test_the_sealed_upload_is_the_vector() -> None:
    vector = _vector("crypto/sealed/upload_opens.json")
    manifest = bytes.fromhex(vector["manifest"])
    assert vector["manifest_digest"] in CRYPTO
    assert form.seal_context(CORE).hex() in CRYPTO
    assert f"a manifest of {len(manifest):,} bytes" in CRYPTO
    shown = re.search(r"^([0-9a-f]{8}) core\(820\) (\w+) wrapped\(113\) (\w+) digest\(32\) (\w+) sig", CRYPTO, re.M)
    assert shown
    after_core, after_wrapped = 4 + 820, 4 + 820 + 4 + 113
    assert shown.groups() == (
        manifest[:4].hex(),
        manifest[after_core : after_core + 4].hex(),
        manifest[after_wrapped : after_wrapped + 8].hex(),
        manifest[after_wrapped + 40 : after_wrapped + 44].hex(),
    )
    assert f"a body of {len(bytes.fromhex(vector['body'])):,} bytes" in CRYPTO


def test_the_problem_is_a_message() -> None:
    shown = re.search(r'^\{"detail".*\}$', WIRE, re.M)
    assert shown
    problem = Problem.parse(shown[0].encode())
    assert HTTPStatus(problem.status).phrase == problem.title


def test_every_reason_stands_in_the_table_under_its_status() -> None:
    rows = re.findall(r"^\| (\d{3}) \| (.*) \|$", WIRE, re.M)
    table = {name: int(code) for code, names in rows for name in re.findall(r"`(\w+)`", names)}
    assert table == {str(reason): status(reason) for reason in Reason}


def test_every_label_of_the_specs_is_in_the_code() -> None:
    code = "".join(path.read_text(encoding="utf-8") for path in Path(PRODUCT).rglob("*.py"))
    for label in re.findall(r"`\"?(secureproto/v1/[a-z-]+)\"?", WIRE + CRYPTO):
        assert f'"{label}"' in code, label

"""Creating studies and exporting models, at the operator's desk. Only `prepare` needs torch (to make first weights).

Invariants: what is signed is the file byte for byte, the model's shape, and the digests of the weights; the export
is the published body itself: it is a safetensors file, and its SHA-256 is the digest that the audit log names.
"""

import json
from collections.abc import Collection
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from secureproto.clock import seconds
from secureproto.crypto.envelope import sign
from secureproto.errors import Conflict, IntegrityBroken, Misconfigured
from secureproto.study import file as study_file
from secureproto.wire import base64url, layouts, tensors
from secureproto.wire.messages import StudyDescriptor
from secureproto_server import creation
from secureproto_server.desk import Desk


@dataclass(frozen=True)
class Prepared:
    """A study ready to be sent."""

    descriptor: StudyDescriptor
    shared: bytes
    head: bytes


def prepare(desk: Desk, path: Path, *, allowed_factories: Collection[str]) -> Prepared:
    """Read a study file and make its model's first weights.

    Raises:
        Misconfigured: the file does not pass, or torch is not installed. PolicyDenied: a factory is not allowed.
    """
    data = study_file.read(path)
    study = study_file.load(data, name=str(path))
    try:
        from secureproto.learning.exchange import initial_arrays
        from secureproto.learning.model import build, model_schema
    except ImportError:
        raise Misconfigured(
            "study create makes the first weights and needs torch", hint="pip install secureproto[client]"
        ) from None
    model = build(study, allowed_factories)
    schema = model_schema(model, study)
    shared_arrays, head_arrays = initial_arrays(model)
    shared = b"".join(tensors.encode(layouts.shared_schema(schema), shared_arrays))
    head = b"".join(tensors.encode(layouts.head_schema(schema), head_arrays))
    descriptor = StudyDescriptor(
        federation=desk.settings.federation,
        study=study.name,
        file=base64url.encode(data),
        study_digest=study_file.digest(data),
        model=schema,
        schema_digest=schema.digest(),
        initial_shared=sha256(shared).hexdigest(),
        initial_head=sha256(head).hexdigest(),
        created=seconds(desk.clock),
    )
    return Prepared(descriptor, shared, head)


def send(desk: Desk, prepared: Prepared) -> dict[str, Any]:
    """Sign the study and hand it to the server. Raises: as the server says."""
    envelope = sign(prepared.descriptor, desk.signer)
    body = creation.parts(envelope, prepared.shared, prepared.head)
    meaning = f"create study {prepared.descriptor.study}"
    answer: dict[str, Any] = json.loads(desk.request("POST", "studies", body, meaning=meaning))
    return answer


def export(desk: Desk, study: str, version: int | None, out: Path) -> dict[str, Any]:
    """Write the shared part of a version to a file; without a version the newest.

    Raises:
        Conflict: the file is there already. NotFound: no such version. IntegrityBroken: not the bytes published.
    """
    if out.exists():
        raise Conflict(f"{out} is there already", hint="name another file")
    rows = desk.get(f"studies/{study}/models", meaning="list models")
    wanted = rows[-1]["version"] if version is None else version
    body = desk.request("GET", f"studies/{study}/versions/{wanted}/model", b"", meaning=f"export {study} {wanted}")
    digest = sha256(body).hexdigest()
    if digest != next(row["digest"] for row in rows if row["version"] == wanted):
        raise IntegrityBroken(f"the server sent another body than the one published as version {wanted}")
    draft = out.with_name(f".{out.name}.part")
    draft.write_bytes(body)
    draft.replace(out)
    return {"study": study, "version": wanted, "file": str(out), "bytes": len(body), "sha256": digest}

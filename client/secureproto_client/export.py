"""A model of the site as one safetensors file, for other programs.

The file says of itself what it is: study, version, digests, and whether it is private. A model made here was trained
on this site's records alone, so it is marked `private`: whoever passes it on passes on what it tells of them.
"""

from pathlib import Path

import numpy as np

from secureproto.errors import Conflict
from secureproto_client.durable import replace
from secureproto_client.models import ModelStore, is_private
from secureproto_client.studies import Study


def export(store: ModelStore, study: Study, name: str, target: Path) -> None:
    """Write a model to `target`.

    Raises:
        NotFound: no such model. Conflict: `target` is there already.
        IntegrityBroken: the stored model is damaged.
    """
    from safetensors.numpy import save  # here: only an export needs it

    if target.exists():
        raise Conflict(f"{target} is there already", hint="give another name: nothing is overwritten")
    model = store.load(name, study.descriptor.model)
    metadata = {
        "study": study.name,
        "model": name,
        "origin": model.note.origin,
        "private": str(is_private(name)).lower(),
        "protection": "unprotected",
        "study_digest": model.note.study_digest,
        "schema_digest": model.note.schema_digest,
        "classes": "\n".join(study.file.classes),
    }
    tensors = {key: np.ascontiguousarray(array) for key, array in {**model.shared, **model.head}.items()}
    replace(target, save(tensors, metadata))

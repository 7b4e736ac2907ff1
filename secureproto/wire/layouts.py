"""The three bodies of the protocol, each derived from the one model schema that both sides agreed on.

`upload`: what a site sends. `shared`: what a version publishes to all. `head`: what it publishes to one site.
Invariant: a function of `ModelSchema` alone, so that its digest fixes all three.
Source: SPEC.md, The three bodies.
"""

from secureproto.wire.messages import ModelSchema, TensorEntry
from secureproto.wire.tensors import Tensor, TensorSchema

PROTOTYPES = "prototypes"
PROTOTYPE_AGE = "prototype_age"
LOSS = "loss"
HEAD = "head."
EXTRACTOR = "extractor."


def upload_schema(model: ModelSchema) -> TensorSchema:
    """Class sums and counts, the loss if the study asks for it, the head, the extractor.

    `prototypes` is F64 (C, d + 1): per class the sum of its embeddings, then their number. It comes first, so that
    a site's weight n_i is known when its extractor streams by.
    """
    return TensorSchema(
        (
            Tensor(PROTOTYPES, "F64", (model.classes, model.embedding_width + 1)),
            *((Tensor(LOSS, "F64", (1,)),) if model.reports_loss else ()),
            *_prefixed(HEAD, model.head),
            *_prefixed(EXTRACTOR, model.extractor),
        )
    )


def shared_schema(model: ModelSchema) -> TensorSchema:
    """Global prototypes F64 (C, d), their age I64 (C): -1 absent, else rounds since renewed; the extractor."""
    return TensorSchema(
        (
            Tensor(PROTOTYPES, "F64", (model.classes, model.embedding_width)),
            Tensor(PROTOTYPE_AGE, "I64", (model.classes,)),
            *_prefixed(EXTRACTOR, model.extractor),
        )
    )


def head_schema(model: ModelSchema) -> TensorSchema:
    """One site's head."""
    return TensorSchema(_prefixed(HEAD, model.head))


def _prefixed(prefix: str, entries: tuple[TensorEntry, ...]) -> tuple[Tensor, ...]:
    return tuple(Tensor(prefix + entry.name, entry.dtype, entry.shape) for entry in entries)

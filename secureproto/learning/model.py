"""The model of a study: a feature extractor f and a classifier head, as one module with two outputs.

Invariants: equal study files give equal first weights, whatever ran before; everything that travels is in
`extractor` or in `head`; the embedding of the method is what `forward` returns, after normalisation if the study
asks for it.
"""

import logging
from collections.abc import Collection

import torch
from torch import Tensor, nn

from secureproto.errors import Misconfigured
from secureproto.learning.architectures import ModelSpec
from secureproto.learning.arrays import load_arrays, to_arrays
from secureproto.learning.factories import find_factory, model_spec
from secureproto.learning.inspection import DTYPES, batch_norm_layers, check_outputs, check_tensors
from secureproto.learning.seeding import reproducible
from secureproto.study.schema import StudyFile
from secureproto.wire.messages import ModelSchema, TensorEntry

__all__ = ["Model", "build", "load_arrays", "model_schema", "to_arrays"]

SMALLEST_NORM = 1e-6  # an embedding of zeros stays zeros, and its gradient finite

log = logging.getLogger(__name__)


class UnitNorm(nn.Module):
    """z / max(‖z‖, 1e-6), record by record: what one record adds to a class sum is bounded by 1."""

    def forward(self, z: Tensor) -> Tensor:
        norms: Tensor = torch.linalg.vector_norm(z, dim=1, keepdim=True)
        return z / norms.clamp_min(SMALLEST_NORM)


class Model(nn.Module):
    """(n, *input_shape) float32 → (logits (n, C), embeddings (n, d))."""

    def __init__(self, extractor: nn.Module, head: nn.Module, *, spec: ModelSpec, normalise: bool = False) -> None:
        super().__init__()
        self.extractor = extractor
        self.head = head
        self.normalise: nn.Module = UnitNorm() if normalise else nn.Identity()
        self.classes = spec.classes
        self.embedding_width = spec.embedding_width

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        if x.dim() == 4:
            # pooling and convolution over many channels are half again as fast in this layout; the numbers of one
            # machine stay reproducible, since the layout is always the same
            x = x.contiguous(memory_format=torch.channels_last)
        embeddings = self.normalise(self.extractor(x))
        return self.head(embeddings), embeddings


def build(study: StudyFile, allowed_factories: Collection[str] = ()) -> Model:
    """The study's model with its first weights, in evaluation mode.

    `allowed_factories`: the `package.module:factory` names this site runs. BatchNorm is warned of in the log.

    Raises:
        PolicyDenied: the model's factory is not among them.
        Misconfigured: it is not installed, fails, or makes a model that does not fit the study.
    """
    spec = model_spec(study)
    factory = find_factory(study.model.name, allowed_factories)
    with reproducible(study.model.seed):
        try:
            extractor, head = factory(spec)
            model = Model(extractor, head, spec=spec, normalise=study.model.normalise_embedding)
            if study.data.kind == "image":
                model.to(memory_format=torch.channels_last)
        except (TypeError, ValueError, KeyError, RuntimeError) as error:
            raise Misconfigured(
                f"model {study.model.name}: its factory failed with {type(error).__name__}",
                hint="check model.options and model.embedding_width of the study",
            ) from error
        check_tensors(model)
        check_outputs(model, spec)
    layers = batch_norm_layers(model)
    if layers:
        log.warning("model %s has BatchNorm (%s): use GroupNorm", study.model.name, ", ".join(layers))
    return model


def model_schema(model: Model, study: StudyFile) -> ModelSchema:
    """All that the server learns of a model: names, dtypes and shapes, in the order in which they travel."""
    return ModelSchema(
        classes=model.classes,
        embedding_width=model.embedding_width,
        extractor=_entries(model.extractor),
        head=_entries(model.head),
        reports_loss=study.stopping is not None,
    )


def _entries(module: nn.Module) -> tuple[TensorEntry, ...]:
    return tuple(
        TensorEntry.model_validate({"name": name, "dtype": DTYPES[tensor.dtype], "shape": tuple(tensor.shape)})
        for name, tensor in module.state_dict().items()
    )

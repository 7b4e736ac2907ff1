"""An example of a model package of a third party: a study names it as `support.tiny_model:factory`.

A site that has read and installed it allows that name in its settings. Its option
`inner` comes from the study's `[model.options]` table.
"""

from math import prod

from torch import Tensor, nn

from secureproto.learning.architectures import ModelSpec


class Extractor(nn.Module):
    """Two layers with a GroupNorm and a dropout between them."""

    def __init__(self, inputs: int, inner: int, embedding_width: int) -> None:
        super().__init__()
        self.inner = nn.Linear(inputs, inner)
        self.norm = nn.GroupNorm(2, inner)
        self.dropout = nn.Dropout(0.1)
        self.outer = nn.Linear(inner, embedding_width)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.norm(self.inner(x.flatten(1))).relu()
        embeddings: Tensor = self.outer(self.dropout(hidden)).relu()
        return embeddings


def factory(spec: ModelSpec) -> tuple[nn.Module, nn.Module]:
    """The pair (extractor, head) for a study. Option `inner`: an even number of hidden units, 16 by default."""
    inner = spec.options.get("inner", 16)
    if not isinstance(inner, int) or inner < 2 or inner % 2:
        raise ValueError("option inner is an even number from 2 on")
    extractor = Extractor(prod(spec.input_shape), inner, spec.embedding_width)
    return extractor, nn.Linear(spec.embedding_width, spec.classes)

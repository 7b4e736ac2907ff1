"""torchvision's residual network, with blocks that hooks for gradients per record can take. A module of its own, so
that torchvision is loaded only where such a model is asked for.
"""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torchvision.models.resnet import BasicBlock, ResNet


def residual_network(blocks: list[int], *, norm: Callable[[int], nn.Module]) -> Any:
    """The network of He et al. (CVPR 2016) with basic blocks, and `norm` in place of BatchNorm."""
    return ResNet(_Block, blocks, norm_layer=norm)


class _Block(BasicBlock):  # type: ignore[misc]  # torchvision has no types
    """torchvision's block, with a sum in place of `out += identity`: hooks for gradients per record need that."""

    def forward(self, x: Tensor) -> Tensor:
        identity = x if self.downsample is None else self.downsample(x)
        inner = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        out: Tensor = self.relu(inner + identity)
        return out

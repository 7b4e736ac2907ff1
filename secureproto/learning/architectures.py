"""The model factories that come with the project: each makes the pair (extractor, head) of a study.

A factory is any callable from a `ModelSpec` to two modules: the extractor maps (n, *input_shape) float32 to
(n, embedding_width), the head maps that to (n, classes) logits. A site may allow its own as
`package.module:factory`; `tests/support/model_factory_contract.py` is the contract to run on it.

Invariants of ours: the embedding ends in a ReLU, so no entry is negative and no cosine between sites is (the
linear form of mixing needs that); no BatchNorm, whose statistics mix records and do not average well over sites.

Sources: cnn is FedPAC's network (Xu, Tong, Huang, ICLR 2023), resnet18 is torchvision's (He et al., CVPR 2016)
with GroupNorm (Wu and He, ECCV 2018).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod

from torch import nn

from secureproto.errors import Misconfigured

ENDS_IN_RELU = ("mlp", "cnn", "resnet18")  # models of ours: no embedding has a negative entry
CNN_BLOCKS = (16, 32)  # FedPAC: with an embedding of 128 and 10 classes, 80,202 parameters on 28 × 28
KERNEL = 5
GROUPS = 32  # Wu and He's default; 64 to 512 channels, so never a group for each channel
RESNET_WIDTH = 512
RESNET18_BLOCKS = [2, 2, 2, 2]


@dataclass(frozen=True)
class ModelSpec:
    """What a factory is told. `input_shape`: (width,) of a tabular record, (channels, height, width) of an image.

    `hidden`: widths of inner layers, as the study gives them; `options`: the study's own table for a factory.
    """

    input_shape: tuple[int, ...]
    classes: int
    embedding_width: int
    hidden: tuple[int, ...] = ()
    options: Mapping[str, object] = field(default_factory=dict)


Factory = Callable[[ModelSpec], tuple[nn.Module, nn.Module]]


def mlp(spec: ModelSpec) -> tuple[nn.Module, nn.Module]:
    """Fully connected layers of `hidden` and then `embedding_width`, each with ReLU; a linear head."""
    layers: list[nn.Module] = [nn.Flatten()]
    width = prod(spec.input_shape)
    for following in (*spec.hidden, spec.embedding_width):
        layers += [nn.Linear(width, following), nn.ReLU()]
        width = following
    return nn.Sequential(*layers), nn.Linear(spec.embedding_width, spec.classes)


def cnn(spec: ModelSpec) -> tuple[nn.Module, nn.Module]:
    """Blocks of 5×5 convolution, 2×2 maximum and ReLU, then one layer to the embedding; a linear head.

    The maximum before the ReLU is the same function as after it, and a quarter of the ReLUs.

    Raises:
        Misconfigured: the records are no images, or too small for the blocks.
    """
    channels, *sides = _image_shape(spec, "cnn")
    blocks = spec.hidden or CNN_BLOCKS
    layers: list[nn.Module] = []
    for following in blocks:
        layers += [nn.Conv2d(channels, following, KERNEL), nn.MaxPool2d(2), nn.ReLU()]
        channels, sides = following, [(side - KERNEL + 1) // 2 for side in sides]
        if min(sides) < 1:
            raise Misconfigured(
                f"model cnn: images of {spec.input_shape[1]} × {spec.input_shape[2]} are too small "
                f"for {len(blocks)} blocks",
                hint=f"give at least {_smallest_side(len(blocks))} pixels a side, or fewer model.hidden",
            )
    layers += [nn.Flatten(), nn.Linear(channels * prod(sides), spec.embedding_width), nn.ReLU()]
    return nn.Sequential(*layers), nn.Linear(spec.embedding_width, spec.classes)


def resnet18(spec: ModelSpec) -> tuple[nn.Module, nn.Module]:
    """torchvision's ResNet-18 with GroupNorm, projected to the embedding; a linear head.

    Raises:
        Misconfigured: the records are no images.
    """
    from secureproto.learning.resnet import residual_network  # torchvision takes a second to load

    channels, *_ = _image_shape(spec, "resnet18")
    body = residual_network(RESNET18_BLOCKS, norm=lambda width: nn.GroupNorm(GROUPS, width))
    if channels != 3:
        body.conv1 = nn.Conv2d(channels, 64, kernel_size=7, stride=2, padding=3, bias=False)
        nn.init.kaiming_normal_(body.conv1.weight, mode="fan_out", nonlinearity="relu")
    body.fc = nn.Sequential(nn.Linear(RESNET_WIDTH, spec.embedding_width), nn.ReLU())
    for module in body.modules():
        if isinstance(module, nn.ReLU):
            module.inplace = False  # the same hooks need the value before it
    return body, nn.Linear(spec.embedding_width, spec.classes)


def _image_shape(spec: ModelSpec, name: str) -> tuple[int, int, int]:
    if len(spec.input_shape) != 3:
        raise Misconfigured(
            f"model {name}: needs images, and the records of this study are tabular",
            hint="choose model.name mlp, or data.kind image with model.channels, height and width",
        )
    channels, height, width = spec.input_shape
    return channels, height, width


def _smallest_side(blocks: int) -> int:
    side = 1
    for _ in range(blocks):
        side = 2 * side + KERNEL - 1
    return side

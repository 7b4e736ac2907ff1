"""feature-shift: the same classes everywhere, inputs that look different from site to site.

Source: "feature distribution skew" of Kairouz et al., "Advances and Open Problems in Federated Learning", 2021,
section 3.1; divided as iid. The spread is ours: gain 2^u with u uniform in ±0.5, offset uniform in ±0.25 (inputs lie
in [-1, 1]), and for square images turns by 0 to 3 quarters, each as often as the others to within one site.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from secureproto.simulation.partition.iid import Iid
from secureproto.simulation.shift import Shift

OCTAVES = 0.5
OFFSET = 0.25
DIGITS = 4  # of gain and offset: what the saved file says is exactly what is applied


@dataclass(frozen=True)
class FeatureShift(Iid):
    """Rows as `Iid`; a shift for every site."""

    name: ClassVar[str] = "feature-shift"
    summary: ClassVar[str] = "equal parts drawn at random, whose inputs are scaled, moved and (square images) turned"

    def shifts(
        self, sites: Sequence[str], shape: tuple[int, ...], generator: np.random.Generator
    ) -> dict[str, Shift]:
        gains = 2.0 ** generator.uniform(-OCTAVES, OCTAVES, size=len(sites))
        offsets = generator.uniform(-OFFSET, OFFSET, size=len(sites))
        square = len(shape) == 3 and shape[1] == shape[2]
        turns = generator.permutation(len(sites)) % 4 if square else np.zeros(len(sites), dtype=np.int64)
        return {
            site: Shift(round(float(gain), DIGITS), round(float(offset), DIGITS), int(turn))
            for site, gain, offset, turn in zip(sites, gains, offsets, turns, strict=True)
        }

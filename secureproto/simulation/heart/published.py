"""What was published of the four hospitals under differential privacy, on the split that `--split given` is.

Source: Ogier du Terrail et al., "FLamby: Datasets and Benchmarks for Cross-Silo Federated Learning in Realistic
Healthcare Settings", NeurIPS 2022, Fed-Heart-Disease with DP-SGD, δ = 1e-3: mean accuracy over the hospitals. The
majority class has 0.721 there.
"""

from secureproto.simulation.definition import Definition

PUBLISHED = {"published, FLamby 2022": ((1.0, 0.702), (5.0, 0.700))}


def published_on(definition: Definition) -> bool:
    """Whether an experiment is on those records and that split."""
    return (definition.data, definition.partition, definition.split) == (("heart",), "natural", "given")

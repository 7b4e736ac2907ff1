"""Random rounds for the tests of aggregation, and their uploads as streams of pieces through the real codec."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secureproto.aggregation.options import Options
from secureproto.aggregation.prototypes import GlobalPrototypes
from secureproto.aggregation.round import RoundAccumulator, RoundResult, aggregate
from secureproto.wire.layouts import upload_schema
from secureproto.wire.messages import ModelSchema, TensorEntry
from secureproto.wire.tensors import Piece, TensorReader, TensorSchema, encode
from support.slow_round import SlowOptions, SlowResult, SlowSite, slow_round

Array = NDArray[Any]
F64 = NDArray[np.float64]


@dataclass(frozen=True)
class Shape:
    """Sizes of a round."""

    sites: int = 4
    classes: int = 3
    width: int = 5
    head: int = 7


def class_sums(generator: np.random.Generator, shape: Shape, *, signed: bool, empty: float) -> F64:
    """(m, C, d+1): counts from 1 to 60, a class missing with probability `empty`."""
    counts = generator.integers(1, 61, (shape.sites, shape.classes))
    counts[generator.random(counts.shape) < empty] = 0
    means = generator.normal(size=(*counts.shape, shape.width))
    means = means if signed else np.abs(means)
    return np.concatenate([means * counts[..., None], counts[..., None].astype(np.float64)], axis=2)


def model(shape: Shape, *, reports_loss: bool = False) -> ModelSchema:
    """A model with two extractor parameters, one integer buffer and a float32 head of two tensors."""
    return ModelSchema(
        classes=shape.classes,
        embedding_width=shape.width,
        extractor=(
            TensorEntry(name="weight", dtype="F32", shape=(3, 2)),
            TensorEntry(name="batches", dtype="I64", shape=()),
            TensorEntry(name="bias", dtype="F64", shape=(2,)),
        ),
        head=(
            TensorEntry(name="weight", dtype="F32", shape=(shape.head - 1,)),
            TensorEntry(name="bias", dtype="F32", shape=(1,)),
        ),
        reports_loss=reports_loss,
    )


def upload(generator: np.random.Generator, schema: TensorSchema, sums: F64) -> dict[str, Array]:
    """Arrays of one upload, with the given class sums and counts."""
    arrays: dict[str, Array] = {"prototypes": sums}
    for tensor in schema.tensors[1:]:
        if tensor.dtype == "I64":
            arrays[tensor.name] = generator.integers(-5, 1000, tensor.shape, dtype=np.int64).reshape(tensor.shape)
        else:
            arrays[tensor.name] = np.asarray(generator.normal(size=tensor.shape), dtype=tensor.numpy_dtype)
    return arrays


def pieces(schema: TensorSchema, arrays: Mapping[str, Array], *, cut: int = 1 << 20) -> Iterable[Piece]:
    """The upload as the server sees it: encoded, cut into chunks of `cut` bytes, read back piece by piece."""
    body = b"".join(bytes(chunk) for chunk in encode(schema, arrays))
    reader = TensorReader(schema)
    for start in range(0, len(body), cut):
        yield from reader.feed(body[start : start + cut])
    reader.finish()


def site_ids(count: int) -> list[str]:
    """Ids whose order as text is not their order as numbers."""
    return [f"site-{number}" for number in range(count)]


@dataclass(frozen=True)
class Federation:
    """A round's inputs: uploads by site id, in the order in which they came."""

    shape: Shape
    schema: TensorSchema
    uploads: Mapping[str, Mapping[str, Array]]
    previous: GlobalPrototypes

    def run(self, options: Options, *, cut: int = 1 << 20, outside: Mapping[str, F64] | None = None) -> RoundResult:
        """The fast path, through the codec."""
        accumulator = RoundAccumulator(self.schema, options, previous=self.previous, sites=self.uploads.keys())
        opened: dict[str, Callable[[], Iterable[Piece]]] = {
            site: lambda arrays=arrays: pieces(self.schema, arrays, cut=cut)  # type: ignore[misc]  # bound early
            for site, arrays in self.uploads.items()
        }
        return aggregate(opened, accumulator, outside=outside)

    def run_slowly(self, options: Options) -> SlowResult:
        """The oracle on the same numbers, sites in the order of their ids."""
        sites = [self._slow_site(self.uploads[site]) for site in sorted(self.uploads)]
        slow = SlowOptions(
            options.weighting,
            options.min_holders,
            options.representation,
            options.normalisation,
            options.power,
            options.temperature,
            options.evidence_scale,
            options.max_peer_share,
        )
        return slow_round(sites, self.previous.values.tolist(), self.previous.age.tolist(), slow)

    @staticmethod
    def _slow_site(arrays: Mapping[str, Array]) -> SlowSite:
        sums = arrays["prototypes"]
        return SlowSite(
            sums=sums[:, :-1].tolist(),
            counts=sums[:, -1].tolist(),
            head=[*arrays["head.weight"].ravel().tolist(), *arrays["head.bias"].tolist()],
            extractor=[*arrays["extractor.weight"].ravel().tolist(), *arrays["extractor.bias"].tolist()],
        )


def federation(
    seed: int,
    shape: Shape,
    *,
    signed: bool = True,
    empty: float = 0.3,
    reports_loss: bool = False,
) -> Federation:
    """A random round; the first site always holds a record, and half of the classes had a prototype before."""
    generator = np.random.default_rng(seed)
    schema = upload_schema(model(shape, reports_loss=reports_loss))
    sums = class_sums(generator, shape, signed=signed, empty=empty)
    sums[0, 0, -1] = max(1.0, sums[0, 0, -1])
    uploads = {site: upload(generator, schema, sums[row]) for row, site in enumerate(site_ids(shape.sites))}
    age = generator.integers(-1, 3, shape.classes, dtype=np.int64)
    values = generator.normal(size=(shape.classes, shape.width))
    values[age == -1] = 0
    return Federation(shape, schema, uploads, GlobalPrototypes(values, age))

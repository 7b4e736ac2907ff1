"""The weighted mean of what sites send, Σ (n_k / n) w_k: the server's part of FedAvg and of all its relatives.

It is the extractor's mean of the real server (`aggregation.extractor`): streamed, float64, sites in the order of
their names.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from numpy.typing import NDArray

from secureproto.aggregation.extractor import ExtractorMean
from secureproto.aggregation.layout import published
from secureproto.learning.arrays import Arrays
from secureproto.learning.exchange import ArrayMap
from secureproto.simulation.method import Sent
from secureproto.wire.tensors import Dtype, Piece, Tensor, TensorSchema

DTYPES: dict[str, Dtype] = {"float32": "F32", "float64": "F64", "int64": "I64"}


def layout_of(arrays: ArrayMap) -> TensorSchema:
    """The tensors of `arrays`, in their order."""
    return TensorSchema(tuple(Tensor(name, DTYPES[str(array.dtype)], array.shape) for name, array in arrays.items()))


def pieces(schema: TensorSchema, arrays: Mapping[str, NDArray[Any]]) -> Iterator[Piece]:
    """Arrays as the stream that aggregation takes, each tensor in one piece."""
    for tensor in schema.tensors:
        yield Piece(tensor, 0, arrays[tensor.name].reshape(-1))


class Average:
    """The mean of the tensors of a layout over sites, weighted by their numbers of training records."""

    def __init__(self, like: ArrayMap) -> None:
        self._schema = layout_of(like)
        self._mean = ExtractorMean(self._schema.tensors)

    def add(self, site: str, sent: Sent) -> None:
        """Take a site's arrays; those outside the layout are not looked at. Raises Rejected as ExtractorMean."""
        self._mean.begin(sent.records, site=site)
        for piece in pieces(self._schema, sent.arrays):
            self._mean.add(piece.tensor.name, piece.offset, piece.values)
        self._mean.end()

    def result(self) -> Arrays:
        """The mean in the tensors' own dtypes. Ends the object's use."""
        found = self._mean.result()
        return {tensor.name: published(tensor, found[tensor.name]) for tensor in self._schema.tensors}


def average(like: ArrayMap, updates: Iterable[tuple[str, Sent]]) -> Arrays:
    """The mean over all updates, of the tensors named in `like`."""
    mean = Average(like)
    for site, sent in updates:
        mean.add(site, sent)
    return mean.result()

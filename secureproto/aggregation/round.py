"""A round: accepted uploads in, the next state out. Uploads are streamed, one site after the other.

    1. Sites are taken in the order of their ids, whatever the order in which they came.
    2. Of each upload, in the order of its layout: prototypes (class sums and counts; n_i is known from here), the
       loss if the study reports it, the head, the extractor. Every piece is checked before it enters a sum.
    3. The upload counts when its stream has ended without error and every tensor came whole.
    4. Global prototypes (`prototypes`), extractor (`extractor`), mixed heads (`relation`, `heads`), the late
       joiner's head (`heads`), the federation's loss (`stopping`).

Under privacy class sums are noisy releases, in every so many rounds, and zeros in the others: `private_round` takes
the place of prototypes, relation and heads, and every site weighs the same in the extractor.

Invariants: the same uploads, previous prototypes and options give the same numbers to the last bit, in any order of
arrival and however the streams are cut. That is for one machine and one number of BLAS threads: prototypes and
extractor do not depend on them, a product of large matrices does in its last bits. Memory: one float64 extractor,
and per site one head and one C × (d+1) matrix.

What the caller owes: the uploads were verified (signature, digest, key not revoked) and their streams raise when
the decryption fails at the end. After an error the accumulator is of no use: begin again without that site.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from secureproto.aggregation.extractor import ExtractorMean
from secureproto.aggregation.heads import Mixed, after_round, mean_head, personalise
from secureproto.aggregation.intake import check_class_sums, check_not_negative, check_values
from secureproto.aggregation.layout import F64, I64, Coverage, FlatLayout, Values, published
from secureproto.aggregation.options import Options
from secureproto.aggregation.private_round import PrivateRound, Released
from secureproto.aggregation.prototypes import GlobalPrototypes, combine
from secureproto.errors import Rejected
from secureproto.wire.layouts import EXTRACTOR, HEAD, LOSS, PROTOTYPE_AGE, PROTOTYPES
from secureproto.wire.reasons import Reason
from secureproto.wire.tensors import Piece, Tensor, TensorSchema


class UploadLayout:
    """The parts of an upload schema: `prototypes` (C, d+1) first, `loss` (1) or none, `head.…`, `extractor.…`.

    Raises:
        ValueError: another tensor, or prototypes not first.
        Misconfigured: an integer tensor in the head.
    """

    def __init__(self, schema: TensorSchema) -> None:
        tensors = schema.tensors
        if not tensors or tensors[0].name != PROTOTYPES or len(tensors[0].shape) != 2:
            raise ValueError("an upload begins with prototypes (C, d+1)")
        self.tensors = tensors
        self.classes, self.width = tensors[0].shape[0], tensors[0].shape[1] - 1
        self.head = FlatLayout(t for t in tensors if t.name.startswith(HEAD))
        self.extractor = tuple(t for t in tensors if t.name.startswith(EXTRACTOR))
        self.reports_loss = any(t.name == LOSS for t in tensors)
        known = 1 + self.reports_loss + len(self.head.tensors) + len(self.extractor)
        if known != len(tensors):
            raise ValueError("an upload has prototypes, loss, head and extractor, and nothing else")


@dataclass(frozen=True, eq=False)
class RoundResult:
    """The state a round publishes. All arrays float64 (integer buffers int64); names are those of the wire.

    `extractor`: by tensor name. `heads`: (H,) by site id, of participants (mixed) and of sites outside (as they
    were). `mean_head`: for a late joiner. `form`, `relation`: as in `heads.Mixed`; never for a site's eyes.
    `loss`: Σ n_i L_i / Σ n_i, or None. `marked`: under privacy, the sites whose release had too little signal to tell
    whom they are like.
    """

    extractor: Mapping[str, F64 | I64]
    prototypes: GlobalPrototypes
    heads: Mapping[str, F64]
    mean_head: F64
    form: str
    relation: F64 | None
    loss: float | None
    layout: UploadLayout
    marked: tuple[str, ...] = ()

    def shared_arrays(self) -> dict[str, Values]:
        """What is broadcast, in the dtypes of the wire layout `shared_schema`."""
        arrays: dict[str, Values] = {PROTOTYPES: self.prototypes.values, PROTOTYPE_AGE: self.prototypes.age}
        for tensor in self.layout.extractor:
            arrays[tensor.name] = published(tensor, self.extractor[tensor.name])
        return arrays

    def head_arrays(self, site: str | None = None) -> dict[str, Values]:
        """One site's head, or without one the late joiner's, in the dtypes of the wire layout `head_schema`."""
        return self.layout.head.split(self.mean_head if site is None else self.heads[site])


class RoundAccumulator:
    """Takes the uploads of `sites` one after the other, in the order of their ids; then gives the result.

    Args:
        schema: the study's upload schema; options: the study's, under privacy with the number of the round;
        previous: prototypes of the base version. sites: the ids of all participants whose upload was accepted.

    Raises:
        ValueError: no site, or a schema that is not an upload's.
        Misconfigured: an integer tensor in the head.
    """

    def __init__(
        self,
        schema: TensorSchema,
        options: Options | PrivateRound,
        *,
        previous: GlobalPrototypes,
        sites: Collection[str],
    ) -> None:
        self.layout = UploadLayout(schema)
        if not sites:
            raise ValueError("a round without an upload has no result")
        if previous.values.shape != (self.layout.classes, self.layout.width):
            raise ValueError("the previous prototypes do not have the schema's shape")
        self._options, self._previous = options, previous
        self.sites = tuple(sorted(set(sites)))
        count = len(self.sites)
        self._class_sums = np.zeros((count, self.layout.classes, self.layout.width + 1))
        self._losses = np.zeros((count, 1))
        self._heads = np.zeros((count, self.layout.head.size))
        self._mean = ExtractorMean(self.layout.extractor)
        self._taken = 0
        self._broken = False

    def accept(self, site: str, pieces: Iterable[Piece]) -> None:
        """Take the whole upload of the next site.

        Raises:
            Rejected: SCHEMA, NON_FINITE, NORM_BOUND; the text names the site and the tensor, no number.
            ValueError: not the next site, a piece out of place, or use after an error.
            Anything the stream itself raises.
        """
        if self._broken:
            raise ValueError("an upload failed half-way; begin again without it")
        if self._taken == len(self.sites) or site != self.sites[self._taken]:
            raise ValueError(f"site {site!r} is not the next in order")
        self._broken = True  # until the whole upload is in
        upload = _Upload(self.layout, site, self._views(self._taken), self._mean, self._options)
        for piece in pieces:
            upload.add(piece.tensor, piece.offset, piece.values)
        upload.end()
        self._taken += 1
        self._broken = False

    def _views(self, row: int) -> "_Views":
        return _Views(self._class_sums[row], self._losses[row], self._heads[row])

    def result(self, *, outside: Mapping[str, F64] | None = None) -> RoundResult:
        """The round's result. Ends the accumulator's use.

        Args:
            outside: heads (H,) of sites that took no part, by id; one that did take part is ignored.

        Raises:
            Rejected: SCHEMA, when no site holds a record.
            ValueError: an upload is missing.
        """
        if self._broken or self._taken != len(self.sites):
            raise ValueError("not every upload was taken")
        self._broken = True  # the extractor's sums are divided in place
        extractor = self._mean.result()
        made = self._made(self._options)
        heads = after_round(dict(zip(self.sites, made.heads, strict=True)), outside or {})
        return RoundResult(
            extractor=extractor,
            prototypes=made.prototypes,
            heads=heads,
            mean_head=mean_head(heads),
            form=made.form,
            relation=made.relation,
            loss=self._loss(),
            layout=self.layout,
            marked=tuple(site for site, marked in zip(self.sites, made.marked, strict=True) if marked),
        )

    def _made(self, options: Options | PrivateRound) -> Released:
        """Prototypes and heads."""
        if isinstance(options, PrivateRound):
            return options.combine(self._class_sums, self._heads, self._previous)
        mixed: Mixed = personalise(self._class_sums, self._heads, options)
        prototypes = combine(
            self._class_sums, self._previous, weighting=options.weighting, min_holders=options.min_holders
        )
        return Released(prototypes, mixed.heads, mixed.form, mixed.relation, np.zeros(len(self.sites), dtype=bool))

    def _loss(self) -> float | None:
        if not self.layout.reports_loss:
            return None
        weights = self._class_sums[:, :, -1].sum(axis=1)
        return float((weights * self._losses[:, 0]).sum() / weights.sum())


@dataclass(frozen=True)
class _Views:
    """Where one site's small tensors go."""

    class_sums: F64
    loss: F64
    head: F64


class _Upload:
    """One site's upload on its way in."""

    def __init__(
        self,
        layout: UploadLayout,
        site: str,
        views: _Views,
        mean: ExtractorMean,
        options: Options | PrivateRound,
    ) -> None:
        self._layout, self._site, self._views, self._mean, self._options = layout, site, views, mean, options
        extractor = {t.name for t in layout.extractor}
        self._coverage = Coverage(t for t in layout.tensors if t.name not in extractor)
        self._weighed = False

    def add(self, tensor: Tensor, offset: int, values: Values) -> None:
        name = tensor.name
        if name.startswith(EXTRACTOR):
            if not self._weighed:
                raise ValueError("the extractor came before the prototypes")
            self._mean.add(name, offset, values)
            return
        self._coverage.advance(name, offset, values.size)
        check_values(values, site=self._site, what=f"tensor {name!r}")
        self._target(name, offset, values.size)[:] = values
        if name == PROTOTYPES and not self._weighed and self._coverage.is_full(name):
            self._weigh()

    def _target(self, name: str, offset: int, count: int) -> F64:
        if name.startswith(HEAD):
            return self._views.head[self._layout.head.place(name, offset, count)]
        flat = self._views.class_sums if name == PROTOTYPES else self._views.loss
        return flat.reshape(-1)[offset : offset + count]

    def _weigh(self) -> None:
        """All of the class sums are here: check them; from now on the site's weight is known."""
        class_sums, options = self._views.class_sums, self._options
        if isinstance(options, PrivateRound):
            class_sums[:] = options.checked(class_sums, site=self._site)
            self._mean.begin(1.0, site=self._site)
        else:
            check_class_sums(class_sums, site=self._site)
            if options.form == "linear":
                check_not_negative(class_sums, site=self._site)
            self._mean.begin(float(class_sums[:, -1].sum()), site=self._site)
        self._weighed = True

    def end(self) -> None:
        if not self._weighed or not self._coverage.complete:
            raise Rejected(Reason.SCHEMA, f"site {self._site!r}: the upload ends before its last tensor")
        self._mean.end()


def aggregate(
    uploads: Mapping[str, Callable[[], Iterable[Piece]]],
    accumulator: RoundAccumulator,
    *,
    outside: Mapping[str, F64] | None = None,
) -> RoundResult:
    """The result of a round from its uploads by site id, each opened when its turn comes and not before."""
    for site in accumulator.sites:
        accumulator.accept(site, uploads[site]())
    return accumulator.result(outside=outside)

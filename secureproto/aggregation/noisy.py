"""The server side of noisy class sums: what a round's releases become when every entry carries known noise.

    1. A matrix is refused when no records and no likely noise make it (`check_noisy`), and decoded from grid steps.
    2. Sums and counts are added over the sites, whatever the sign of a noisy count, and divided once.
    3. The quotient is drawn towards the last global prototype, kept within R, and averaged with it
       (`combine_noisy`).
    4. Weights β of the extractors (`extractor_weights`); relation and heads are in `noisy_relation`.

Everything here is a function of noised releases and public constants, so it costs no privacy (post-processing;
Dwork and Roth 2014, proposition 2.1). The noise is the protection: `min_holders` on noisy counts is a courtesy, and
approximate.

Invariants: results depend on the set of sites, not on their order of arrival (sites come in the order of their ids);
as the noise goes to 0, `combine_noisy` goes to `prototypes.combine` with `weighting = "samples"`, and the weights to
n_i / Σ n_i. Source: PRIVACY.md, "Prototypes" and "Relation and heads from noisy prototypes"; METHOD.md.
"""

from dataclasses import dataclass, field, replace
from math import isfinite, log, sqrt

import numpy as np
from numpy.typing import NDArray

from secureproto.aggregation.intake import LARGEST_COUNT
from secureproto.aggregation.layout import F64, I64
from secureproto.aggregation.options import Options, aggregation_options
from secureproto.aggregation.prototypes import ABSENT, GlobalPrototypes, split
from secureproto.aggregation.relation import cap_peer_share
from secureproto.errors import Rejected
from secureproto.privacy.mechanisms.grid import PrototypeGrid
from secureproto.study.schema import StudyFile
from secureproto.wire.reasons import Reason

# The chance that an honest site's release is refused in a round. A thousand sites in a thousand rounds see one such
# refusal with a chance of 1 in 1,000.
FALSE_REFUSAL = 1e-9
MIN_HOLDERS = 3  # where the study does not say: with two, each knows the other's by subtraction
MAX_PEER_SHARE = 0.5
MIN_PEERS = 3
_ONE_RECORD = 0.5  # between no record and one
_ROUNDING = 1e-9  # relative; float64 sums of whole numbers, divided


@dataclass(frozen=True)
class NoisyOptions:
    """What decides the aggregation of noisy releases; all of it public.

    Args:
        grid: the releases' public parameters; options: the study's, with `prior` and `samples`.
        moving_average: weight of the last global prototype in a renewed one.
        shrinkage: records that the last global prototype counts for in the quotient, in standard deviations of the
            noise of the count it is divided by; so without noise it counts for none. 0 by default: beside a moving
            average of 0.9 it took more than it gave (cosine 0.83 for 0.85, one site, ε = 1).
        holder_sigmas: a site counts as a holder of a class when its noisy count is over this many σ_count.
        non_negative: the model's embeddings have no negative entry (public: a ReLU ends the extractor).
        max_weight_of_one_site: the most of Σ β, or of a class's count, that one site may have; None is no bound.
        weight_floor: records that a site counts for at the least where β follows counts.
        min_peers: peers a row of the relation needs where `max_peer_share` bounds it; fewer give the identity row.

    Raises:
        ValueError: an impossible number, or options that noisy sums exclude.
    """

    grid: PrototypeGrid
    options: Options
    moving_average: float = 0.9
    shrinkage: float = 0.0
    holder_sigmas: float = 1.0
    non_negative: bool = False
    max_weight_of_one_site: float | None = None
    weight_floor: float = 0.0
    min_peers: int = MIN_PEERS

    def __post_init__(self) -> None:
        if self.options.representation != "prior" or self.options.weighting != "samples":
            raise ValueError("noisy sums are not divided site by site: representation prior, weighting samples")
        if self.options.form == "linear" and not self.non_negative:
            raise ValueError("the linear form needs embeddings without negative entries")
        if not 0 <= self.moving_average < 1:
            raise ValueError("moving_average is 0 or more and under 1")
        if not all(isfinite(n) and n >= 0 for n in (self.shrinkage, self.holder_sigmas, self.weight_floor)):
            raise ValueError("shrinkage, holder_sigmas and weight_floor are finite and 0 or more")
        if self.max_weight_of_one_site is not None and not 0 < self.max_weight_of_one_site <= 1:
            raise ValueError("max_weight_of_one_site is over 0 and at most 1, or None")
        if self.min_peers < 1:
            raise ValueError("min_peers is at least 1")

    @property
    def holder_threshold(self) -> float:
        """Records a noisy count must exceed for its site to count as a holder; between 0 and 1 without noise."""
        return max(_ONE_RECORD, self.holder_sigmas * self.grid.count_noise)


def noisy_options(study: StudyFile, *, width: int, non_negative: bool) -> NoisyOptions:
    """What a study with `[privacy]` asks for. `width`: d; the rest of the release's parameters are the study's.

    Where the study does not say, at least 3 sites must hold a class, and a peer has at most half of a row's share.

    Raises:
        ValueError: a study without `[privacy]`, or with `prototypes.weighting = "uniform"`.
    """
    if study.privacy is None:
        raise ValueError("a study without [privacy] has no noisy sums")
    section, plain = study.privacy.prototypes, aggregation_options(study)
    said = "min_holders" in study.prototypes.model_fields_set
    bounded = replace(
        plain,
        min_holders=plain.min_holders if said else MIN_HOLDERS,
        max_peer_share=MAX_PEER_SHARE if plain.max_peer_share is None else plain.max_peer_share,
    )
    grid = PrototypeGrid(
        classes=len(study.classes),
        width=width,
        radius=section.max_embedding_norm,
        count_weight=section.count_weight(width),
        noise_multiplier=section.noise_multiplier,
    )
    return NoisyOptions(grid, bounded, moving_average=section.moving_average, non_negative=non_negative)


def row_bound(grid: PrototypeGrid) -> float:
    """How far ‖noisy sum‖ − R·(noisy count) of a row may be over 0, in units of the embedding.

    Of n records, ‖sum‖ ≤ R'n with R' = `grid.longest`. Let N be the noise of the sum's d entries and N_c that of
    the column of counts, both of standard deviation s. Then ‖sum + N‖ − R'(n + N_c/c) ≤ ‖N‖ − (R'/c)·N_c =: f. Its
    mean is at most s√d, and f is Lipschitz in the noise with constant √(1 + (R'/c)²), so by Gaussian concentration
    (Boucheron, Lugosi, Massart 2013, theorem 5.6) P(f ≥ s√d + s√(1 + (R'/c)²)·t) ≤ e^(−t²/2). With t² = 2 ln(C/p)
    and the union over C rows, an honest release is refused with probability at most p = `FALSE_REFUSAL` a round.
    """
    deviations = sqrt(2 * log(grid.classes / FALSE_REFUSAL))
    weight = grid.count_steps * grid.step
    return grid.sum_noise * (sqrt(grid.width) + sqrt(1 + (grid.longest / weight) ** 2) * deviations)


def check_noisy(matrix: F64, grid: PrototypeGrid, *, site: str) -> None:
    """Refuse a release (C, d+1), in steps as it travels, that records and noise do not make.

    Every row must have ‖sum‖ ≤ R·count + `row_bound`; so a count is not far below 0 either.

    Raises:
        Rejected: NON_FINITE; SCHEMA for entries that are not whole numbers of steps, or for a count that no site
            has; NORM_BOUND for a row that is too long. The text names the site and no number.
        ValueError: not the grid's shape.
    """
    if matrix.shape != (grid.classes, grid.width + 1):
        raise ValueError("a release is (C, d+1)")
    if not np.isfinite(matrix).all():
        raise Rejected(Reason.NON_FINITE, f"site {site!r}: the release of class sums is not finite")
    if (np.abs(matrix) > 2.0**63).any() or (matrix != np.rint(matrix)).any():
        raise Rejected(Reason.SCHEMA, f"site {site!r}: the release of class sums is not on the study's grid")
    sums, counts = split(decoded(matrix, grid))
    if (counts > LARGEST_COUNT).any():
        raise Rejected(Reason.SCHEMA, f"site {site!r}: a class count is not a possible number of records")
    allowed = grid.longest * counts + row_bound(grid) + _ROUNDING * grid.longest * np.abs(counts)
    if (np.sqrt(np.einsum("cd,cd->c", sums, sums)) > allowed).any():
        raise Rejected(Reason.NORM_BOUND, f"site {site!r}: a class sum is longer than its records allow")


def decoded(matrices: F64, grid: PrototypeGrid) -> F64:
    """Class sums in units of the embedding, and counts in records, (…, C, d+1), of releases in steps."""
    class_sums = matrices * grid.step
    class_sums[..., -1] = matrices[..., -1] / grid.count_steps
    return class_sums


@dataclass(frozen=True, eq=False)
class NoisyPrototypes:
    """`prototypes` as a round publishes them. `holders` (C,): how many noisy counts are over the threshold, which is
    about how many sites hold the class. `renewed` (C,): which classes this round renewed.
    """

    prototypes: GlobalPrototypes
    holders: I64
    renewed: NDArray[np.bool_] = field(repr=False)


def combine_noisy(class_sums: F64, previous: GlobalPrototypes, noisy: NoisyOptions) -> NoisyPrototypes:
    """The global prototypes after a round with releases.

    A class is renewed when `min_holders` noisy counts are over the threshold and the total count is over its own
    noise: a smaller one says nothing, and dividing by it would blow the noise up. With the sums S_j, the counts n_j
    and κ = shrinkage · √m · σ_count, the estimate is (S_j + κ c̄_j) / (n_j + κ), cut to norm R, which no mean of
    clipped embeddings exceeds; and the new prototype (1 − a) · estimate + a · c̄_j. A class without a prototype
    takes S_j / n_j.

    Args:
        class_sums: (m, C, d+1) decoded, all of them checked, sites in the order of their ids. Only sites that
            released in this round, with the extractor of this round's version.

    Raises:
        ValueError: shapes that do not fit.
    """
    grid = noisy.grid
    if class_sums.ndim != 3 or len(class_sums) == 0 or class_sums.shape[1:] != (grid.classes, grid.width + 1):
        raise ValueError("class sums are (m, C, d+1) with m >= 1")
    if previous.values.shape != (grid.classes, grid.width):
        raise ValueError("previous prototypes are (C, d)")
    counts = split(class_sums)[1]
    holders: I64 = (counts > noisy.holder_threshold).sum(axis=0, dtype=np.int64)
    total = _bounded(class_sums, noisy).sum(axis=0)
    sums, count = split(total)
    count_noise = sqrt(len(class_sums)) * grid.count_noise
    renewed = (holders >= noisy.options.min_holders) & (count > max(_ONE_RECORD, count_noise))
    pull = np.where(renewed & previous.present, noisy.shrinkage * count_noise, 0.0)  # κ
    divisor = np.where(renewed, count + pull, 1.0)[:, None]
    estimate = _within((sums + pull[:, None] * previous.values) / divisor, grid.longest)
    kept = np.where(previous.present, noisy.moving_average, 0.0)[:, None]
    values = np.where(renewed[:, None], (1 - kept) * estimate + kept * previous.values, previous.values)
    age = np.where(renewed, 0, np.where(previous.present, previous.age + 1, ABSENT))
    return NoisyPrototypes(GlobalPrototypes(values, age), holders, renewed)


def carried(previous: GlobalPrototypes) -> GlobalPrototypes:
    """The global prototypes after a round without releases: what they were, a round older."""
    return GlobalPrototypes(previous.values, np.where(previous.present, previous.age + 1, ABSENT))


def _within(values: F64, longest: float) -> F64:
    """Rows (C, d) cut to norm `longest`; a row within it is left to the last bit."""
    norms = np.sqrt(np.einsum("cd,cd->c", values, values))[:, None]
    cut: F64 = np.where(norms > longest * (1 + _ROUNDING), values * (longest / np.maximum(norms, longest)), values)
    return cut


def _bounded(class_sums: F64, noisy: NoisyOptions) -> F64:
    """Class sums whose rows, sum and count together, are scaled down where a site has too much of a class's count."""
    if noisy.max_weight_of_one_site is None:
        return class_sums
    bounded = class_sums.copy()
    for j in range(class_sums.shape[1]):
        counts = class_sums[:, j, -1]
        positive = np.maximum(counts, 0.0)
        # never under the threshold: among counts of nothing but noise the least of them is no measure for the rest
        level = np.maximum(capped(positive, noisy.max_weight_of_one_site), noisy.holder_threshold)
        factor = np.divide(level, positive, out=np.ones(len(counts)), where=positive > level)
        bounded[:, j] *= factor[:, None]
    return bounded


def capped(weights: F64, share: float) -> F64:
    """Weights (m,), not negative, of which those too great are cut to a level at which none has over `share`.

    The level is that of `relation.cap_peer_share`. Of fewer than 1/share positive weights one must have more: then
    none has more than an equal share.
    """
    positive = int((weights > 0).sum())
    if positive == 0 or share >= 1:
        return weights
    total = float(weights.sum())
    row = np.zeros((1, len(weights) + 1))  # a place for the self that the bound on peers knows; here nobody's
    row[0, 1:] = weights / total
    cap_peer_share(row, max(share, 1 / positive))
    cut: F64 = row[0, 1:] * total
    return cut


def extractor_weights(class_sums: F64, noisy: NoisyOptions) -> F64:
    """β (m,), sum 1: uniform, unless every noisy n_i is over 3 √C σ_count, three times its own noise.

    Then n_i, at least `weight_floor`, at most `max_weight_of_one_site` of the sum.

    Args:
        class_sums: (m, C, d+1) decoded, sites in the order of their ids. All participants of the round must be
            among them; a caller that has no release of one of them takes equal weights.

    Raises:
        ValueError: no site.
    """
    if class_sums.ndim != 3 or len(class_sums) == 0:
        raise ValueError("class sums are (m, C, d+1) with m >= 1")
    records = split(class_sums)[1].sum(axis=1)
    if not (records > 3 * sqrt(noisy.grid.classes) * noisy.grid.count_noise).all():
        return np.full(len(records), 1.0 / len(records))
    weights = np.maximum(records, noisy.weight_floor)
    if noisy.max_weight_of_one_site is not None:
        weights = capped(weights, noisy.max_weight_of_one_site)
    share: F64 = weights / weights.sum()
    return share

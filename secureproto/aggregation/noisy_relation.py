"""Relation and heads from noisy sums: cosines freed of what known noise takes from them.

With v_i = μ_i + noise of variance s² on each of its D = C·d entries (`prior`: the sums themselves), ⟨v_i, v_b⟩ is
unbiased and ‖v_i‖² is too great by D s². Divided by norms as they are, cosines shrink by SNR²/(1 + SNR²) and the
relation decays, silently, to each site's own head. So:

    1. energy D s², public; signal ‖v_i‖² − D s²; SNR_i² = signal / energy
    2. a site of SNR_i < 1 is **marked**, and its representation is zero from here on
    3. so is that of a site whose release is of another version of the extractor: it spans another space
    4. entries are clipped at 0 where embeddings have no negative ones and the linear form may be used, which needs
       that; elsewhere not, since it makes cosines too great (by 0.19 at SNR² 1.2)
    5. v̂_i = v_i / √signal_i; cosines ⟨v̂_i, v̂_b⟩, and 1 of a site with itself (there the noise met itself)
    6. the rest is `relation`: each row normalised; a zero representation has the identity row, and with `softmax`
       or `evidence` the weight of the cosine zero in the rows of others
    7. no peer has more than `max_peer_share` of a row's mass for peers, and a row so bounded has `min_peers` of them

An estimate of a cosine can exceed 1. `row_sum` takes it as it is: unbiased, and at most √2 between a noisy site and
one with little noise, 2 between any. The others are sharp, and it is cut to 1 before them.

The linear form, where allowed, is the same function: with M = Σ v̂_b ⊗ ψ_b and t = Σ v̂_b,
ψ_i ← (v̂_iᵀM + (1 − ‖v̂_i‖²) ψ_i) / (v̂_iᵀt + 1 − ‖v̂_i‖²); the correction puts the 1 in the place of ‖v̂_i‖².

Invariants: as noise goes to 0, relation and heads go to those of `relation` and `heads` (with `min_peers` met or no
bound on shares); rows are non-negative and sum to 1; both forms agree to 1e-10. What is found here is for no site's
eyes but for its own head. Source: PRIVACY.md, "Relation and heads from noisy prototypes"; METHOD.md, "Linear form".
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from secureproto.aggregation.heads import BLOCK_BYTES, RELATION_KEPT, linear_is_cheaper
from secureproto.aggregation.layout import F64
from secureproto.aggregation.noisy import NoisyOptions
from secureproto.aggregation.prototypes import split
from secureproto.aggregation.relation import cap_peer_share, weigh

Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class NoisyRepresentations:
    """`unit` (m, D): v̂, zero where a site is marked or not comparable. `marked` (m,): comparable, and SNR under 1."""

    unit: F64
    marked: Bools


@dataclass(frozen=True, eq=False)
class NoisyMixed:
    """`heads` (m, H); `form` that was used; `relation` (m, m), or None as in `heads.Mixed`; `marked` (m,): sites of
    too little signal, which have their own head back, for the report.
    """

    heads: F64
    form: Literal["matrix", "linear"]
    relation: F64 | None
    marked: Bools


def noisy_representations(class_sums: F64, noisy: NoisyOptions, *, comparable: Bools) -> NoisyRepresentations:
    """Steps 1 to 5 of the above.

    Args:
        class_sums: (m, C, d+1) decoded and checked; comparable: (m,) whose release is of this round's version.

    Raises:
        ValueError: shapes that do not fit.
    """
    if class_sums.ndim != 3 or comparable.shape != class_sums.shape[:1]:
        raise ValueError("class sums are (m, C, d+1) and comparable (m,)")
    values = split(class_sums)[0].reshape(len(class_sums), -1)
    energy = values.shape[1] * noisy.grid.sum_noise**2
    largest = np.abs(values).max(axis=1, keepdims=True, initial=0.0)
    scale = np.where(largest > 0, largest, 1.0)
    scaled = values / scale  # no square overflows, and none underflows to a zero norm
    signal = np.einsum("id,id->i", scaled, scaled) - energy / scale[:, 0] ** 2
    marked: Bools = comparable & (signal < energy / scale[:, 0] ** 2)
    use = comparable & ~marked & (signal > 0)
    clipped = noisy.non_negative and noisy.options.allows_linear
    unit = np.maximum(scaled, 0.0) if clipped else scaled
    unit = unit / np.sqrt(np.where(use, signal, 1.0))[:, None]
    unit[~use] = 0.0
    return NoisyRepresentations(unit, marked)


def noisy_rows(unit: F64, noisy: NoisyOptions, *, start: int, stop: int, records: F64 | None = None) -> F64:
    """Rows `start` … `stop` of the relation, (stop − start, m), from all v̂ (m, D): steps 5 to 7.

    `records`: (m,) noisy n_i / C, which `evidence` needs.
    """
    options = noisy.options
    rows: F64 = unit[start:stop] @ unit.T
    index = np.arange(len(rows))
    alone = ~unit[start:stop].any(axis=1)
    rows[index, index + start] = np.where(alone, 0.0, 1.0)
    if options.normalisation != "row_sum":
        np.minimum(rows, 1.0, out=rows)
    weigh(rows, options, None if records is None else records[start:stop])
    total = rows.sum(axis=1)
    _isolate(rows, np.flatnonzero(alone | (total <= 0)), start)
    rows /= rows.sum(axis=1, keepdims=True)
    if options.max_peer_share is not None and options.max_peer_share < 1:
        peers = rows > 0
        peers[index, index + start] = False
        _isolate(rows, np.flatnonzero(peers.sum(axis=1) < noisy.min_peers), start)
        cap_peer_share(rows, options.max_peer_share, start=start)
    return rows


def _isolate(rows: F64, which: NDArray[np.intp], start: int) -> None:
    """The identity row for these, in place."""
    rows[which] = 0.0
    rows[which, which + start] = 1.0


def noisy_relation(class_sums: F64, noisy: NoisyOptions, *, comparable: Bools) -> tuple[F64, Bools]:
    """The whole relation (m, m) and the marked sites (m,). Arguments as of `personalise_noisy`."""
    found = noisy_representations(class_sums, noisy, comparable=comparable)
    records = split(class_sums)[1].mean(axis=1)
    return noisy_rows(found.unit, noisy, start=0, stop=len(found.unit), records=records), found.marked


def personalise_noisy(class_sums: F64, heads: F64, noisy: NoisyOptions, *, comparable: Bools) -> NoisyMixed:
    """Every participant's mixed head from noisy sums.

    Args:
        class_sums: (m, C, d+1) decoded and checked, of each participant its latest release, zeros if it has none.
        heads: (m, H). Sites in the order of their ids.
        comparable: (m,) bool: the release is of the version whose releases are compared.

    Raises:
        ValueError: shapes that do not fit.
    """
    if heads.ndim != 2 or len(class_sums) != len(heads) or len(heads) == 0:
        raise ValueError("class sums are (m, C, d+1) and heads (m, H), with the same m >= 1")
    found = noisy_representations(class_sums, noisy, comparable=comparable)
    if _takes_linear(found.unit, heads, noisy):
        return NoisyMixed(mix_linear_noisy(found.unit, heads), "linear", None, found.marked)
    records = split(class_sums)[1].mean(axis=1)  # a class
    sites = len(heads)
    step = max(1, BLOCK_BYTES // (8 * sites)) if sites > RELATION_KEPT else sites
    mixed = np.empty(heads.shape)
    for start in range(0, sites, step):
        stop = min(start + step, sites)
        relation = noisy_rows(found.unit, noisy, start=start, stop=stop, records=records)
        np.matmul(relation, heads, out=mixed[start:stop])
    return NoisyMixed(mixed, "matrix", relation if sites <= RELATION_KEPT else None, found.marked)


def _takes_linear(unit: F64, heads: F64, noisy: NoisyOptions) -> bool:
    if noisy.options.form != "auto":
        return noisy.options.form == "linear"
    cheaper = linear_is_cheaper(len(heads), unit.shape[1], heads.shape[1])
    return noisy.options.allows_linear and noisy.non_negative and cheaper


def mix_linear_noisy(unit: F64, heads: F64, *, block_bytes: int = BLOCK_BYTES) -> F64:
    """Mixed heads (m, H) in the linear form, from v̂ (m, D) without negative entries.

    Raises:
        ValueError: a negative entry; the linear form would be another function.
    """
    if (unit < 0).any():
        raise ValueError("the linear form needs representations without negative entries")
    alone = ~unit.any(axis=1)
    own = 1.0 - np.einsum("id,id->i", unit, unit)  # what the site's own cosine lacks to 1, or has over it
    divisor = unit @ unit.sum(axis=0) + own
    divisor[alone] = 1.0
    mixed = np.empty(heads.shape)
    step = max(1, block_bytes // (8 * max(1, unit.shape[1])))
    for start in range(0, heads.shape[1], step):
        columns = slice(start, start + step)
        mixed[:, columns] = unit @ (unit.T @ heads[:, columns]) + own[:, None] * heads[:, columns]
    mixed /= divisor[:, None]
    mixed[alone] = heads[alone]
    return mixed

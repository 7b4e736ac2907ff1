"""Mixed heads ψ_i ← Σ_b r_ib ψ_b, in two forms of one function.

- **matrix**: rows of the relation are made in blocks and multiplied at once; cost 2 m² (D + H) with D = C·d, memory
  a block of rows.
- **linear**: with v̂ = v/‖v‖, M = Σ_b v̂_b ⊗ ψ_b and s = Σ_b v̂_b: ψ_i ← (v̂_iᵀ M) / (v̂_iᵀ s). Cost 4 m D H, memory a
  block of M's columns.

The linear form is the same function only where nothing is clipped away: normalisation `row_sum`, no bound on shares,
and no negative entry in any representation (so no negative cosine). Elsewhere it is another function, and refused.
`auto` takes it where it is the same and costs less: for m > 2 D H / (D + H) sites (`linear_is_cheaper`).

Invariants: a mixed head is a convex combination of heads; a site outside the round keeps the head it has; both forms
agree to 1e-10 of the largest entry. Source: METHOD "Server side", "Linear form".
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from secureproto.aggregation.layout import F64
from secureproto.aggregation.options import Options
from secureproto.aggregation.prototypes import split
from secureproto.aggregation.relation import relation_matrix, relation_rows, representations, unit_rows

BLOCK_BYTES = 32 * 1024 * 1024  # of a block of relation rows, or of M's columns: well under one model's memory
RELATION_KEPT = 512  # sites; up to here the relation (2 MiB) is kept for reports, beyond it never exists whole


@dataclass(frozen=True, eq=False)
class Mixed:
    """`heads` (m, H); `form` that was used; `relation` (m, m), or None (linear form, or over RELATION_KEPT)."""

    heads: F64
    form: Literal["matrix", "linear"]
    relation: F64 | None


def mix(relation: F64, heads: F64) -> F64:
    """Mixed heads (m, H) from a whole relation (m, m) and heads (m, H)."""
    mixed: F64 = relation @ heads
    return mixed


def mix_by_rows(
    values: F64, heads: F64, options: Options, *, records: F64 | None = None, block_bytes: int = BLOCK_BYTES
) -> F64:
    """Mixed heads (m, H) in the matrix form, from representations (m, D), with a block of the relation at a time.

    `records`: (m,) n_i / C, which the relation `evidence` needs.
    """
    unit = unit_rows(values)
    sites = len(unit)
    step = max(1, block_bytes // (8 * sites))
    mixed = np.empty(heads.shape)
    for start in range(0, sites, step):
        stop = min(start + step, sites)
        relation = relation_rows(unit, options, start=start, stop=stop, records=records)
        np.matmul(relation, heads, out=mixed[start:stop])
    return mixed


def mix_linear(values: F64, heads: F64, *, block_bytes: int = BLOCK_BYTES) -> F64:
    """Mixed heads (m, H) in the linear form, from representations (m, D) without negative entries.

    A site with a zero representation keeps its own head.

    Raises:
        ValueError: a negative entry; the linear form would be another function.
    """
    if (values < 0).any():
        raise ValueError("the linear form needs representations without negative entries")
    unit = unit_rows(values)
    scale = unit @ unit.sum(axis=0)  # at least ⟨v̂_i, v̂_i⟩ = 1 where v_i is not zero: a safe divisor
    alone = scale == 0
    scale[alone] = 1.0
    mixed = np.empty(heads.shape)
    step = max(1, block_bytes // (8 * max(1, unit.shape[1])))
    for start in range(0, heads.shape[1], step):
        columns = slice(start, start + step)
        mixed[:, columns] = unit @ (unit.T @ heads[:, columns])
    mixed /= scale[:, None]
    mixed[alone] = heads[alone]
    return mixed


def linear_is_cheaper(sites: int, width: int, head: int) -> bool:
    """Whether 4 m D H multiplications are fewer than 2 m² (D + H)."""
    return 2 * width * head < sites * (width + head)


def personalise(class_sums: F64, heads: F64, options: Options) -> Mixed:
    """Every participant's mixed head, by the form the options ask for or, with `auto`, by the cheaper one.

    Args:
        class_sums: (m, C, d+1), checked by `intake`; heads: (m, H). Sites in the order of their ids.

    Raises:
        ValueError: shapes that do not fit, or form `linear` with a negative representation.
    """
    if class_sums.ndim != 3 or heads.ndim != 2 or len(class_sums) != len(heads) or len(heads) == 0:
        raise ValueError("class sums are (m, C, d+1) and heads (m, H), with the same m >= 1")
    values = representations(class_sums, options.representation)
    if _takes_linear(values, heads, options):
        return Mixed(mix_linear(values, heads), "linear", None)
    records = split(class_sums)[1].mean(axis=1)  # a class
    if len(heads) <= RELATION_KEPT:
        relation = relation_matrix(values, options, records)
        return Mixed(mix(relation, heads), "matrix", relation)
    return Mixed(mix_by_rows(values, heads, options, records=records), "matrix", None)


def _takes_linear(values: F64, heads: F64, options: Options) -> bool:
    if options.form != "auto":
        return options.form == "linear"
    cheaper = linear_is_cheaper(len(heads), values.shape[1], heads.shape[1])
    return options.allows_linear and cheaper and not (values < 0).any()


def after_round(mixed: Mapping[str, F64], before: Mapping[str, F64]) -> dict[str, F64]:
    """Every site's head after a round, by site id: the mixed one, or for a site outside the round the one it had."""
    heads = {**before, **mixed}
    return {site: heads[site] for site in sorted(heads)}


def mean_head(heads: Mapping[str, F64]) -> F64:
    """What a site that joins late starts with: the mean of all sites' heads, (H,), summed in the order of their ids.

    Raises:
        ValueError: no head at all, or heads of different lengths.
    """
    if not heads:
        raise ValueError("the mean of no heads does not exist")
    if len({head.shape for head in heads.values()}) != 1:
        raise ValueError("heads have different lengths")
    total = np.zeros(next(iter(heads.values())).shape)
    for site in sorted(heads):
        total += heads[site]
    total /= len(heads)
    return total

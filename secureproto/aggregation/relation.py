"""The relation matrix r: how much of each site's head a site gets. Rows are made in blocks, never more at once.

    1. representation v_i = concat_j a_ij c_ij            (`representations`)
    2. v̂_i = v_i / ‖v_i‖, zero where v_i is zero          (`unit_rows`)
    3. cosines s_ib = ⟨v̂_i, v̂_b⟩                          (a block of rows of v̂ v̂ᵀ)
    4. each row normalised to sum 1, self included        (`row_sum`, `power`, `softmax`, `evidence`)
    5. a site with a zero representation or a zero row gets the identity row
    6. no peer gets more than its share                   (`cap_peer_share`, when the study asks for it)

Invariants: rows are non-negative and sum to 1 (to rounding); scaling one site's representation changes nothing;
a block of rows depends on all sites but not on which other rows are asked for (to rounding).
Source: METHOD "Server side"; FedPAC for `prior`. `evidence` is this project's (decision 8): softmax with a
temperature of its own for every row, τ_i = scale · √(C / n_i). Shares of C classes are known from n_i records to
about √(C / n_i), so a difference of cosines below that is no evidence that two sites differ: a site with few records
a class takes nearly the plain mean of the heads, one with many prefers those like itself.
"""

from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from secureproto.aggregation.layout import F64
from secureproto.aggregation.options import Options, Representation
from secureproto.aggregation.prototypes import local_means, split

# A row is left alone when it keeps the bound but for rounding: three equal peers keep a share of 1/3.
_SLACK = 1e-12
_NO_EVIDENCE = 1e-9  # records a class


def representations(class_sums: F64, representation: Representation) -> F64:
    """Site representations (m, C·d) from class sums and counts (m, C, d+1).

    `presence`: a_ij = 1, the local means. `prior`: a_ij = n_ij / n_i, and a_ij c_ij = s_ij / n_i; the sums
    themselves are returned, since n_i scales a whole representation and drops out of the cosine.
    """
    match representation:
        case "presence":
            values = local_means(class_sums)
        case "prior":
            values = split(class_sums)[0]
        case _:
            assert_never(representation)
    return values.reshape(len(class_sums), -1)


def unit_rows(values: F64) -> F64:
    """Rows divided by their Euclidean norms, (m, D); a zero row stays zero.

    The largest entry is divided out first, so that no square overflows, and none underflows to a zero norm.
    """
    largest = np.abs(values).max(axis=1, keepdims=True, initial=0.0)
    unit = np.zeros(values.shape)
    np.divide(values, largest, out=unit, where=largest > 0)
    norms = np.sqrt(np.einsum("id,id->i", unit, unit))[:, None]
    np.divide(unit, norms, out=unit, where=norms > 0)
    return unit


def cosines(values: F64) -> F64:
    """Cosines (m, m) of representations (m, D); 0 where one of the two is zero."""
    unit = unit_rows(values)
    product: F64 = unit @ unit.T
    return product


def relation_matrix(values: F64, options: Options, records: F64 | None = None) -> F64:
    """The relation (m, m) of representations (m, D). `records`: (m,) n_i / C, which `evidence` needs."""
    return relation_rows(unit_rows(values), options, start=0, stop=len(values), records=records)


def relation_rows(unit: F64, options: Options, *, start: int, stop: int, records: F64 | None = None) -> F64:
    """Rows `start` … `stop` of the relation, (stop − start, m), from all unit representations (m, D).

    Memory: this block and, while shares are bounded, a few more of its size.

    Raises:
        ValueError: `evidence` without the records a class.
    """
    rows: F64 = unit[start:stop] @ unit.T
    weigh(rows, options, None if records is None else records[start:stop])
    zero = ~unit[start:stop].any(axis=1)
    total = rows.sum(axis=1)
    alone = np.flatnonzero(zero | (total <= 0))
    total[alone] = 1.0
    rows /= total[:, None]
    rows[alone] = 0.0
    rows[alone, alone + start] = 1.0
    if options.max_peer_share is not None:
        cap_peer_share(rows, options.max_peer_share, start=start)
    return rows


def weigh(rows: F64, options: Options, records: F64 | None) -> None:
    """Cosines into unnormalised weights, in place; `records` of the rows' own sites."""
    match options.normalisation:
        case "row_sum":
            np.maximum(rows, 0.0, out=rows)
        case "power":
            np.maximum(rows, 0.0, out=rows)
            np.power(rows, options.power, out=rows)
        case "softmax":
            _soften(rows, options.temperature)
        case "evidence":
            if records is None:
                raise ValueError("the relation `evidence` needs the records a class")
            # no record at all, or a noisy count below zero: no evidence, so a temperature at which all are alike
            _soften(rows, options.evidence_scale / np.sqrt(np.maximum(records, _NO_EVIDENCE))[:, None])
        case _:
            assert_never(options.normalisation)


def _soften(rows: F64, temperature: float | F64) -> None:
    """exp(s/τ) but for a factor a row, in place. `temperature`: one for all, or (k, 1)."""
    # the largest exponent becomes 0, so exp cannot overflow; a quotient that does is −inf, and exp gives 0
    rows -= rows.max(axis=1, keepdims=True)
    with np.errstate(over="ignore"):
        rows /= temperature
    np.exp(rows, out=rows)


def cap_peer_share(rows: F64, share: float, *, start: int = 0) -> None:
    """Bound what one peer gets of the mass a row gives to peers; what is cut off goes back to self. In place.

    For the row r_i let p_b = r_ib for the peers b ≠ i. It becomes p'_b = min(p_b, t) with the largest level t for
    which every peer keeps the bound **after** the cut: p'_b ≤ share · Σ_k p'_k. Self becomes 1 − Σ_k p'_k.

    The bound is on the row as it is used. Bounded by the mass before the cut, a row of one great peer and many
    tiny ones would still be nearly all that peer, and a site that forges a representation close to another's
    could subtract its own head and read the other's.

    So a row needs at least 1/share peers with mass. With fewer (a single peer and a share under 1; none) the only
    level is 0: the row becomes the identity row. With exactly 1/share, all come down to the least of them. A share
    of 1 bounds nothing.

    Args:
        rows: (k, m), rows `start` … `start + k` of a relation: non-negative, sum 1.
        share: over 0, at most 1.
    """
    index = np.arange(len(rows))
    own = index + start
    peers = rows.copy()
    peers[index, own] = 0.0
    over = np.flatnonzero(peers.max(axis=1) > share * peers.sum(axis=1) * (1 + _SLACK))
    for row in over:
        rows[row] = np.minimum(peers[row], _level(peers[row], share))
        rows[row, own[row]] = 1.0 - rows[row].sum()


def _level(peers: F64, share: float) -> float:
    """The largest t with t ≤ share · Σ min(p_b, t), for peers (m,) that break the bound; 0 if only that does.

    With the masses sorted downwards and the j largest cut to t, the condition is t (1 − j·share) ≤ share · S_j, with
    S_j the sum of the others. The gap share · Σ min(p_b, t) − t is concave in t and 0 at 0, so the first mass p_k
    (going down) that satisfies it brackets the level: it lies between p_k and p_(k−1), where j = k − 1 are cut.
    """
    masses: NDArray[np.float64] = np.sort(peers[peers > 0])[::-1]
    cut = np.arange(len(masses))  # how many are greater, when the level is this mass
    rest = masses[::-1].cumsum()[::-1]  # this mass and all smaller ones
    fits = share * (cut * masses + rest) >= masses * (1 - _SLACK)
    if not fits.any():
        return 0.0
    first = int(np.argmax(fits))
    level = share * rest[first] / (1.0 - first * share)
    return float(min(max(level, masses[first]), masses[first - 1]))

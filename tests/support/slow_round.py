"""The server side of a round in plain Python floats, written from METHOD with loops: the oracle of the fast path.

It shares no code and no array library with `secureproto.aggregation`. Where the fast path has a closed form (the
level of `max_peer_share`), this one searches by bisection.
"""

import math
from dataclasses import dataclass

Vector = list[float]
Matrix = list[Vector]


@dataclass(frozen=True)
class SlowOptions:
    """The same names and meanings as `secureproto.aggregation.options.Options`."""

    weighting: str
    min_holders: int
    representation: str
    normalisation: str
    power: float
    temperature: float
    evidence_scale: float
    max_peer_share: float | None


@dataclass(frozen=True)
class SlowSite:
    """One upload: class sums (C, d), counts (C), head (H), extractor (E)."""

    sums: Matrix
    counts: Vector
    head: Vector
    extractor: Vector


@dataclass(frozen=True)
class SlowResult:
    prototypes: Matrix
    age: list[int]
    extractor: Vector
    cosines: Matrix
    relation: Matrix
    heads: Matrix


def slow_round(sites: list[SlowSite], prototypes: Matrix, age: list[int], options: SlowOptions) -> SlowResult:
    """A whole round."""
    new_prototypes, new_age = _prototypes(sites, prototypes, age, options)
    vectors = [_representation(site, options.representation) for site in sites]
    cosines = [[_cosine(v, w) for w in vectors] for v in vectors]
    relation = [_row(i, cosines[i], sites[i], vectors[i], options) for i in range(len(sites))]
    heads = [_mixture(row, [site.head for site in sites]) for row in relation]
    total = math.fsum(math.fsum(site.counts) for site in sites)
    betas = [math.fsum(site.counts) / total for site in sites]
    extractor = _mixture(betas, [site.extractor for site in sites])
    return SlowResult(new_prototypes, new_age, extractor, cosines, relation, heads)


def _prototypes(
    sites: list[SlowSite], prototypes: Matrix, age: list[int], options: SlowOptions
) -> tuple[Matrix, list[int]]:
    new_values, new_age = [], []
    for j, (old, old_age) in enumerate(zip(prototypes, age, strict=True)):
        holders = [site for site in sites if site.counts[j] > 0]
        if len(holders) < options.min_holders:
            new_values.append(list(old))
            new_age.append(-1 if old_age == -1 else old_age + 1)
            continue
        means = [[s / site.counts[j] for s in site.sums[j]] for site in holders]
        count = math.fsum(site.counts[j] for site in holders)
        weights = [site.counts[j] / count if options.weighting == "samples" else 1 / len(holders) for site in holders]
        new_values.append(_mixture(weights, means))
        new_age.append(0)
    return new_values, new_age


def _representation(site: SlowSite, representation: str) -> Vector:
    total = math.fsum(site.counts)
    vector: Vector = []
    for sums, count in zip(site.sums, site.counts, strict=True):
        share = 0.0 if count == 0 else (1.0 if representation == "presence" else count / total)
        vector += [share * s / count if count > 0 else 0.0 for s in sums]
    return vector


def _cosine(v: Vector, w: Vector) -> float:
    norms = math.hypot(*v) * math.hypot(*w)
    return 0.0 if norms == 0 else math.fsum(a * b for a, b in zip(v, w, strict=True)) / norms


def _row(i: int, cosines: Vector, site: SlowSite, vector: Vector, options: SlowOptions) -> Vector:
    identity = [1.0 if b == i else 0.0 for b in range(len(cosines))]
    if not any(vector):
        return identity
    if options.normalisation in ("softmax", "evidence"):
        top, temperature = max(cosines), options.temperature
        if options.normalisation == "evidence":
            temperature = options.evidence_scale * math.sqrt(len(site.counts) / max(1e-9, math.fsum(site.counts)))
        weights = [math.exp((s - top) / temperature) for s in cosines]
    else:
        power = options.power if options.normalisation == "power" else 1.0
        weights = [max(s, 0.0) ** power for s in cosines]
    total = math.fsum(weights)
    if total == 0:
        return identity
    row = [w / total for w in weights]
    return row if options.max_peer_share is None else _capped(i, row, options.max_peer_share)


def _capped(i: int, row: Vector, share: float) -> Vector:
    """Peers cut to the largest level at which each has at most `share` of what all peers keep."""

    def fits(level: float) -> bool:
        kept = math.fsum(min(p, level) for b, p in enumerate(row) if b != i)
        return level <= share * kept * (1 + 1e-12)

    top = max((p for b, p in enumerate(row) if b != i), default=0.0)
    low, high = 0.0, top
    if fits(top):
        low = top
    else:
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (middle, high) if fits(middle) else (low, middle)
    capped = [min(p, low) if b != i else 0.0 for b, p in enumerate(row)]
    capped[i] = 1.0 - math.fsum(capped)
    return capped


def _mixture(weights: Vector, vectors: Matrix) -> Vector:
    return [math.fsum(w * x for w, x in zip(weights, column, strict=True)) for column in zip(*vectors, strict=True)]

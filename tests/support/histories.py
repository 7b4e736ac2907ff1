"""Histories as a simulation leaves them, made up: by hand for small sums, or drawn for pages with many of them."""

from collections.abc import Mapping, Sequence
from math import exp

import numpy as np

from secureproto.simulation.history import (
    CHOSEN,
    RECEIVED,
    TEST,
    TUNED,
    VALIDATION,
    History,
    Measured,
    RoundRecord,
    SiteRound,
)

KINDS = ("mixed", "midway", "longer", "local", "blend", "own")  # what a site may choose
Scores = dict[str, float]

HOSPITALS = ("cleveland", "hungary", "long-beach", "switzerland")
METHODS = (
    "majority", "local", "fedavg", "fedavg-ft", "fedprox:mu=0.01", "fedper", "fedproto", "ditto", "fedpac",
    "protoaligned:representation=presence:normalisation=power",
)  # fmt: skip


def measured(accuracy: float, n: int = 10, *, balanced: float | None = None, auc: float | None = 0.5) -> Measured:
    """Scores with these numbers."""
    return Measured(accuracy=accuracy, balanced_accuracy=accuracy if balanced is None else balanced, auc=auc, n=n)


def record(number: int, points: Mapping[str, Mapping[str, Measured]], **more: object) -> RoundRecord:
    """A round whose test scores are `points[point][site]`; with `validation`, a mapping of the same shape."""
    validation: Mapping[str, Mapping[str, Measured]] = more.pop("validation", {})  # type: ignore[assignment]
    fields: Mapping[str, Mapping[str, object]] = more.pop("fields", {})  # type: ignore[assignment]
    sites = {site for by_site in points.values() for site in by_site} | set(fields)
    return RoundRecord(
        number=number,
        sites={
            site: SiteRound.model_validate(
                {
                    "points": {
                        point: {
                            TEST: by_site[site],
                            **({VALIDATION: validation[point][site]} if site in validation.get(point, {}) else {}),
                        }
                        for point, by_site in points.items()
                        if site in by_site
                    },
                    **fields.get(site, {}),
                }
            )
            for site in sorted(sites)
        },
        **more,
    )


def history(method: str, seed: int, *rounds: RoundRecord, failure: str | None = None) -> History:
    """A run with these rounds; one with a failure did not end."""
    name = method.partition(":")[0]
    return History(method=method, title=name, seed=seed, rounds=rounds, complete=failure is None, failure=failure)


def scores(accuracies: Scores, sizes: dict[str, int] | None = None) -> dict[str, Measured]:
    """Scores of sites with these accuracies, over so many records each."""
    return {site: measured(accuracy, (sizes or {}).get(site, 10)) for site, accuracy in accuracies.items()}


def run(method: str, seed: int, *tuned: Scores, failure: str | None = None) -> History:
    """A run with these accuracies after local training, round by round; as received they are 0.1 lower."""
    return history(
        method,
        seed,
        *(
            record(
                number,
                {
                    RECEIVED: scores({site: accuracy - 0.1 for site, accuracy in found.items()}),
                    TUNED: scores(found),
                },
            )
            for number, found in enumerate(tuned)
        ),
        failure=failure,
    )


def drawn(
    sites: Sequence[str] = HOSPITALS,
    methods: Sequence[str] = METHODS,
    seeds: Sequence[int] = (0, 1, 2),
    *,
    rounds: int = 30,
    every: int = 5,
    failing: Mapping[str, int] | None = None,
) -> list[History]:
    """Runs with plausible curves. `failing[method]`: the seed whose run ends after a third. The last site has no AUC
    where there are more than two."""
    return [
        _run(sites, (method, place), seed, rounds=rounds, every=every, fails=(failing or {}).get(method) == seed)
        for place, method in enumerate(methods)
        for seed in seeds
    ]


def _run(
    sites: Sequence[str], method: tuple[str, int], seed: int, *, rounds: int, every: int, fails: bool
) -> History:
    label, place = method
    last = rounds // 3 if fails else rounds
    records = [_round(sites, label, np.random.default_rng([place, seed, number]), (number, rounds, every))
               for number in range(last + 1)]  # fmt: skip
    reason = "training diverged: the alignment term is no longer finite at site hungary" if fails else None
    return history(label, seed, *records, failure=reason)


def _round(sites: Sequence[str], label: str, numbers: np.random.Generator, when: tuple[int, int, int]) -> RoundRecord:
    number, rounds, every = when
    name = label.partition(":")[0]
    scored = number % every == 0 or number == rounds
    trains = name != "majority"
    found: dict[str, SiteRound] = {}
    for index, site in enumerate(sites):
        points = _points(label, site, numbers, number / rounds, auc=len(sites) < 3 or index < len(sites) - 1)
        if number < rounds:
            points.pop(CHOSEN, None)
        found[site] = SiteRound(
            points=points if scored else {},
            chosen=KINDS[int(numbers.integers(len(KINDS)))] if CHOSEN in points and scored else None,
            steps=20 if trains else 0,
            cross_entropy=0.2 + exp(-4 * number / rounds) * (1 + 0.1 * numbers.normal()) if trains else None,
            alignment=0.05 * (1 + number / rounds) if name in ("fedproto", "fedpac", "protoaligned") else None,
            embedding_norm=2 + number / rounds + 0.1 * numbers.normal() if trains else None,
            bytes_sent=0 if name in ("majority", "local") or number == rounds else 4 * (1000 + 300 * len(label)),
            seconds=0.01,
        )
    relation = _relation(len(sites), numbers) if name in ("fedpac", "protoaligned") and number < rounds else None
    return RoundRecord(number=number, sites=found, relation=relation, seconds=0.2)


def _points(
    label: str, site: str, numbers: np.random.Generator, progress: float, *, auc: bool
) -> dict[str, dict[str, Measured]]:
    base = np.random.default_rng(list(site.encode())).uniform(0.62, 0.85)
    skill = 0.02 * np.random.default_rng([7, *label.encode()]).normal()
    level = base - 0.15 * exp(-5 * progress) + skill
    n = int(np.random.default_rng([3, *site.encode()]).integers(16, 120))

    def scores(better: float) -> dict[str, Measured]:
        value = [float(np.clip(level + better + 0.015 * numbers.normal(), 0, 1)) for _ in range(3)]
        return {
            part: measured(
                value[0] + shift, n, balanced=value[1] - 0.03, auc=min(1.0, value[2] + 0.05) if auc else None
            )
            for part, shift in ((TEST, 0.0), (VALIDATION, -0.01))
        }

    found = {RECEIVED: scores(0.0), TUNED: scores(0.01)}
    if label.startswith("protoaligned"):
        found[CHOSEN] = scores(0.012)
    return found


def _relation(m: int, numbers: np.random.Generator) -> tuple[tuple[float, ...], ...] | None:
    if m > 64:
        return None
    matrix = numbers.uniform(size=(m, m)) ** 3 + np.eye(m)
    return tuple(map(tuple, (matrix / matrix.sum(axis=1, keepdims=True)).tolist()))

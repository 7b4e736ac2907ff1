"""Hyper-parameters of every method by one procedure: each candidate is run once on a validation part, the best wins.

    1. Candidates: all combinations of the method's own grid and the values given for every method.
    2. Each is run like any method, for the same rounds, with the same seeds, on the same partition.
    3. The highest mean on validation records after the last round wins, over seeds and sites, at the better of the
       two points (as received, after local training); the first of equals.

Invariant: a record that a table reports on decides nothing here: the partition has its validation part inside the
training part, and the test part is not read (its scores are computed by the runs and not looked at).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from statistics import fmean

from secureproto.errors import Misconfigured
from secureproto.simulation.baselines.catalogue import METHODS, make
from secureproto.simulation.command import session
from secureproto.simulation.history import RECEIVED, TUNED, VALIDATION, History
from secureproto.simulation.planning import Asked
from secureproto.simulation.statistics import Measure
from secureproto.study.schema import StudyFile


class TuningRequest(Asked):
    """What `simulate tune` was asked for. `grid`: KEY=VALUE,VALUE for every method; `by`: what decides."""

    grid: tuple[str, ...] = ()
    by: Measure = "accuracy"


def tune(request: TuningRequest, say: Callable[[str], None]) -> list[dict[str, object]]:
    """A row a candidate, best first within its method; `chosen` marks the one to use.

    Raises:
        Misconfigured: no validation part, a key or value that a method does not take; and as `command.perform`.
    """
    if request.out is None:
        raise Misconfigured("tune needs --out")
    if any(label.partition(":")[0] == "fedavg-ft" for label in request.labels):
        raise Misconfigured(
            "fedavg-ft is read from FedAvg's runs", hint="tune fedavg, and give fedavg-ft what it chose"
        )
    with session(request, request.out, say, validated="tune") as opened:
        study = opened.ground.study
        given = dict(_given(text) for text in request.grid)
        by_method = {label: candidates(label, given, study) for label in request.labels}
        for label in dict.fromkeys(one for found in by_method.values() for one in found):
            for seed in request.seed_numbers:
                opened.go(label, seed)
        histories = opened.experiment.histories()
    return [row for label, found in by_method.items() for row in _ranked(label, found, histories, request.by)]


def candidates(label: str, given: Mapping[str, Sequence[str]], study: StudyFile) -> list[str]:
    """Specs of all combinations, the label's own settings kept.

    Raises:
        Misconfigured: a value that the method does not take.
    """
    name, _, fixed = label.partition(":")
    make(label, study)
    settled = {part.partition("=")[0] for part in fixed.split(":")}
    grid = {**{key: [str(value) for value in values] for key, values in METHODS[name].grid.items()}, **given}
    free = {key: values for key, values in grid.items() if key not in settled}
    found = [
        ":".join([label, *(f"{key}={value}" for key, value in zip(free, values, strict=True))])
        for values in product(*free.values())
    ]
    for spec in found:
        make(spec, study)
    return found


def _given(text: str) -> tuple[str, list[str]]:
    key, equals, values = text.partition("=")
    if not equals or not values:
        raise Misconfigured(f"--grid {text!r}: is not KEY=VALUE,VALUE")
    return key, list(dict.fromkeys(values.split(",")))


def _ranked(
    label: str, specs: Sequence[str], histories: Sequence[History], by: Measure
) -> Iterator[dict[str, object]]:
    scored = [(_validated([one for one in histories if one.method == spec], by), spec) for spec in specs]
    best = max((score for score, _ in scored if score is not None), default=None)
    chosen = next((spec for score, spec in scored if score is not None and score == best), None)
    for score, spec in sorted(scored, key=lambda one: -1.0 if one[0] is None else -one[0]):
        mark = "use this" if spec == chosen else ("diverged" if score is None else "")
        yield {"method": label, "candidate": spec, f"validation {by}": score, "chosen": mark}


def _validated(runs: Sequence[History], by: Measure) -> float | None:
    """Mean of a measure on validation records over runs and sites, at the better point; None if a run did not end."""
    if not runs or not all(run.complete for run in runs):
        return None
    last = [site for run in runs for site in run.rounds[-1].sites.values()]
    means = []
    for point in (RECEIVED, TUNED):
        values = [getattr(site.points[point][VALIDATION], by) for site in last if VALIDATION in site.points[point]]
        known = [value for value in values if value is not None]
        means += [fmean(known)] if known else []
    return max(means, default=None)

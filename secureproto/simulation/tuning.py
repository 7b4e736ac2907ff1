"""Hyper-parameters of every method by one procedure: each candidate is run once on a validation part, the best wins.

    1. Candidates: all combinations of the method's own grid and the values given for every method.
    2. Each is run like any method, for the same rounds, with the same seeds, on the same partition.
    3. The highest mean on validation records after the last round wins, over seeds and sites, at the best of
       the method's points (as received, after local training, as chosen where sites choose); the first of equals.
    4. Told are how it was decided, where the winner has the end of what was tried of a key, and what to paste.

Invariants: what a method does not take, and more runs than anybody meant, are refused before anything is trained or
written. A record that a table reports on decides nothing here: the partition has its validation part inside the
training part, and the test part is not read (its scores are computed by the runs and not looked at).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import partial
from itertools import product
from math import inf, prod
from statistics import fmean
from typing import NamedTuple

from pydantic import BaseModel

from secureproto.errors import Misconfigured, Partial
from secureproto.simulation.baselines.catalogue import METHODS, make, nearest, sections_of
from secureproto.simulation.command import session
from secureproto.simulation.experiment import runs_of, with_rounds
from secureproto.simulation.history import CHOSEN, RECEIVED, TUNED, VALIDATION, History, Measured
from secureproto.simulation.planning import Asked, require_validation
from secureproto.simulation.statistics import Measure, exact
from secureproto.study.file import load
from secureproto.study.schema import PrototypeSection, RelationSection, StudyFile, TrainingSection

CHOSEN_MARK = "use this"
MOST = 1000  # runs; of more, one was not meant
WORDS = {RECEIVED: "as received", TUNED: "after local training", CHOSEN: "as chosen"}
SECTIONS: dict[str, type[BaseModel]] = {
    "training": TrainingSection,
    "relation": RelationSection,
    "prototypes": PrototypeSection,
}


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
    by_method, given = planned(request), _grid(request)
    specs = list(dict.fromkeys(one for found in by_method.values() for one in found))
    with session(request, request.out, say, demand=partial(require_validation, why="tune")) as opened:
        say(_size(specs, request, opened.ground.study.rounds.total))
        for label in specs:
            for seed in request.seed_numbers:
                opened.go(label, seed)
        study = opened.ground.study
        # what else the directory holds, of an earlier tuning, has no say
        histories = [one for one in opened.experiment.histories() if one.seed in request.seed_numbers]
    chosen = []
    for label, found in by_method.items():
        scored = _scored(found, histories, request.by)
        winner = _winner(scored)
        ends = _at_an_end(label, winner[0], _free(label, given), study) if winner else ()
        say("; ".join((_told(label, scored, request), *ends)))
        chosen += [winner[0]] if winner else []
    if chosen:
        say(f"to compare what is chosen: simulate run … --methods {','.join(_each_once(chosen, study))}")
    return [row for label, found in by_method.items() for row in _ranked(label, found, histories, request.by)]


def demand_choice(rows: Sequence[Mapping[str, object]]) -> None:
    """Raise Partial where nothing was chosen for a method."""
    methods = dict.fromkeys(str(row["method"]) for row in rows)
    without = methods.keys() - {str(row["method"]) for row in rows if row["chosen"] == CHOSEN_MARK}
    if without:
        raise Partial(f"tune: nothing is chosen for {', '.join(one for one in methods if one in without)}")


def planned(request: TuningRequest) -> dict[str, list[str]]:
    """The candidates of every method.

    Raises:
        Misconfigured: a key or a value that a method does not take, or over MOST runs.
    """
    study = load(request.study)
    study = with_rounds(study, request.rounds or study.rounds.total)
    given = _grid(request)
    runs_of(request.labels, study)
    for key in given:
        _demand_taken(key, request.labels)
    runs = request.seeds * sum(prod(map(len, _free(label, given).values())) for label in request.labels)
    if runs > MOST:
        raise Misconfigured(
            f"tune: {runs:,} runs (candidates × {_number(request.seeds, 'seed')}); at most {MOST:,} are taken",
            hint="fewer values in --grid, fewer --methods, or --seeds 1",
        )
    found = {label: candidates(label, given, study) for label in request.labels}
    for specs in found.values():
        runs_of(specs, study)
    return found


def candidates(label: str, given: Mapping[str, Sequence[str]], study: StudyFile) -> list[str]:
    """Specs of all combinations, the label's own settings kept.

    Raises:
        Misconfigured: a key or a value that the method does not take.
    """
    make(label, study)
    free = _free(label, given)
    found = [_spec(label, dict(zip(free, values, strict=True))) for values in product(*free.values())]
    for spec in found:
        make(spec, study)
    return found


def _spec(label: str, values: Mapping[str, str]) -> str:
    return ":".join([label, *(f"{key}={value}" for key, value in values.items())])


def _free(label: str, given: Mapping[str, Sequence[str]]) -> dict[str, Sequence[str]]:
    """What is tried for a method: its own grid and what is given, but for what the label settles itself."""
    name, _, fixed = label.partition(":")
    settled = {part.partition("=")[0] for part in fixed.split(":")}
    own: dict[str, Sequence[str]] = {key: [str(one) for one in values] for key, values in METHODS[name].grid.items()}
    return {key: values for key, values in {**own, **given}.items() if key not in settled}


def _keys(label: str) -> list[str]:
    """All keys that a method takes."""
    name = label.partition(":")[0]
    shared = [key for section in sections_of(name) for key in SECTIONS[section].model_fields]
    return [*(field.name for field in fields(METHODS[name]) if field.name != "study"), *shared]


def _demand_taken(key: str, labels: Sequence[str]) -> None:
    """Raises Misconfigured unless every method takes the key."""
    refusing = [label for label in labels if key not in _keys(label)]
    if not refusing:
        return
    taking = [label for label in labels if label not in refusing]
    if taking:
        raise Misconfigured(
            f"--grid {key}: {', '.join(refusing)} has no key {key!r}, only {', '.join(taking)}",
            hint=f"tune {', '.join(taking)} with it alone; the grid is for every method of --methods",
        )
    every = list(dict.fromkeys(one for label in labels for one in _keys(label)))
    raise Misconfigured(f"--grid {key}: {', '.join(refusing)} has no key {key!r}", hint=nearest(key, every))


def _size(specs: Sequence[str], request: TuningRequest, rounds: int) -> str:
    runs = len(specs) * request.seeds
    return (
        f"tune: {_number(len(specs), 'candidate')} × {_number(request.seeds, 'seed')} × {_number(rounds, 'round')}: "
        f"{_number(runs, 'run')}, {_number(runs * rounds, 'round')}"
    )


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _grid(request: TuningRequest) -> dict[str, list[str]]:
    """The values of --grid by their key. Raises Misconfigured: a text that is none, or a key twice."""
    given: dict[str, list[str]] = {}
    for key, values in map(_given, request.grid):
        if key in given:
            raise Misconfigured(f"--grid {key}: is given twice", hint=f"once with all values: {key}=VALUE,VALUE")
        given[key] = values
    return given


def _given(text: str) -> tuple[str, list[str]]:
    key, equals, values = text.partition("=")
    if not equals or not values:
        raise Misconfigured(f"--grid {text!r}: is not KEY=VALUE,VALUE")
    return key, list(dict.fromkeys(values.split(",")))


class Validated(NamedTuple):
    """The mean of a measure on validation records: at which point, on how many records of how many sites."""

    score: float
    point: str
    records: int
    sites: int


Scored = Sequence[tuple[str, Validated | None]]


def _scored(specs: Sequence[str], histories: Sequence[History], by: Measure) -> Scored:
    return [(spec, _validated([one for one in histories if one.method == spec], by)) for spec in specs]


def _winner(scored: Scored) -> tuple[str, Validated] | None:
    """The first of the best."""
    known = [(spec, found) for spec, found in scored if found is not None]
    return max(known, key=lambda one: one[1].score, default=None)


def _told(label: str, scored: Scored, request: TuningRequest) -> str:
    """How the choice of one method was made, in a line."""
    winner = _winner(scored)
    if winner is None:
        return f"{label}: no candidate came to its end with a validation {_word(request.by)}: nothing is chosen"
    spec, found = winner
    equal = sum(one is not None and one.score == found.score for _, one in scored) - 1
    be = "is" if equal == 1 else "are"
    others = f"; {_number(equal, 'other')} {be} equal, and it is the first" if equal else ""
    seeds = "the seed" if request.seeds == 1 else _number(request.seeds, "seed")
    return (
        f"{label}{_alone(label, request)}: {spec} has the highest {_word(request.by)}, {found.score:.3f}, "
        f"{WORDS[found.point]} of the last version: mean over {seeds} and {_number(found.sites, 'site')}, "
        f"on {_number(found.records, 'validation record')} a seed{others}"
    )


def _alone(label: str, request: TuningRequest) -> str:
    """Where a method is tuned under several labels: that each has a choice of its own."""
    name = label.partition(":")[0]
    others = [one for one in request.labels if one != label and one.partition(":")[0] == name]
    return f" (for itself; another choice is made for {' and for '.join(others)})" if others else ""


def _at_an_end(label: str, spec: str, tried: Mapping[str, Sequence[str]], study: StudyFile) -> Iterator[str]:
    """The keys of which the chosen candidate has the least or the largest of several numbers that were tried, where
    the method takes a number beyond it."""
    chosen = dict(part.split("=", 1) for part in spec.removeprefix(label).split(":") if part)
    for key, texts in tried.items():
        numbers = [_as_number(text) for text in texts]
        known = [one for one in numbers if one is not None]
        value = _as_number(chosen[key])
        if value is None or len(known) < len(numbers) or len(set(known)) < 2:
            continue
        for end, side, word, more in ((min, -1, "smallest", "smaller"), (max, 1, "largest", "larger")):
            beyond = ({**chosen, key: text} for text in _beyond(value, side))
            if value == end(known) and any(_is_taken(_spec(label, one), study) for one in beyond):
                yield f"{key}={chosen[key]} is the {word} value tried: a {more} one may be better"


def _as_number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _beyond(value: float, side: int) -> Iterator[str]:
    """Numbers a little under (side −1) or over (1) a value: the next whole one, and one close by."""
    if value.is_integer():
        yield str(int(value) + side)
    yield repr(value + side * max(abs(value) / 1000, 1e-6))


def _is_taken(spec: str, study: StudyFile) -> bool:
    try:
        make(spec, study)
    except Misconfigured:
        return False
    return True


def _each_once(specs: Sequence[str], study: StudyFile) -> list[str]:
    """The specs without those that are an earlier one, be it in other words: `simulate run` refuses them."""
    found: list[str] = []
    for spec in specs:
        if all(make(spec, study) != make(other, study) for other in found):
            found.append(spec)
    return found


def _ranked(
    label: str, specs: Sequence[str], histories: Sequence[History], by: Measure
) -> Iterator[dict[str, object]]:
    scored = _scored(specs, histories, by)
    winner = _winner(scored)
    for spec, found in sorted(scored, key=lambda one: inf if one[1] is None else -one[1].score):
        ended = all(one.complete for one in histories if one.method == spec)
        mark = CHOSEN_MARK if winner and spec == winner[0] else ""
        yield {
            "method": label,
            "candidate": spec,
            f"validation {by}": None if found is None else found.score,
            "point": None if found is None else WORDS[found.point],
            "validation records": None if found is None else found.records,
            "chosen": mark if found is not None else "not defined" if ended else "diverged",
        }


def _validated(runs: Sequence[History], by: Measure) -> Validated | None:
    """Mean over runs and sites, at the better point; None if a run did not end, or has no such score."""
    if not runs or not all(run.complete for run in runs):
        return None
    means: list[Validated] = []
    for point in WORDS:
        lasts = [[_validation(at.points, point) for at in run.rounds[-1].sites.values()] for run in runs]
        known = [[one for one in last if one is not None and getattr(one, by) is not None] for last in lasts]
        values = [getattr(one, by) for part in known for one in part]
        if values:
            records = min(sum(one.n for one in part) for part in known)
            means.append(Validated(exact(fmean(values)), point, records, max(map(len, known))))
    return max(means, key=lambda found: found.score, default=None)


def _validation(points: Mapping[str, Mapping[str, Measured]], point: str) -> Measured | None:
    return points.get(point, {}).get(VALIDATION)


def _word(by: Measure) -> str:
    return "AUC" if by == "auc" else by.replace("_", " ")

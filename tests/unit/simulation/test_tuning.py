"""Candidates of a tuning, and what decides between them."""

from pathlib import Path
from typing import Any

import pytest

from secureproto.errors import Misconfigured
from secureproto.simulation.experiment import Experiment
from secureproto.simulation.heart.hospitals import study_path
from secureproto.simulation.history import (
    RECEIVED,
    TEST,
    TUNED,
    VALIDATION,
    History,
    Measured,
    RoundRecord,
    SiteRound,
)
from secureproto.simulation.tuning import (
    MOST,
    TuningRequest,
    _at_an_end,
    _each_once,
    _ranked,
    _scored,
    _size,
    _told,
    candidates,
    planned,
    tune,
)
from support.learning import tabular_study

STUDY = tabular_study()


def test_all_combinations_but_of_what_is_settled() -> None:
    given = {"learning_rate": ["0.1", "0.2"]}
    assert candidates("fedprox:mu=1", given, STUDY) == [
        "fedprox:mu=1:learning_rate=0.1",
        "fedprox:mu=1:learning_rate=0.2",
    ]
    assert len(candidates("fedpac", given, STUDY)) == 2 * len(candidates("fedpac", {}, STUDY)) > 2
    with pytest.raises(Misconfigured, match="no key"):
        candidates("fedprox", {"nu": ["1"]}, STUDY)


def history(spec: str, *, validation: float, test: float, complete: bool = True) -> History:
    def measured(accuracy: float) -> Measured:
        return Measured(accuracy=accuracy, balanced_accuracy=1 - accuracy, auc=None, n=10)

    both = {VALIDATION: measured(validation), TEST: measured(test)}
    record = RoundRecord(number=1, sites={"a": SiteRound(points={RECEIVED: both, TUNED: both})})
    return History(method=spec, title="x", seed=0, rounds=(record,), complete=complete)


def chosen(histories: list[History], by: str = "accuracy") -> list[str]:
    specs = list(dict.fromkeys(one.method for one in histories))
    return [str(row["candidate"]) for row in _ranked("m", specs, histories, by) if row["chosen"] == "use this"]  # type: ignore[arg-type]


def test_validation_decides_and_test_scores_do_not() -> None:
    runs = [history("a", validation=0.6, test=0.9), history("b", validation=0.7, test=0.1)]
    assert chosen(runs) == ["b"]
    assert chosen([history("a", validation=0.6, test=0.1), history("b", validation=0.7, test=0.9)]) == ["b"]
    assert chosen(runs, by="balanced_accuracy") == ["a"]


def test_a_run_that_did_not_end_is_not_chosen() -> None:
    runs = [history("a", validation=0.9, test=0.9, complete=False), history("b", validation=0.7, test=0.1)]
    assert chosen(runs) == ["b"]


def test_one_run_that_did_not_end_is_enough() -> None:
    ended = [history("a", validation=0.9, test=0.9), history("b", validation=0.7, test=0.1)]
    others = [history("a", validation=0.9, test=0.9, complete=False), history("b", validation=0.7, test=0.1)]
    runs = [*ended, *(one.model_copy(update={"seed": 1}) for one in others)]
    assert chosen(ended) == ["a"]
    assert chosen(runs) == ["b"]
    assert [row["chosen"] for row in _ranked("m", ["a", "b"], runs, "accuracy")] == ["use this", "diverged"]


def test_the_last_version_decides() -> None:
    def over_rounds(spec: str, *scores: float) -> History:
        records = [history(spec, validation=score, test=0.5).rounds[0] for score in scores]
        rounds = tuple(one.model_copy(update={"number": number}) for number, one in enumerate(records, start=1))
        return history(spec, validation=0, test=0).model_copy(update={"rounds": rounds})

    assert chosen([over_rounds("a", 0.9, 0.8, 0.6), over_rounds("b", 0.1, 0.2, 0.7)]) == ["b"]


def test_the_first_of_equals() -> None:
    equal = [history(name, validation=0.7, test=test) for name, test in (("b", 0.1), ("a", 0.9), ("c", 0.5))]
    assert chosen(equal) == ["b"]
    assert chosen([*equal, history("d", validation=0.8, test=0.1)]) == ["d"]
    assert told(equal).endswith("; 2 others are equal, and it is the first")
    assert told(equal[:2]).endswith("; 1 other is equal, and it is the first")


def test_a_sum_s_last_digit_decides_nothing() -> None:
    means = {"a": (0.7, 0.7, 0.7), "b": (0.6, 0.7, 0.8)}  # 0.6999999999999998 and 0.7, as sums of floats are
    runs = [
        at_points(spec, received=value, tuned=0, seed=seed)
        for spec, values in means.items()
        for seed, value in enumerate(values)
    ]
    (first,) = [row for row in _ranked("m", list(means), runs, "accuracy") if row["chosen"] == "use this"]
    assert first["candidate"] == "a"


def told(histories: list[History], **values: Any) -> str:
    specs = list(dict.fromkeys(one.method for one in histories))
    return _told("m", _scored(specs, histories, "accuracy"), request(**values))


def at_points(spec: str, *, received: float, tuned: float, seed: int = 0, n: int = 10) -> History:
    """Two sites, of which one has no validation records."""

    def points(*parts: str) -> dict[str, dict[str, Measured]]:
        return {
            point: {part: Measured(accuracy=value, balanced_accuracy=value, auc=None, n=n) for part in parts}
            for point, value in ((RECEIVED, received), (TUNED, tuned))
        }

    sites = {"a": SiteRound(points=points(TEST, VALIDATION)), "b": SiteRound(points=points(TEST))}
    return History(
        method=spec, title="x", seed=seed, rounds=(RoundRecord(number=1, sites=sites),), complete=True, failure=None
    )


@pytest.mark.parametrize(
    ("received", "tuned", "point"),
    [(0.6, 0.7, "after local training"), (0.7, 0.6, "as received"), (0.7, 0.7, "as received")],
)
def test_what_was_measured_where_and_on_how_many_records_is_said(received: float, tuned: float, point: str) -> None:
    runs = [at_points("x", received=received, tuned=tuned, seed=seed) for seed in range(3)]
    assert told(runs) == (
        f"m: x has the highest accuracy, 0.700, {point} of the last version: mean over 3 seeds and 1 site, on 10 "
        "validation records a seed"
    )
    (row,) = _ranked("m", ["x"], runs, "accuracy")
    assert (row["validation accuracy"], row["point"], row["validation records"]) == (0.7, point, 10)


def test_a_measure_that_is_not_defined_is_not_called_diverged() -> None:
    (row,) = _ranked("m", ["x"], [at_points("x", received=0.5, tuned=0.5)], "auc")
    assert row["chosen"] == "not defined"
    (row,) = _ranked("m", ["a"], [history("a", validation=0.9, test=0.9, complete=False)], "accuracy")
    assert row["chosen"] == "diverged"
    assert told([history("a", validation=0.9, test=0.9, complete=False)]).endswith("nothing is chosen")


# ---- what is refused before anything is trained


def request(**values: Any) -> TuningRequest:
    return TuningRequest.model_validate({"study": study_path(), "validation": 0.2, **values})


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    (
        {"methods": ("fedprox,fedavg",), "grid": ("mu=0.1,1",)},
        "--grid mu: fedavg has no key 'mu', only fedprox",
        "tune fedprox with it alone",
    ),
    ({"methods": ("fedprox",), "grid": ("mi=0.1",)}, "--grid mi: fedprox has no key 'mi'", ", mu, "),
    (
        {"methods": ("fedavg,local",), "grid": ("learning_rat=0.1",)},
        "--grid learning_rat: fedavg, local has no key",
        "did you mean learning_rate?",
    ),
    ({"methods": ("fedavg,protoaligned",), "grid": ("min_holders=1,2",)}, "only protoaligned", "protoaligned"),
    ({"methods": ("fedavg",), "grid": ("learning_rate=fast",)}, "method 'fedavg:learning_rate=fast': ", ""),
    ({"methods": ("fedprox",), "grid": ("mu=1,x",)}, "method 'fedprox:mu=x': mu is a number", ""),
    ({"methods": ("fedavg",), "grid": ("momentum=0.5,1.5",)}, "method 'fedavg:momentum=1.5'", ""),
    ({"methods": ("fedavg",), "grid": ("learning_rate",)}, "is not KEY=VALUE,VALUE", ""),
    ({"methods": ("fedavg",), "grid": ("learning_rate=1,,2",)}, "method 'fedavg:learning_rate='", ""),
    ({"methods": ("fedavg",), "grid": ("momentum=0", "momentum=1")}, "--grid momentum: is given twice", "once"),
    ({"methods": ("fedprix",)}, "no method 'fedprix'", "did you mean"),
    (
        {"methods": ("fedavg",), "seeds": 2, "grid": ("momentum=" + ",".join(f"0.{n:04}" for n in range(501)),)},
        "tune: 1,002 runs (candidates × 2 seeds); at most 1,000",
        "--seeds 1",
    ),
    (
        {"methods": ("fedavg",), "grid": tuple(f"{key}=" + ",".join(map(str, range(1, 10**4))) for key in
                                               ("learning_rate", "batch_size", "weight_decay"))},
        "runs (candidates × 3 seeds)",
        "fewer values",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("values", "line", "hint"), REFUSED, ids=lambda value: str(value)[:50])
def test_what_cannot_be_is_refused_before_anything_is_written(
    values: dict[str, Any], line: str, hint: str, tmp_path: Path
) -> None:
    with pytest.raises(Misconfigured) as caught:
        tune(request(**values, out=tmp_path / "out"), lambda _: None)
    assert line in caught.value.message
    assert hint in caught.value.hint
    assert not (tmp_path / "out").exists()


def test_so_many_runs_are_taken_and_no_more() -> None:
    values = "momentum=" + ",".join(f"0.{n:04}" for n in range(MOST))
    assert len(planned(request(methods=("fedavg",), grid=(values,), seeds=1))["fedavg"]) == MOST


def test_what_a_method_settles_is_not_counted() -> None:
    found = planned(request(methods=("fedprox:mu=1", "fedavg"), grid=("learning_rate=0.1,0.2",)))
    assert [len(specs) for specs in found.values()] == [2, 2]


def test_how_much_it_is_and_how_it_was_decided_is_said(tmp_path: Path) -> None:
    said: list[str] = []
    asked = request(methods=("majority,local",), rounds=1, seeds=2, grid=("learning_rate=0.01,0.02",), out=tmp_path)
    rows = tune(asked, said.append)
    assert [row["chosen"] for row in rows].count("use this") == 2
    first = next(index for index, line in enumerate(said) if line.startswith("tune: "))
    assert said[first] == "tune: 4 candidates × 2 seeds × 1 round: 8 runs, 8 rounds"
    assert all("round " not in line or index > first for index, line in enumerate(said))
    assert "after local training" in said[-2] or "as received" in said[-2]
    assert "validation records a seed" in said[-2]
    use = ",".join(str(row["candidate"]) for row in rows if row["chosen"] == "use this")
    assert said[-1] == f"to compare what is chosen: simulate run … --methods {use}"


def test_every_candidate_is_run_with_every_seed(tmp_path: Path) -> None:
    tune(request(methods=("majority,local",), rounds=1, seeds=3, out=tmp_path), lambda _: None)
    done = [(one.method, one.seed) for one in Experiment.open(tmp_path).histories()]
    assert sorted(done) == [(method, seed) for method in ("local", "majority") for seed in range(3)]


def test_seeds_of_an_earlier_tuning_have_no_say(tmp_path: Path) -> None:
    def best(seeds: int, out: Path) -> dict[object, object]:
        rows = tune(request(methods=("local",), rounds=1, seeds=seeds, grid=("learning_rate=0.02,0.05",), out=out),
                    lambda _: None)  # fmt: skip
        return {row["candidate"]: row["validation accuracy"] for row in rows}

    three = best(3, tmp_path / "used")
    one = best(1, tmp_path / "used")
    assert one == best(1, tmp_path / "fresh")
    assert one != three


def test_each_label_of_a_method_is_chosen_for_itself(tmp_path: Path) -> None:
    said: list[str] = []
    asked = request(methods=("local,local:learning_rate=0.2",), rounds=1, seeds=1, grid=("learning_rate=0.2,1e-9",),
                    out=tmp_path)  # fmt: skip
    tune(asked, said.append)
    first, second, paste = said[-3:]
    assert first.startswith("local (for itself; another choice is made for local:learning_rate=0.2): local:learning_")
    assert second.startswith("local:learning_rate=0.2 (for itself; another choice is made for local): local:learn")
    assert "value tried" in first
    assert "value tried" not in second  # the label settles it
    # the one candidate, chosen twice: `simulate run` takes no method twice
    assert paste == "to compare what is chosen: simulate run … --methods local:learning_rate=0.2"


def test_what_is_pasted_has_no_method_twice() -> None:
    specs = ["local:momentum=0.5", "fedprox:mu=1", "local:momentum=0.50", "fedprox:mu=2"]
    assert _each_once(specs, STUDY) == ["local:momentum=0.5", "fedprox:mu=1", "fedprox:mu=2"]


SMALLER, LARGER = "is the smallest value tried: a smaller one", "is the largest value tried: a larger one"


@pytest.mark.parametrize(
    ("key", "values", "chosen", "told"),
    [
        ("learning_rate", "0.01,0.1,0.02", "0.1", f"learning_rate=0.1 {LARGER} may be better"),
        ("learning_rate", "0.01,0.1,0.02", "0.01", f"learning_rate=0.01 {SMALLER} may be better"),
        ("learning_rate", "2,1", "1", f"learning_rate=1 {SMALLER} may be better"),
        ("learning_rate", "0.01,0.1,0.02", "0.02", ""),
        ("learning_rate", "0.1", "0.1", ""),
        ("learning_rate", "0.1,0.10", "0.1", ""),
        ("momentum", "0,0.5", "0", ""),  # there is none under it
        ("batch_size", "1,8", "1", ""),
        ("batch_size", "1,8", "8", f"batch_size=8 {LARGER} may be better"),
    ],
)
def test_a_choice_at_the_end_of_what_was_tried_is_said(key: str, values: str, chosen: str, told: str) -> None:
    tried = {key: values.split(",")}
    assert list(_at_an_end("fedavg", f"fedavg:{key}={chosen}", tried, STUDY)) == ([told] if told else [])


def test_words_have_no_end() -> None:
    tried = {"lam": ["0.1", "1.0"], "inference": ["head", "prototype"]}
    found = list(_at_an_end("fedproto", "fedproto:lam=1.0:inference=head", tried, STUDY))
    assert found == [f"lam=1.0 {LARGER} may be better"]


def test_one_of_each_is_told_in_the_singular() -> None:
    assert _size(["a"], request(seeds=1), 1) == "tune: 1 candidate × 1 seed × 1 round: 1 run, 1 round"

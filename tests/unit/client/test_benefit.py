"""Would a site be better off alone: the numbers against the code they come from, and wrong input in one line each."""

import json
import socket
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from secureproto.cli.root import run
from secureproto.data.folds import Folding
from secureproto.data.source import Loaded
from secureproto.errors import Misconfigured, PolicyDenied
from secureproto.learning.arrays import Arrays, load_arrays
from secureproto.learning.choice import KINDS, Kind, Start, candidates, cross_fitted
from secureproto.learning.dataset import Records
from secureproto.learning.evaluate import Scores, evaluate, score
from secureproto.learning.exchange import Received, initial_arrays, receive
from secureproto.learning.model import Model, build
from secureproto.simulation.baselines.fedproto import nearest_prototype
from secureproto.simulation.baselines.local import Local
from secureproto.simulation.outcomes import outcomes
from secureproto.simulation.population import GivenSites, SiteData
from secureproto.simulation.statistics import Interval
from secureproto_client import benefit, benefit_sources
from secureproto_client.benefit import FEW_OF_CLASS, Benefit, Line, Question, _countable, _too_wide, answer
from secureproto_client.pointer import Pointer
from secureproto_client.settings import TrainingSettings
from secureproto_client.stopping import only_client
from support.asking import forbidden, published
from support.learning import blobs, tabular_study
from support.site_peer import STUDY, Peer
from support.site_rig import RECORDS, Rig, enrolled, with_records

NOT_COUNTED = "balanced accuracy and AUC are not counted in the verdict"
SMALL = tabular_study(rounds={"total": 4})


def question(train: Records, test: Records, **values: Any) -> Question:
    shared, head = published(SMALL)
    given = {"study": SMALL, "model": "version 3", "version": 3, "shared": shared, "head": head, "site": "a"}
    return Question(**{**given, "loaded": Loaded(train, test), **values})


def line(found: Benefit, model: str) -> Line:
    return next(line for line in found.lines if line.model == model)


def accuracy(line: Line) -> float:
    scored = line.scores["accuracy"]
    assert scored is not None
    return scored.mean


def values(line: Line) -> dict[str, float]:
    return {measure: scored.mean for measure, scored in line.scores.items() if scored is not None}


def values_of(scores: Scores) -> dict[str, float | None]:
    return {"accuracy": scores.accuracy, "balanced_accuracy": scores.balanced_accuracy, "auc": scores.auc}


# ---- the numbers


def test_each_line_is_what_it_says() -> None:
    train, test = blobs(30), blobs(60, seed=9)
    asked = question(train, test)
    found = answer(asked)
    assert [each.model for each in found.lines] == [
        "own data only", "as received", "after local training", "as a member would choose",
    ]  # fmt: skip
    alone = outcomes(Local(SMALL), GivenSites({"a": SiteData(train, test)}))["a"].received
    assert accuracy(found.lines[0]) == alone.accuracy
    assert found.lines[0].gains == {}
    assert asked.head is not None
    model, received = build(SMALL), Received(3, asked.shared, asked.head)
    receive(model, received.shared, received.head)
    assert accuracy(line(found, "as received")) == evaluate(model, test).accuracy
    load_arrays(model, candidates(model, Start(SMALL, received, "a"), records=train)["local"])
    tuned, expected = line(found, "after local training"), evaluate(model, test)
    assert accuracy(tuned) == expected.accuracy
    for measure, own in (("accuracy", alone.accuracy), ("balanced_accuracy", alone.balanced_accuracy)):
        gain, scored = tuned.gains[measure], tuned.scores[measure]
        assert gain is not None
        assert scored is not None
        assert gain.mean == pytest.approx(scored.mean - own)
        assert gain.low is not None
        assert gain.high is not None
        assert gain.low <= gain.mean <= gain.high
    assert (found.training, found.held_out) == (30, 60)
    start = Start(SMALL, received, "a", longer=TrainingSettings().longer)
    folds = Folding(0.2, bytes(32)).of(asked.loaded)
    load_arrays(model, cross_fitted(model, start, records=train, folds=folds).weights)
    assert values(line(found, "as a member would choose")) == pytest.approx(values_of(evaluate(model, test)))
    assert "(as a member would choose against own data only" in found.verdict


def test_what_a_member_would_choose_from_is_all_that_a_member_has(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Start] = []

    def noting(model: Model, start: Start, **rest: Any) -> Any:
        asked.append(start)
        return cross_fitted(model, start, **rest)

    monkeypatch.setattr(benefit, "cross_fitted", noting)
    answer(question(blobs(12), blobs(60, seed=9)))
    assert [(start.kinds, start.longer) for start in asked] == [(KINDS, TrainingSettings().longer)]


def test_a_file_without_a_head_is_used_by_its_prototypes_and_gets_one() -> None:
    train, test = blobs(30), blobs(60, seed=9)
    found = answer(question(train, test, head=None))
    names = [each.model for each in found.lines]
    assert names[1:] == [
        "as received, nearest prototype", "with a head trained here", "after local training",
        "as a member would choose",
    ]  # fmt: skip
    model, (shared, head) = build(SMALL), published(SMALL)
    prototypes = receive(model, shared, head)
    expected = score(test.y, nearest_prototype(model, prototypes, test.x))
    assert accuracy(found.lines[1]) == expected.accuracy
    start = Start(SMALL, Received(3, shared, head), "a")
    own = candidates(model, start, records=train)["own"]
    joined = Received(3, shared, {name: array for name, array in own.items() if name.startswith("head.")})
    load_arrays(model, candidates(model, Start(SMALL, joined, "a"), records=train)["local"])
    assert values(found.lines[3]) == pytest.approx(values_of(evaluate(model, test)))
    shared = published(SMALL, prototypes=False)[0]
    without = answer(question(train, test, head=None, shared=shared))
    assert [each.model for each in without.lines] == ["own data only", *names[2:]]
    assert accuracy(without.lines[1]) == accuracy(found.lines[2])


def test_what_is_in_use_has_the_last_word() -> None:
    shared, head = published(SMALL)
    spoilt = {name: -array for name, array in head.items()}
    found = answer(question(blobs(60), blobs(90, seed=9), in_use=("3-own", shared, spoilt)))
    assert found.lines[-1].model == "in use: 3-own"
    assert found.verdict.startswith("Joining is worse (in use: 3-own against own data only, 90 held-out rows")


def test_a_model_of_a_third_party_runs_where_it_is_allowed() -> None:
    name = "support.tiny_model:factory"
    study = tabular_study(model={"name": name})
    shared, head = map(dict, initial_arrays(build(study, [name])))
    asked = question(blobs(12), blobs(60), study=study, shared=shared, head=head, allowed_factories=(name,))
    assert len(answer(asked).lines) == 4
    with pytest.raises(PolicyDenied, match="does not allow it"):
        answer(replace(asked, allowed_factories=()))


def test_equal_questions_have_equal_answers() -> None:
    assert answer(question(blobs(12), blobs(60))) == answer(question(blobs(12), blobs(60)))


def test_what_limits_the_answer_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secureproto.learning.choice.pick", lambda _: "local")
    data = blobs(60)
    one = Records(data.x[data.y == 1], data.y[data.y == 1])
    few = answer(question(one, Records(data.x[:4], data.y[:4])))
    assert few.notes == (
        "only 4 rows are held out: an interval from so few is itself only a rough one",
        f"few held-out rows of class class 0 (2), class 1 (1), class 2 (1): {NOT_COUNTED}",
        "every training row is of class class 1: whatever trains on them learns to say so",
    )
    assert "cannot be told from 4 held-out rows" in few.verdict
    assert "accuracy is the same on every row; AUC differs, by too few rows of a class to count" in few.verdict
    assert "balanced" not in few.verdict
    lacking = answer(question(data, one))
    assert "no held-out row of class class 0, class 2: no AUC" in lacking.notes
    assert lacking.lines[0].scores["auc"] is None
    assert answer(question(data, blobs(60, seed=3))).notes == ()
    alone = answer(question(data, Records(data.x[:1], data.y[:1])))
    assert alone.notes[0].startswith("only 1 row is held out: ")


def test_equal_accuracy_is_no_equality_where_another_measure_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    test = blobs(16, seed=9)
    assert np.bincount(test.y).min() < FEW_OF_CLASS
    alone = np.tile([0.6, 0.2, 0.2], (16, 1))
    better = np.where(np.eye(3)[test.y] > 0, 0.3, 0.1)
    better[:, 0] += 0.5  # class 0 everywhere, as alone, and the right one of the others stands higher
    both = {"own data only": alone, "after local training": better}
    monkeypatch.setattr(benefit, "_probabilities", lambda *_: iter(both.items()))
    found = answer(question(blobs(30), test))
    gains = found.lines[-1].gains
    assert gains["accuracy"] == Interval(0.0, 0.0, 0.0, 0.95, 16)
    assert gains["auc"] is not None
    assert gains["auc"].mean > 0.3
    assert "accuracy is the same on every row; AUC differs, by too few rows of a class to count" in found.verdict
    monkeypatch.setattr(benefit, "_probabilities", lambda *_: iter(dict.fromkeys(both, better).items()))
    assert answer(question(blobs(30), test)).verdict.startswith("Joining makes no difference on 16 held-out rows")


def interval(low: float | None, high: float | None) -> Interval:
    return Interval(0.0, low, high, 0.95, 100)


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (interval(-0.19, 0.25), True),
        (interval(-0.02, 0.03), False),  # narrow: as good as alone
        (interval(0.1, 0.4), False),  # wide, and on one side of zero
        (interval(None, None), False),
        (None, False),
    ],
)
def test_an_interval_that_is_too_wide_to_tell_is_said_to_be(found: Interval | None, told: bool) -> None:
    said = list(_too_wide({"auc": found}, 16))
    expected = "AUC: on 16 rows the difference may be anything from -0.19 to +0.25 (95 % interval, 0.44 wide): "
    assert said == ([expected + "too wide to tell"] if told else [])


def test_one_class_of_few_rows_is_enough_to_count_accuracy_alone() -> None:
    gains = dict.fromkeys(("accuracy", "balanced_accuracy", "auc"), interval(0.1, 0.2))
    assert set(_countable(gains, np.repeat([0, 1, 2], [40, 40, 9]))) == {"accuracy"}
    assert set(_countable(gains, np.repeat([0, 1, 2], [40, 40, 10]))) == set(gains)


def test_training_goes_on_from_the_version_of_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers: list[int] = []

    def noting(model: Model, start: Start, *, records: Records) -> Mapping[Kind, Arrays]:
        numbers.append(start.received.round_number)
        return candidates(model, start, records=records)

    monkeypatch.setattr("secureproto_client.benefit.candidates", noting)
    answer(question(blobs(12), blobs(30)))
    assert numbers == [3]


def test_sixteen_rows_are_too_few_to_tell() -> None:
    study = tabular_study(rounds={"total": 1}, training={"local_epochs": 1, "learning_rate": 1e-4})
    shared, head = published(study)
    shared, head = dict(shared), {name: -array for name, array in head.items()}
    found = answer(question(blobs(30), blobs(16, seed=9), study=study, shared=shared, head=head))
    assert found.verdict.startswith("Whether joining is better cannot be told from 16 held-out rows")
    assert any(note.startswith("accuracy: on 16 rows") and "too wide to tell" in note for note in found.notes)
    assert not any("narrow" in note for note in found.notes)


@pytest.mark.parametrize(
    ("training", "each"),
    [({"local_epochs": 1}, "1 epoch"), ({"local_epochs": None, "local_steps": 3}, "3 steps")],
)
def test_how_own_data_only_was_trained_is_said(training: dict[str, Any], each: str) -> None:
    study = tabular_study(rounds={"total": 4}, training=training, model={"seed": 7})
    own = answer(question(blobs(30), blobs(60), study=study)).own
    rate, size = study.training.learning_rate, study.training.batch_size
    assert (own.rounds, own.local_epochs, own.local_steps, own.seed) == (
        4, study.training.local_epochs, study.training.local_steps, 7,
    )  # fmt: skip
    assert own.told() == (
        f"own data only: 4 local trainings of {each}, learning rate {rate:g}, batches of {size}, seed 7"
    )
    assert replace(own, rounds=1).told().startswith("own data only: 1 local training of ")


def test_nothing_held_out() -> None:
    with pytest.raises(Misconfigured, match="test: no row is held out"):
        answer(question(blobs(9), blobs(0)))


@pytest.mark.parametrize(("rate", "own"), [(1e30, "test: own data only: diverged in round 0")])
def test_a_training_that_diverges_is_one_line(rate: float, own: str) -> None:
    study = tabular_study(training={"learning_rate": rate})
    with pytest.raises(Misconfigured, match=own):
        answer(question(blobs(30), blobs(9), study=study))


# ---- at an enrolled site


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    rig = enrolled(tmp_path / "site", Peer())
    yield rig
    rig.kill()


def play(rig: Rig, *, final: bool = True) -> None:
    """One round, which is the last."""
    agent = with_records(rig, RECORDS)
    agent.step(wait=0)
    number = rig.peer.open()
    agent.step(wait=0)
    rig.peer.complete(number, final=final)
    agent.step(wait=0)
    rig.kill()


def test_an_enrolled_site_asks_of_its_newest_version_without_a_network(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    play(rig)
    before = {path: path.read_bytes() for path in rig.root.rglob("*") if path.is_file()}
    monkeypatch.setattr(socket, "socket", forbidden)
    assert run(["simulate", "benefit", "--site-dir", str(rig.root), "-o", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["study"], shown["federation_model"]) == (STUDY, "version 1")
    names = [each["model"] for each in shown["models"]]
    assert names == ["own data only", "as received", "after local training", "in use: 1"]
    assert shown["models"][1]["scores"] == shown["models"][3]["scores"]
    assert shown["training_rows"] + shown["held_out_rows"] == 10
    own = shown["own_data_only"]
    assert (own["rounds"], own["seed"]) == (50, 0)
    assert before.keys() == {path for path in rig.root.rglob("*") if path.is_file()}
    assert run(["simulate", "benefit", "--site-dir", str(rig.root), "--study", STUDY]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("model ")
    assert "own data only: 50 local trainings of " in err
    assert f"scored on the same {shown['held_out_rows']} held-out rows" in err
    assert "the study is not over" not in err
    assert shown["verdict"] in out


def test_of_a_study_that_goes_on_it_is_said_how_far_it_is(rig: Rig) -> None:
    play(rig, final=False)
    assert benefit_sources.of_site(rig.paths, None).notes == (
        "version 1 of at most 50: the study is not over, and own data only was trained as long as all of it",
    )


def test_the_model_in_use_is_the_one_a_person_holds(rig: Rig) -> None:
    play(rig)
    Pointer(rig.start().site.models(STUDY)).use("0")
    rig.kill()
    found = answer(benefit_sources.of_site(rig.paths, None))
    assert found.lines[-1].model == "in use: 0"


def test_before_the_first_version_and_of_another_study(rig: Rig, capsys: pytest.CaptureFixture[str]) -> None:
    def ask(*arguments: str) -> tuple[int, str]:
        code = run(["simulate", "benefit", "--site-dir", str(rig.root), *arguments])
        return code, capsys.readouterr().err.splitlines()[0]

    assert ask() == (7, "error: no study is known here yet")
    agent = rig.start()
    agent._meet(STUDY)
    rig.kill()
    assert ask() == (7, "error: no version of small is here yet")
    agent = rig.start()
    agent.step(wait=0)
    rig.kill()
    untrained = "no round of small has ended yet: version 0 is the first weights, which nobody has trained"
    assert ask() == (7, f"error: {untrained}")
    assert ask("--study", "other") == (7, "error: study other is not known here")
    assert run(["simulate", "benefit", "--site-dir", str(rig.root / "none")]) == 2


def test_beside_a_running_client(rig: Rig) -> None:
    play(rig)
    with only_client(rig.paths):
        assert benefit_sources.of_site(rig.paths, None).model == "version 1"
    rig.paths.hold_out_key.unlink()
    with only_client(rig.paths):
        assert run(["simulate", "benefit", "--site-dir", str(rig.root)]) == 7  # it may be making the key
    assert benefit_sources.of_site(rig.paths, None).model == "version 1"


def test_in_a_site_s_directory_it_needs_no_arguments(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(rig.root)
    assert run(["simulate", "benefit"]) == 7  # no study yet: it is taken for a site
    assert "no study is known here yet" in capsys.readouterr().err


def test_an_export_names_its_version() -> None:
    assert benefit_sources._version({"model": "12"}, SMALL) == 12
    assert benefit_sources._version({"model": "12-local"}, SMALL) == 12
    assert benefit_sources._version({"model": "x"}, SMALL) == benefit_sources._version({}, SMALL) == 4


@pytest.mark.parametrize("name", ["0", "0-local"])
def test_an_exported_model_that_nobody_has_trained_is_refused(name: str) -> None:
    with pytest.raises(Misconfigured, match="version 0: the first weights"):
        benefit_sources._version({"model": name}, SMALL)

"""The site's own data and model: what is refused with a reason, and what trains nevertheless."""

import logging
from collections.abc import Iterator
from math import ceil
from pathlib import Path

import numpy as np
import pytest
import torch

from secureproto.data.source import Isolated, Loaded
from secureproto.errors import (
    Partial,
)
from secureproto.learning.dataset import Records
from secureproto.learning.training import step_count
from secureproto_client import opening
from secureproto_client.agent import Agent
from secureproto_client.journal import State
from secureproto_client.logs import logging_to
from secureproto_client.models import StoredModel
from secureproto_client.training import TorchLearner, _tell
from support.site_peer import STUDY, Peer
from support.site_rig import RECORDS, SETTINGS, Rig, enrolled, with_records


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    rig = enrolled(tmp_path / "site", Peer())
    yield rig
    rig.kill()


@pytest.fixture
def agent(rig: Rig) -> Agent:
    agent = rig.start()
    agent.step(wait=0)
    return agent


def rows(agent: Agent) -> list[tuple[int, State, str]]:
    return [(row.round, row.state, row.reason) for row in agent.site.journal.rounds()]


@pytest.mark.parametrize(
    ("records", "line"),
    [
        (RECORDS.replace("p3,50", "p3,fifty"), "age"),
        (RECORDS.replace(",out\n", ",result\n"), "out"),
        (RECORDS.splitlines()[0] + "\n", "no record"),
        ("", "patients.csv"),
    ],
)
def test_unusable_data_are_refused_with_a_reason_and_mended(
    rig: Rig, caplog: pytest.LogCaptureFixture, records: str, line: str
) -> None:
    agent = with_records(rig, records)
    agent.step(wait=0)
    number = rig.peer.open()
    agent.step(wait=0)
    assert [refusal.reasons for refusal in rig.peer.refusals] == [("data_unusable",)]
    assert rows(agent) == [(number, State.DECLINED, "data_unusable")]
    assert line in caplog.text
    assert "fifty" not in caplog.text
    rig.peer.miss()
    (rig.root / "patients.csv").write_text(RECORDS)
    number = rig.peer.open()
    agent.step(wait=0)
    assert rows(agent)[-1] == (number, State.DONE, "")


@pytest.mark.parametrize("kept", [1, 4])
def test_fewer_samples_than_a_batch_still_train(rig: Rig, kept: int) -> None:
    lines = [line for line in RECORDS.splitlines() if not line.startswith("p") or line.split(",")[0] in KEPT[:kept]]
    agent = with_records(rig, "\n".join(lines) + "\n")
    rig.paths.settings.write_text(SETTINGS.replace("hold_out = 0.3", "hold_out = 0"))
    agent = with_records(rig, "\n".join(lines) + "\n")
    agent.step(wait=0)
    number = rig.peer.open()
    agent.step(wait=0)
    assert rig.peer.opened(number)["prototypes"][:, -1].sum() == kept


KEPT = ["p1", "p2", "p3", "p4"]


def test_a_model_that_does_not_fit_the_study(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    agent = with_records(rig, RECORDS)
    agent.step(wait=0)
    learner = agent._learner(agent._studies[STUDY])
    learner._schema = rig.peer.schema.model_copy(update={"embedding_width": 9})  # type: ignore[attr-defined]
    rig.peer.open()
    agent.step(wait=0)
    assert [refusal.reasons for refusal in rig.peer.refusals] == [("model_not_allowed",)]
    assert "model does not fit the study small" in caplog.text


def test_a_study_that_is_not_accepted(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    rig.paths.settings.write_text("")
    agent = rig.start()
    rig.peer.open()
    agent.step(wait=0)
    assert [refusal.reasons for refusal in rig.peer.refusals] == [("study_not_accepted",)]
    assert rig.peer.digest in caplog.text
    before = len(rig.peer.requests)
    agent.step(wait=0)
    assert len(rig.peer.requests) == before + 1
    assert not agent.complete()


def test_another_digest_than_the_engineer_wrote(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    rig.paths.settings.write_text(SETTINGS + f'digest = "{"0" * 64}"\n')
    rig.start().step(wait=0)
    assert "client.toml accepts another" in caplog.text


def test_a_site_that_dies_in_every_training_says_so(agent: Agent, rig: Rig) -> None:
    number = rig.peer.open()
    for _ in range(5):
        agent.site.journal.start(STUDY, number, 0)
    agent.step(wait=0)
    assert rows(agent) == [(number, State.DECLINED, "data_unusable")]


def test_local_training_that_fails_is_told_at_the_end(rig: Rig) -> None:
    agent = with_records(rig, "")
    rig.peer.state = "completed"
    with pytest.raises(Partial, match="the last version is installed, local training failed"):
        agent.run(until_complete=True)


def test_the_warm_up_counts_the_rounds_of_the_study(rig: Rig) -> None:
    agent = with_records(rig, RECORDS)
    agent.step(wait=0)
    learner = agent._learner(agent._studies[STUDY])
    assert isinstance(learner, TorchLearner)
    stored = agent.site.models(STUDY).load("0", rig.peer.schema)
    sent = {"prototypes": stored.shared["prototypes"] + 1, "prototype_age": stored.shared["prototype_age"] + 1}
    base = StoredModel(stored.note, {**stored.shared, **sent}, stored.head)

    def head(round_number: int, **training: float) -> list[bytes]:
        changed = rig.peer.study.training.model_copy(update=training)
        learner._study = rig.peer.study.model_copy(update={"training": changed})
        update = learner.train(base, round_number).update
        return [np.ascontiguousarray(array).tobytes() for name, array in sorted(update.items())]

    warm = {"alignment_weight": 5.0, "alignment_warmup_rounds": 4}
    assert head(0, **warm) == head(0, alignment_weight=0.0)
    assert head(2, **warm) == head(2, alignment_weight=2.5)
    assert head(2, **warm) != head(2, alignment_weight=5.0)


def test_fine_tuning_can_be_turned_off(rig: Rig) -> None:
    rig.paths.settings.write_text(SETTINGS + "[training]\nfine_tune = 0\n")
    agent = rig.start()
    rig.peer.state = "completed"
    agent.run(until_complete=True)
    assert agent.site.models(STUDY).names() == ["0"]


def test_fine_tuning_lasts_as_long_as_the_site_says(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "secureproto_client.training")
    steps = []
    for said in ("", "[training]\nfine_tune = 7\n"):
        rig.paths.settings.write_text(SETTINGS + said)
        agent = with_records(rig, RECORDS)
        agent.step(wait=0)
        learner = agent._learner(agent._studies[STUDY])
        base = agent.site.models(STUDY).load("0", rig.peer.schema)
        caplog.clear()
        learner.fine_tune(base, agent.site.settings.training.fine_tune)
        steps.append(int(caplog.text.split(" steps")[0].rsplit(" ", 1)[1]))
    training = rig.peer.study.training
    records = learner.count()[0]
    assert steps == [step_count(records, training), 7 * ceil(records / training.batch_size)]
    assert steps[0] != steps[1]


def test_torch_takes_as_many_threads_as_the_site_gives_it(rig: Rig) -> None:
    before = torch.get_num_threads()
    said = SETTINGS + "[training]\nthreads = {}\n"
    try:
        for threads in (2, 1):
            rig.paths.settings.write_text(said.format(threads))
            agent = rig.start()
            agent.step(wait=0)
            opening.learner_of(rig.paths, agent.site.settings, agent._studies[STUDY], site="cleveland")
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)


def test_losses_go_to_the_file_at_debug_level_only(
    rig: Rig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logger = logging.getLogger("secureproto_client")
    for level, there in (("debug", True), ("info", False)):
        file = tmp_path / f"{level}.log"
        with logging_to(file, level):
            agent = with_records(rig, RECORDS)
            agent.step(wait=0)
            rig.peer.open()
            agent.step(wait=0)
            rig.peer.complete(rig.peer.next_round - 1)
        assert ("cross entropy" in file.read_text()) is there
        assert "cross entropy" not in capsys.readouterr().err
    assert logger.handlers == []


def test_a_record_that_was_left_out_is_named_by_place(caplog: pytest.LogCaptureFixture) -> None:
    nothing = Records(np.empty((0, 1), np.float32), np.empty(0, np.int64))
    _tell("heart", Loaded(nothing, nothing, {Isolated.MISSING: 2}, ("row 3 (line 4): a value is missing",)))
    assert not [line for line in caplog.records if line.levelno >= logging.INFO]  # the study's rule, no fault
    _tell("heart", Loaded(nothing, nothing, {Isolated.BAD: 1}, ("a/7.png: the image does not decode",)))
    assert "records left out: 1 bad" in caplog.text
    assert "a/7.png: the image does not decode" in caplog.text

"""What a site chose to use: kept and shown at the site, and in nothing that leaves it."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from secureproto.cli.root import run
from secureproto.crypto.envelope import Envelope, unverified
from secureproto.crypto.sealing import SignedManifest
from secureproto.errors import Misconfigured
from secureproto.learning import choice
from secureproto.learning.choice import KINDS, UNTRAINED, Kind
from secureproto.wire.messages import PollRequest, UploadCore
from secureproto_client import choices, predict, settings
from secureproto_client.agent import Agent
from secureproto_client.logs import logging_to
from secureproto_client.pointer import Pointer
from support.site_peer import STUDY, Peer
from support.site_rig import RECORDS, SETTINGS, Rig, enrolled, with_records

MODELS = {kind: "1" if kind == "mixed" else f"1-{kind}" for kind in KINDS}
Make = Callable[..., Rig]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Makes sites whose study is over; `said` are more lines of their settings."""
    made: list[Rig] = []

    def site(said: str = "") -> Rig:
        rig = enrolled(tmp_path / str(len(made)), Peer())
        made.append(rig)
        rig.paths.settings.write_text(SETTINGS + said)
        over(rig, with_records(rig, RECORDS))
        return rig

    yield site
    for rig in made:
        rig.kill()


def over(rig: Rig, agent: Agent) -> Agent:
    """One round, which is the last."""
    agent.step(wait=0)
    number = rig.peer.open()
    agent.step(wait=0)
    rig.peer.complete(number, final=True)
    agent.step(wait=0)
    return agent


def choose(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "pick", lambda *_: kind)


def pointer(rig: Rig) -> Pointer:
    return Pointer(rig.start().site.models(STUDY))


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_chosen_is_in_use_and_a_person_may_still_decide(
    kind: Kind, make: Make, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    choose(kind, monkeypatch)
    rig, name = make(), MODELS[kind]
    here = ["--site-dir", str(rig.root)]
    assert run(["client", "status", *here, "-o", "json"]) == 0
    study = json.loads(capsys.readouterr().out)["studies"][0]
    assert (study["in_use"], study["chosen"]["model"]) == (name, name)
    assert set(study["chosen"]["log_loss"]) == set(KINDS)
    assert 0 < study["chosen"]["judged_on"] <= 10
    assert set(study["scores"]) == {"0", "1", "1-local", name}
    assert predict.predict(rig.paths, rig.root / "patients.csv").model == name
    assert run(["client", "model", "use", "0", *here]) == 0
    assert run(["client", "model", "use", "latest", *here]) == 0
    assert f"in use: {name}\n" in capsys.readouterr().err
    target = rig.root / "m.safetensors"
    assert run(["client", "model", "export", name, "--out", str(target), *here]) == 0
    assert (b'"private":"true"' in target.read_bytes()) is (kind != "mixed")
    assert ("PRIVATE" in capsys.readouterr().err) is (kind != "mixed")
    assert set(load_file(target)) > {"head.weight", "prototypes"}


def test_an_own_head_stands_on_the_extractor_as_received(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    choose("blend", monkeypatch)
    rig = make()
    store, schema = rig.start().site.models(STUDY), rig.peer.schema
    received, blend = store.load("1", schema), store.load("1-blend", schema)
    for name, array in received.shared.items():
        assert np.array_equal(blend.shared[name], array)
    assert not np.array_equal(blend.head["head.weight"], received.head["head.weight"])


def sent(rig: Rig) -> list[tuple[Any, ...]]:
    """Everything that reached the server after enrolment, but for keys, random ids and what is sealed."""
    found: list[tuple[Any, ...]] = []
    for request in rig.peer.requests:
        what: object = None
        if request.path.endswith("/poll"):
            what = unverified(request.body, PollRequest, Envelope)
        elif request.path.endswith("/manifest"):
            manifest = SignedManifest.parse(request.body)
            core = UploadCore.parse(manifest.core).model_dump(exclude={"upload_id", "sender_key", "recipient_key"})
            what = (core, manifest.ciphertext_length)
        path = request.path.rpartition("/body/")[0] or request.path
        if "/enrolments" not in path:
            found.append((request.method, path, sorted(request.headers), what))
    return found


def test_nothing_that_is_sent_depends_on_the_choice(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    seen, uploads = [], []
    for kind in (None, *KINDS):
        if kind is not None:
            choose(kind, monkeypatch)
        rig = make("\n[training]\nvalidation = 0\n" if kind is None else "")
        assert pointer(rig).current() == ("1-local" if kind is None else MODELS[kind])
        agent = rig.start()
        rig.peer.open()  # a further round: it starts from the version as received, whatever is in use
        agent.step(wait=0)
        agent.step(wait=0)
        rig.kill()
        seen.append(sent(rig))
        uploads.append([{name: array.tobytes() for name, array in rig.peer.opened(n).items()} for n in (0, 1)])
    assert len(seen[0]) > 8
    assert all(other == seen[0] for other in seen)
    assert all(other == uploads[0] for other in uploads)


@pytest.mark.parametrize("kind", KINDS)
def test_the_log_tells_of_it_at_debug_level_only(
    kind: Kind, tmp_path: Path, make: Make, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    choose(kind, monkeypatch)
    told = {}
    for level in ("info", "debug"):
        with logging_to(tmp_path / f"{level}.log", level):
            make()
        told[level] = (tmp_path / f"{level}.log").read_text()
    assert f"chose {MODELS[kind]} by" in told["debug"]
    assert "the model to use of version 1 is chosen" in told["info"]
    for text in (told["info"], capsys.readouterr().err):
        assert not [
            word for word in ("loss", "chose ", *(name for name in MODELS.values() if name != "1")) if word in text
        ]


def test_without_a_choice_the_locally_trained_model_is_used(make: Make) -> None:
    rig = make("\n[training]\nvalidation = 0\n")
    assert pointer(rig).current() == "1-local"
    assert not rig.paths.choices.exists()


def test_without_local_training_the_choice_is_among_the_others(make: Make) -> None:
    rig = make("\n[training]\nfine_tune = 0\n")
    assert set(choices.read(rig.paths.choices)[STUDY]["log_loss"]) == set(UNTRAINED)
    assert "1-local" not in rig.start().site.models(STUDY).names()


def test_the_choice_is_made_once(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    choose("own", monkeypatch)
    rig = make()
    before = rig.paths.choices.read_bytes()
    choose("blend", monkeypatch)
    agent = with_records(rig, RECORDS)
    agent.step(wait=0)
    assert agent.complete()
    assert rig.paths.choices.read_bytes() == before
    assert pointer(rig).current() == "1-own"


def test_a_choice_that_was_lost_is_made_again(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    choose("own", monkeypatch)
    rig = make()
    before = rig.paths.choices.read_bytes()
    rig.paths.choices.write_bytes(b"[1, 2")
    assert choices.read(rig.paths.choices) == {}
    with_records(rig, RECORDS).step(wait=0)
    assert rig.paths.choices.read_bytes() == before


def test_what_a_person_holds_stays_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    choose("own", monkeypatch)
    rig = enrolled(tmp_path / "site", Peer())
    agent = with_records(rig, RECORDS)
    agent.step(wait=0)
    Pointer(agent.site.models(STUDY)).use("0")
    over(rig, agent)
    assert pointer(rig).current() == "0"
    assert choices.of_newest(rig.paths.choices, rig.start().site.models(STUDY)) == "1-own"
    rig.kill()


def test_a_version_that_came_after_the_choice_is_the_newest(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    choose("own", monkeypatch)
    rig = make()
    assert choices.made(rig.paths.choices, STUDY, 1) == "1-own"
    assert choices.made(rig.paths.choices, STUDY, 2) is None
    assert pointer(rig).follow("7-own") == "1-local"  # a name that is not there is not used


def test_without_a_longer_training_two_candidates_are_missing(make: Make) -> None:
    rig = make("\n[training]\nlonger = 0\n")
    assert set(choices.read(rig.paths.choices)[STUDY]["log_loss"]) == {*UNTRAINED, "local"}


def test_the_longer_training_is_as_long_as_the_settings_say(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    choose("longer", monkeypatch)
    heads = [make(f"\n[training]\nlonger = {n}\n") for n in (2, 3, 10)] + [make()]
    loaded = [rig.start().site.models(STUDY).load("1-longer", rig.peer.schema).head["head.weight"] for rig in heads]
    assert np.array_equal(loaded[2], loaded[3])
    assert not np.array_equal(loaded[0], loaded[1])
    assert not np.array_equal(loaded[1], loaded[2])


@pytest.mark.parametrize("number", ["1", "-1", "1001", "2.5", "true"])
def test_a_number_of_trainings_that_is_none_is_refused(number: str, tmp_path: Path) -> None:
    path = tmp_path / "client.toml"
    path.write_text(f"[training]\nlonger = {number}\n")
    with pytest.raises(Misconfigured, match=r"client\.toml: training\.longer: "):
        settings.load(path)


@pytest.mark.parametrize("share", ["0.6", "0.01", "-0.2", "nan", "1", "true"])
def test_a_share_that_makes_no_folds_is_refused(share: str, tmp_path: Path) -> None:
    path = tmp_path / "client.toml"
    path.write_text(f"[training]\nvalidation = {share}\n")
    with pytest.raises(Misconfigured, match=r"client\.toml: training\.validation: must be 0, or from 0\.05 to 0\.5"):
        settings.load(path)


@pytest.mark.parametrize(("share", "value"), [("0", 0.0), ("0.5", 0.5), ("0.05", 0.05)])
def test_a_share_that_makes_folds(share: str, value: float, tmp_path: Path) -> None:
    path = tmp_path / "client.toml"
    path.write_text(f"[training]\nvalidation = {share}\n")
    assert settings.load(path).training.validation == value
    path.write_text("")
    assert settings.load(path).training.validation == 0.2

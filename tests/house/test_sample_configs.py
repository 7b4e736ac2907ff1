"""The settings in ops/config load, and the advanced ones name every key there is."""

import tomllib

import pytest

from secureproto_client import settings as client
from secureproto_server import settings as server
from support.tree import ROOT

CONFIG = ROOT / "ops" / "config"


@pytest.mark.parametrize("kind", ["basic", "advanced"])
def test_the_samples_load(kind: str) -> None:
    assert server.load(CONFIG / kind / "server.toml").site.port == 8443
    assert client.load(CONFIG / kind / "client.toml").study("heart").accept


def test_the_advanced_samples_name_every_key() -> None:
    told = tomllib.loads((CONFIG / "advanced" / "server.toml").read_text())
    assert set(told) == set(server.Settings.model_fields)
    told = tomllib.loads((CONFIG / "advanced" / "client.toml").read_text())
    assert set(told) == set(client.Settings.model_fields)
    for section, model in (("training", client.TrainingSettings), ("proxy", client.ProxySettings)):
        assert set(told[section]) == set(model.model_fields)
    studies = [set(study) for study in told["studies"].values()]
    assert set().union(*studies) == set(client.StudySettings.model_fields)

"""What is watched agrees with what is measured: catalogue, table, rules, rule tests and runbooks."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from secureproto.metrics.catalogue import CATALOGUE, Type
from secureproto.metrics.table import replaced
from support.tree import ROOT

OPS = ROOT / "ops"
RULES = [OPS / "prometheus" / name for name in ("alerts.yml", "recording.yml")]
RULE_TESTS = sorted((OPS / "prometheus" / "tests").glob("*.yml"))
ALERTS = re.findall(r"^ *- alert: (\w+)$", RULES[0].read_text(encoding="utf-8"), re.MULTILINE)


def promtool(*arguments: str) -> str:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not installed (Debian: prometheus)")
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def alert_text(name: str) -> str:
    text = RULES[0].read_text(encoding="utf-8")
    return re.split(r"^ *- alert: ", text.partition(f"- alert: {name}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]


def test_the_table_of_metrics_is_the_catalogue() -> None:
    text = (OPS / "README.md").read_text(encoding="utf-8")
    assert text == replaced(text), "run: python -m secureproto.metrics.table ops/README.md"


def test_there_are_alerts() -> None:
    assert len(ALERTS) == len(set(ALERTS)) >= 2


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_says_what_it_is_and_where_to_look(name: str) -> None:
    text = alert_text(name)
    for key in ("severity: ", "summary: ", "description: ", f"runbook_url: ops/runbooks/{name}.md"):
        assert key in text
    assert (OPS / "runbooks" / f"{name}.md").read_text(encoding="utf-8").startswith(f"# {name}\n")


def test_every_runbook_is_of_an_alert() -> None:
    assert {path.stem for path in (OPS / "runbooks").glob("*.md")} <= set(ALERTS)


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_is_tested_firing_and_silent(name: str) -> None:
    text = (OPS / "prometheus" / "tests" / f"{name}.yml").read_text(encoding="utf-8")
    cases = dict(re.findall(r"- name: (firing|silent)\b(.*?)(?=- name: |\Z)", text, re.DOTALL))
    assert f"alertname: {name}" in cases["firing"]
    assert "- exp_labels:" in cases["firing"]
    assert f"alertname: {name}" in cases["silent"]
    assert "exp_alerts: []" in cases["silent"]
    assert "- exp_labels:" not in cases["silent"]


@pytest.mark.parametrize("path", [*RULES, *RULE_TESTS], ids=lambda path: path.name)
def test_rules_use_only_metrics_and_labels_that_exist(path: Path) -> None:
    known = {metric.name for metric in CATALOGUE}
    known |= {
        metric.name + suffix
        for metric in CATALOGUE
        if metric.type is Type.HISTOGRAM
        for suffix in ("_bucket", "_sum", "_count")
    }
    text = re.sub(r"\w+:secureproto_\w+:\w+", "", path.read_text(encoding="utf-8"))  # recorded names
    used = set(re.findall(r"\bsecureproto_[a-z_]+(?=[{\[) ])", text))
    assert used <= known
    values = {value for metric in CATALOGUE for label in metric.labels for value in label.values}
    named = re.findall(r'\b(?:reason|outcome|result|phase)="(\w+)"', text)
    assert set(named) <= values


def test_promtool_accepts_rules_and_configuration() -> None:
    promtool("check", "config", str(OPS / "prometheus" / "prometheus.yml"))
    for path in RULES:
        assert "SUCCESS" in promtool("check", "rules", "--lint-fatal", str(path))


@pytest.mark.parametrize("path", RULE_TESTS, ids=lambda path: path.stem)
def test_promtool_passes_the_rule_tests(path: Path) -> None:
    promtool("test", "rules", str(path))

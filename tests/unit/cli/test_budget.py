"""`secureproto budget plan`: what it finds, prints and refuses."""

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from secureproto.cli.budget import plan
from secureproto.errors import BudgetExhausted, Misconfigured
from support.study_toml import dumps, private_table, put, tabular_table

PLAN = ("--epsilon", "8", "--delta", "1e-5", "--rounds", "100", "--sample-rate", "0.02", "--steps", "50")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(plan, arguments, standalone_mode=False)


def usage(result: Result) -> str:
    assert isinstance(result.exception, click.UsageError)
    assert result.exception.exit_code == 2
    return result.exception.format_message()


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "study.toml"
    path.write_bytes(dumps(private_table()))
    return path


def test_json() -> None:
    result = run(*PLAN, "--metrics-every", "10", "--records", "1000", "-o", "json")
    assert result.exception is None
    value = json.loads(result.stdout)
    assert [part["part"] for part in value["parts"]] == ["training", "prototypes", "metrics"]
    assert value["parts"][1]["share"] == pytest.approx(0.2, abs=1e-4)
    assert value["parts"][2]["epsilon"] == pytest.approx(1.76, rel=1e-3)
    total = value["total"]
    assert total["epsilon"] < total["filter_epsilon"] <= value["max_epsilon"] == 8.0
    assert (total["unit"], total["adjacency"], total["delta"], total["records"]) == (
        "record",
        "add_remove",
        1e-5,
        1000,
    )
    assert total["n_delta"] == pytest.approx(0.01)
    assert total["red"] is False


def test_lines() -> None:
    result = run(*PLAN, "-o", "jsonl")
    assert [json.loads(line)["part"] for line in result.stdout.splitlines()] == ["training", "prototypes", "total"]


def test_a_table_with_all_that_stands_beside_an_epsilon() -> None:
    result = run(*PLAN, "--release-every", "1", "--share-prototypes", "0.5", "--records", "9000")
    assert result.exception is None
    text = " ".join(result.stdout.split())
    for part in ("training", "prototypes", "50.0%", "total", "δ 1e-05, add_remove of one record, poisson sampling",
                 "dp-accounting", "odds of any outcome", "n·δ = 0.09", "gate: RDP at order"):  # fmt: skip
        assert part in text
    assert "over 0.1/n" not in text


def test_a_delta_too_large_for_the_records_is_red() -> None:
    arguments = (*PLAN, "--records", "10001")
    coloured = CliRunner().invoke(plan, arguments, standalone_mode=False, color=True)
    assert coloured.exception is None
    assert "\x1b[31mδ is over 0.1/n: n·δ = 0.1" in coloured.stdout


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--epsilon", "0"), ("--epsilon", "-1"), ("--epsilon", "nan"), ("--epsilon", "inf"), ("--epsilon", "1e9"),
        ("--epsilon", "x"), ("--delta", "0"), ("--delta", "1"), ("--delta", "nan"), ("--delta", "-inf"),
        ("--rounds", "0"), ("--rounds", "1.5"), ("--rounds", "99999999"), ("--steps", "0"), ("--sample-rate", "0"),
        ("--sample-rate", "1.01"), ("--sample-rate", "nan"), ("--share-prototypes", "1"), ("--release-every", "0"),
        ("--metrics-every", "-3"), ("--records", "0"),
    ],
)  # fmt: skip
def test_bad_numbers_are_refused_in_one_line(option: str, value: str) -> None:
    message = usage(run(*PLAN, option, value))
    assert option in message
    assert "\n" not in message


def test_what_is_missing_is_named() -> None:
    message = usage(run("--epsilon", "1", "--delta", "1e-5"))
    assert message == "missing --rounds, --sample-rate, --steps, or --study"


def test_a_plan_that_can_never_fit() -> None:
    result = run(*PLAN[2:], "--epsilon", "0.001")
    assert isinstance(result.exception, BudgetExhausted)
    assert result.exception.exit_code == 5
    assert result.exception.message == "no noise keeps epsilon 0.001 at delta 1e-05 over 100 rounds"


def test_a_study_that_keeps_its_budget(study: Path) -> None:
    study.write_bytes(dumps(put(private_table(), "rounds.total", 3)))
    result = run("--study", str(study), "-o", "json", "--records", "500")
    assert result.exception is None
    value = json.loads(result.stdout)
    assert [(part["part"], part["noise_multiplier"], part["releases"]) for part in value["parts"]] == [
        ("training", 1.5, 60), ("prototypes", 4.0, 1),
    ]  # fmt: skip
    assert value["total"]["filter_epsilon"] < value["max_epsilon"] == 8.0


def test_a_study_over_its_budget_is_shown_and_denied(study: Path) -> None:
    study.write_bytes(dumps(put(put(private_table(), "privacy.training.noise_multiplier", 3.0), "rounds.total", 400)))
    result = run("--study", str(study))
    assert "training" in result.stdout
    assert isinstance(result.exception, BudgetExhausted)
    assert result.exception.exit_code == 5
    assert result.exception.message.startswith("400 rounds cost more than max_epsilon_study 8: ")
    fitting = int(result.exception.message.rpartition(": ")[2].split()[0])
    assert 0 < fitting < 400


def test_a_study_whose_training_is_unprotected(study: Path) -> None:
    study.write_bytes(dumps(put(private_table(), "privacy.training", None)))
    result = run("--study", str(study), "-o", "json")
    assert isinstance(result.exception, BudgetExhausted)
    assert json.loads(result.stdout)["total"]["epsilon"] == "infinite"
    assert result.exception.message.endswith("0 of them fit")


def test_a_study_without_privacy(study: Path) -> None:
    study.write_bytes(dumps(tabular_table()))
    result = run("--study", str(study))
    assert isinstance(result.exception, Misconfigured)
    assert "no [privacy] section" in result.exception.message


def test_a_study_says_it_all(study: Path) -> None:
    assert usage(run("--study", str(study), "--sample-rate", "0.1")) == "--study says it all: leave out --sample-rate"

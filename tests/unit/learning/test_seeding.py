"""Derived generators, the fence around torch's global state, and who may import this room."""

import subprocess
import sys
from contextlib import suppress

import torch

from secureproto.learning.seeding import generator, reproducible, round_generator
from support.learning import tabular_study

PROBE = """
import importlib, pkgutil, sys
import secureproto.aggregation, secureproto.study
for package in (secureproto.aggregation, secureproto.study):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)
print([name for name in sys.modules if name == "torch" or name.startswith("secureproto.learning")])
"""


def draw(source: torch.Generator) -> list[int]:
    return torch.randint(2**31, (4,), generator=source).tolist()


def test_a_path_names_one_stream() -> None:
    assert draw(generator(1, "north", 2)) == draw(generator(1, "north", 2))
    streams = [generator(1, "north", 2), generator(1, "north", 3), generator(1, "south", 2), generator(2, "north", 2)]
    assert len({tuple(draw(stream)) for stream in streams}) == 4


def test_a_round_of_a_site_has_one_stream() -> None:
    study = tabular_study()
    first = draw(round_generator(study, site="north", round_number=2))
    assert first == draw(round_generator(study, site="north", round_number=2))
    others = [
        round_generator(study, site="north", round_number=3),
        round_generator(study, site="south", round_number=2),
        round_generator(tabular_study(model={"seed": 8}), site="north", round_number=2),
        round_generator(study.model_copy(update={"name": "other"}), site="north", round_number=2),
    ]
    assert first not in [draw(other) for other in others]


def test_the_fence_holds_after_an_error_too() -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    torch.manual_seed(5)
    expected = torch.rand(2)
    torch.manual_seed(5)
    with suppress(KeyError), reproducible(1):
        assert torch.get_num_threads() == 1
        torch.rand(9)
        raise KeyError
    assert torch.equal(torch.rand(2), expected)
    assert torch.get_num_threads() == 2
    torch.set_num_threads(threads)


def test_study_and_aggregation_never_load_this_room() -> None:
    found = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"

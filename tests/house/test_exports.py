"""What is offered is there: every module imports, every exported name exists, every verb is a command with a help."""

import importlib
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

import click
import pytest

from secureproto.cli.root import GROUP, NOUNS
from support.tree import PACKAGES, product_files

# `__main__` runs the program when it is imported, and a migration is imported by alembic alone
MODULES = [path for path in product_files() if path.stem != "__main__" and "migrations" not in path.parts]
VERBS = sorted(entry_points(group=GROUP), key=lambda entry: entry.name)


def name_of(path: Path) -> str:
    package = next(package for package in PACKAGES if path.is_relative_to(package))
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_imports_and_has_what_it_exports(path: Path) -> None:
    module = importlib.import_module(name_of(path))
    missing = [name for name in getattr(module, "__all__", ()) if not hasattr(module, name)]
    assert not missing


@pytest.mark.parametrize("verb", VERBS, ids=lambda entry: str(entry.name))
def test_a_verb_is_a_command_that_says_what_it_does(verb: EntryPoint) -> None:
    command = verb.load()
    assert isinstance(command, click.Command)
    assert command.help
    assert all(option.help for option in command.params if isinstance(option, click.Option))


def test_every_noun_has_its_line() -> None:
    nouns = {entry.name.rpartition(".")[0].replace(".", " ") or entry.name for entry in VERBS}
    assert nouns == set(NOUNS)

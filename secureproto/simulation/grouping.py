"""Experiments by their partition: those on one partition are compared with each other, and with no other.

A method is named by its label, for experiments that are alike (one study file, one number of rounds) hold runs of the
same methods: a run that two of them have done is one. Where they differ, a method of the only partition is named
DIRECTORY/LABEL; among several partitions only where two experiments on one partition hold the same label, so that a
label means one method on every partition.

Invariant: experiments of a group have the same records in the same parts of the same sites (equal digests).
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from secureproto.errors import Misconfigured
from secureproto.simulation.definition import Definition
from secureproto.simulation.disk import read_owned
from secureproto.simulation.experiment import Experiment
from secureproto.simulation.history import History

NAMED = 2  # files of the data by name
_ALIKE = ("study_digest", "rounds", "evaluate_every", "choice")  # of a definition, beside partition and records
_OF_A_KIND = ("pool_digest", "study_digest", "rounds", "choice")  # how often is scored changes no last score
SHORT = 8  # digits of a digest that is only to tell partitions apart


@dataclass(frozen=True, eq=False)
class Member:
    """An experiment with its histories, still under their own labels; `named[label]`: the name in the comparison."""

    experiment: Experiment
    histories: tuple[History, ...]
    named: Mapping[str, str]


@dataclass(frozen=True, eq=False)
class Group:
    """All experiments on one partition. `name`: short, unique; `heading`: options and start of the digest."""

    name: str
    heading: str
    members: tuple[Member, ...]

    @property
    def definition(self) -> Definition:
        """That of the first experiment: what concerns the partition is the same in all."""
        return self.members[0].experiment.definition

    @property
    def digest(self) -> str:
        """Of the partition."""
        return self.definition.partition_digest

    @property
    def kind(self) -> str:
        """What partitions must have in common for a mean over them: the records, and how runs are made."""
        definitions = [member.experiment.definition for member in self.members]
        return repr(sorted({tuple(getattr(one, key) for key in _OF_A_KIND) for one in definitions}))

    @property
    def histories(self) -> tuple[History, ...]:
        """All of them, under the names of the comparison; of a run that several have, the first that ended."""
        found: dict[tuple[str, int], History] = {}
        for member in self.members:
            for one in member.histories:
                key = (member.named[one.method], one.seed)
                if key not in found or (one.complete and not found[key].complete):
                    found[key] = one.model_copy(update={"method": key[0]})
        return tuple(found.values())

    def reference(self, wanted: str) -> str | None:
        """The name of the method that is meant by a name, a label, DIRECTORY/LABEL or a method's name; else None."""
        for exact in (True, False):
            for member in self.members:
                directory = name_of(member.experiment)
                for label, name in member.named.items():
                    meant = label if exact else label.partition(":")[0]
                    if wanted in (meant, f"{directory}/{meant}"):
                        return name
        return None


def name_of(experiment: Experiment) -> str:
    """What its directory is called, given as `.` or in full."""
    return experiment.directory.resolve().name


def grouped(experiments: Sequence[Experiment]) -> list[Group]:
    """The experiments by partition, in the order in which they came; their partition files were verified.

    Raises:
        Misconfigured: two of the directories have one name.
        IntegrityBroken: a file of one is damaged.
    """
    if len({name_of(experiment) for experiment in experiments}) < len(experiments):
        raise Misconfigured("compare: two of the directories have one name", hint="rename one: names tell them apart")
    found: dict[tuple[str, str], list[Experiment]] = {}
    for experiment in experiments:
        definition = experiment.definition
        found.setdefault((definition.pool_digest, definition.partition_digest), []).append(experiment)
    names = _names([members[0].definition for members in found.values()])
    return [
        Group(name, _heading(members[0]), tuple(_members(members, alone=len(found) == 1)))
        for name, members in zip(names, found.values(), strict=True)
    ]


def _members(experiments: Sequence[Experiment], *, alone: bool) -> Iterator[Member]:
    histories = [tuple(experiment.histories()) for experiment in experiments]
    labels = [list(dict.fromkeys(one.method for one in runs)) for runs in histories]
    held = Counter(label for own in labels for label in own)
    alike = len({tuple(getattr(one.definition, key) for key in _ALIKE) for one in experiments}) == 1
    apart = alone and len(experiments) > 1
    for experiment, runs, own in zip(experiments, histories, labels, strict=True):
        prefix = f"{name_of(experiment)}/"
        named = {label: prefix + label if not alike and (apart or held[label] > 1) else label for label in own}
        yield Member(experiment, runs, named)


def _heading(experiment: Experiment) -> str:
    definition = experiment.definition
    told = ", ".join(_options(experiment.directory / "partition.json"))
    return f"{_data(definition)}: {told} (digest {definition.partition_digest[:SHORT]})"


def _options(path: Path) -> Iterator[str]:
    """Scheme and options of a partition that was verified before, for a person."""
    content = json.loads(read_owned(path))
    options, first = content["options"], content["partitions"][0]
    yield content["scheme"]
    yield f"{len(first['sites'])} sites"
    if options["per_site"] is not None:
        yield f"{options['per_site']} training records a site"
    given = options["split"] == "given"
    yield "the data's own test part" if given else f"stratified test part of {options['test_share']}"
    if float(options["validation_share"]):
        yield f"{options['validation_share']} of the training records for validation"
    yield "another split for each seed" if content["repeated"] else f"partition seed {first['seed']}"


def _names(definitions: Sequence[Definition]) -> list[str]:
    """The schemes; with the data where these differ, with the digest where a scheme was drawn several times."""
    several = len({definition.pool_digest for definition in definitions}) > 1
    names = [(f"{_data(one)} " if several else "") + one.partition for one in definitions]
    return [
        name if names.count(name) == 1 else f"{name} {one.partition_digest[:SHORT]}"
        for name, one in zip(names, definitions, strict=True)
    ]


def _data(definition: Definition) -> str:
    """The names of the data without their folders: the first two, and how many more there are."""
    names = [Path(name).name or name for name in definition.data]
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")

"""From experiments to the report's inputs: what was compared, on what, with which settings."""

from collections.abc import Sequence
from dataclasses import fields

from secureproto import __version__
from secureproto.simulation.baselines.catalogue import make
from secureproto.simulation.definition import Definition
from secureproto.simulation.experiment import Experiment
from secureproto.simulation.grouping import Group, Member, name_of
from secureproto.simulation.heart.published import PUBLISHED, published_on
from secureproto.simulation.history import method_name
from secureproto.simulation.report.page import OnPartition, Report, render
from secureproto.simulation.results import Part
from secureproto.study.schema import StudyFile

DIGITS = 16  # of a digest, to look it up by

_SAME = (
    ("study_digest", "study files"),
    ("rounds", "numbers of rounds"),
    ("evaluate_every", "rounds between scores"),
    ("choice", "ways in which sites choose what they use"),
)


def page_of(parts: Sequence[Part], groups: Sequence[Group]) -> str:
    """The HTML page of experiments: a part for each group."""
    members = [member for group in groups for member in group.members]
    titles = " and ".join(dict.fromkeys(member.experiment.definition.study for member in members))
    several = len(parts) > 1
    shown = [_shown(part, group, several=several) for part, group in zip(parts, groups, strict=True)]
    facts = {"page made by": f"secureproto {__version__}"}
    if several:
        facts = {"partitions": str(len(parts)), **facts}
    return render(Report(f"Simulation of {titles}", shown, facts, _differing(members)))


def _shown(part: Part, group: Group, *, several: bool) -> OnPartition:
    facts: dict[str, str] = {}
    settings: dict[str, dict[str, object]] = {}
    for member in group.members:
        directory = name_of(member.experiment)
        found = {**({"directory": directory} if several else {}), **_facts(member.experiment)}
        if len(group.members) > 1:
            found = {f"{directory} {key}": text for key, text in found.items() if key != "directory"}
        facts.update(found)
        study = member.experiment.study()
        settings.update({shown: settings_of(label, study) for label, shown in member.named.items()})
    drawn = next(
        (path for one in group.members if (path := one.experiment.directory / "partition.svg").exists()), None
    )
    picture = None if drawn is None else drawn.read_text(encoding="utf-8")
    natural = all(published_on(member.experiment.definition) for member in group.members)
    return OnPartition(part, facts, settings, picture, PUBLISHED if natural else {})


def _differing(members: Sequence[Member]) -> list[str]:
    """A warning where the same label need not mean the same thing in all experiments."""
    definitions: list[Definition] = [member.experiment.definition for member in members]
    found = [what for key, what in _SAME if len({getattr(one, key) for one in definitions}) > 1]
    return [f"These experiments differ in more than methods and partition: {', '.join(found)}."] if found else []


def _facts(experiment: Experiment) -> dict[str, str]:
    definition = experiment.definition
    return {
        "study": f"{definition.study} (digest {definition.study_digest[:DIGITS]}…)",
        "data": f"{', '.join(definition.data)} (digest {definition.pool_digest[:DIGITS]}…)",
        "partition": f"{definition.partition} (digest {definition.partition_digest[:DIGITS]}…)",
        "test part": definition.split + (", another for each seed" if definition.redrawn_ratio else ""),
        "rounds": str(definition.rounds),
    }


def settings_of(label: str, study: StudyFile) -> dict[str, object]:
    """A method's hyper-parameters: those of its training, and its own."""
    method = make(label, study)
    training = method.study.training.model_dump(
        exclude_none=True, exclude={"alignment_weight", "alignment_warmup_rounds"}
    )
    own = {field.name: getattr(method, field.name) for field in fields(method) if field.name != "study"}  # type: ignore[arg-type]
    if method_name(label) == "protoaligned":
        ours = method.study.training.model_dump(include={"alignment_weight", "alignment_warmup_rounds"})
        own = {**ours, **method.study.relation.model_dump(exclude_none=True), **method.study.prototypes.model_dump()}
    return {**training, **own}

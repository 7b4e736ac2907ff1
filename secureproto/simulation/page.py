"""From experiments to the report's inputs: what was compared, on what, with which settings."""

from collections.abc import Sequence
from dataclasses import fields

from secureproto import __version__
from secureproto.simulation.baselines.catalogue import make
from secureproto.simulation.experiment import Experiment
from secureproto.simulation.history import History
from secureproto.simulation.report.page import Report, render
from secureproto.simulation.results import Summary
from secureproto.study.schema import StudyFile

NOT_PAIRED = (
    "These experiments stand on different partitions, so their test records differ: they are shown side by side, and "
    "no difference between methods is taken. Each directory's own report has its comparisons."
)


def page_of(summary: Summary, histories: Sequence[History], experiments: Sequence[Experiment]) -> str:
    """The HTML page of one experiment, or of several side by side (methods named DIRECTORY/METHOD)."""
    named = len(experiments) > 1
    facts: dict[str, str] = {}
    settings: dict[str, dict[str, object]] = {}
    partitions: dict[str, str] = {}
    for experiment in experiments:
        name = experiment.directory.name if named else ""
        facts.update({f"{name} {key}".strip(): value for key, value in _facts(experiment).items()})
        drawn = experiment.directory / "partition.svg"
        if drawn.exists():
            partitions[name] = drawn.read_text(encoding="utf-8")
        settings.update(_settings(experiment, f"{name}/" if named else "", summary))
    titles = " and ".join(dict.fromkeys(experiment.definition.study for experiment in experiments))
    facts["program"] = f"secureproto {__version__}"
    notes = [NOT_PAIRED] if len({one.definition.partition_digest for one in experiments}) > 1 else []
    return render(Report(f"Simulation of {titles}", summary, histories, facts, settings, partitions, notes))


def _facts(experiment: Experiment) -> dict[str, str]:
    definition = experiment.definition
    return {
        "study": f"{definition.study} (digest {definition.study_digest[:16]}…)",
        "data": f"{', '.join(definition.data)} (digest {definition.pool_digest[:16]}…)",
        "partition": f"{definition.partition} (digest {definition.partition_digest[:16]}…)",
        "test part": definition.split + (", another for each seed" if definition.redrawn_ratio else ""),
        "rounds": str(definition.rounds),
    }


def _settings(experiment: Experiment, prefix: str, summary: Summary) -> dict[str, dict[str, object]]:
    study = experiment.study()
    labels = [method.label for method in summary.methods if method.label.startswith(prefix)]
    return {label: settings_of(label.removeprefix(prefix), study) for label in labels}


def settings_of(label: str, study: StudyFile) -> dict[str, object]:
    """A method's hyper-parameters: those of its training, and its own."""
    method = make(label, study)
    training = method.study.training.model_dump(
        exclude_none=True, exclude={"alignment_weight", "alignment_warmup_rounds"}
    )
    own = {field.name: getattr(method, field.name) for field in fields(method) if field.name != "study"}  # type: ignore[arg-type]
    if label.partition(":")[0] == "protoaligned":
        ours = method.study.training.model_dump(include={"alignment_weight", "alignment_warmup_rounds"})
        own = {**ours, **method.study.relation.model_dump(exclude_none=True), **method.study.prototypes.model_dump()}
    return {**training, **own}

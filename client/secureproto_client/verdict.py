"""One honest sentence on whether a model is better than own data alone: better, worse, or it cannot be told."""

from collections.abc import Mapping, Sequence, Sized

from secureproto.simulation.statistics import Interval

Gains = Mapping[str, Interval | None]


def verdict(model: str, gains: Gains, rows: int, *, uncounted: Gains | None = None) -> str:
    """`gains`: by measure what the model has over own data only, on `rows` held-out rows.

    Better or worse is said where a whole 95 % interval lies on one side of zero, and of no other measure.
    `uncounted`: measures for which the rows are too few. None of them makes it better or worse; but that nothing
    differs is said only where they do not either.
    """
    known, beside = _scored(gains), _scored(uncounted or {})
    better = [measure for measure, gain in known.items() if gain.sign > 0]
    worse = [measure for measure, gain in known.items() if gain.sign < 0]
    open_ = [measure for measure in known if measure not in better + worse]
    held_out = f"{rows} held-out row{'' if rows == 1 else 's'}"
    if known and all(map(_is_zero, (*known.values(), *beside.values()))):
        measures = _named([*known, *beside])
        return f"Joining makes no difference on {held_out}: {model} and own data only have one {measures}."
    if not better and not worse:
        compared = f"{model} against own data only: {_not_told(known, beside)}"
        return f"Whether joining is better cannot be told from {held_out} ({compared})."
    word = "better and worse" if better and worse else "better" if better else "worse"
    told = "; ".join(_told(measure, known[measure]) for measure in better + worse)
    rest = f"; {_named(open_)} cannot be told apart" if open_ else ""
    return f"Joining is {word} ({model} against own data only, {held_out}: {told}{rest})."


def _scored(gains: Gains) -> dict[str, Interval]:
    return {measure: gain for measure, gain in gains.items() if gain is not None}


def _is_zero(gain: Interval) -> bool:
    """Whether no row and no draw of the rows makes a difference."""
    return gain.mean == gain.low == gain.high == 0


def _not_told(known: Mapping[str, Interval], beside: Mapping[str, Interval]) -> str:
    """What there is to say where it is neither better nor worse."""
    if not known or not all(map(_is_zero, known.values())):
        return "; ".join(_told(measure, gain) for measure, gain in known.items())
    differing = [measure for measure, gain in beside.items() if gain.mean or gain.low or gain.high]
    same = f"{_named(list(known))} {_verb(known, 'is', 'are')} the same on every row"
    if not differing:
        return same  # another is scored, and has no interval
    return f"{same}; {_named(differing)} {_verb(differing, 'differs', 'differ')}, by too few rows of a class to count"


def _told(measure: str, gain: Interval) -> str:
    if gain.low is None or gain.high is None:
        return f"{_name(measure)} {gain.mean:+.3f}"
    return f"{_name(measure)} {gain.mean:+.3f}, 95 % interval {gain.low:+.3f} to {gain.high:+.3f}"


def _named(measures: Sequence[str]) -> str:
    *others, last = map(_name, measures)
    return f"{', '.join(others)} and {last}" if others else last


def _verb(measures: Sized, of_one: str, of_several: str) -> str:
    return of_one if len(measures) == 1 else of_several


def _name(measure: str) -> str:
    return "AUC" if measure == "auc" else measure.replace("_", " ")

"""One honest sentence on whether a model is better than own data alone: better, worse, or it cannot be told."""

from collections.abc import Mapping

from secureproto.simulation.statistics import Interval

Gains = Mapping[str, Interval | None]


def verdict(model: str, gains: Gains, rows: int) -> str:
    """`gains`: by measure what the model has over own data only, on `rows` held-out rows.

    Better or worse is said where a whole 95 % interval lies on one side of zero, and of no other measure.
    """
    known = {measure: gain for measure, gain in gains.items() if gain is not None}
    better = [measure for measure, gain in known.items() if gain.sign > 0]
    worse = [measure for measure, gain in known.items() if gain.sign < 0]
    open_ = [measure for measure in known if measure not in better + worse]
    if known and all(gain.mean == gain.low == gain.high == 0 for gain in known.values()):
        measures = " and ".join(map(_name, known))
        return f"Joining makes no difference on {rows} held-out rows: {model} and own data only have one {measures}."
    if not better and not worse:
        told = "; ".join(_told(measure, known[measure]) for measure in open_)
        compared = f"{model} against own data only: {told}"
        return f"Whether joining is better cannot be told from {rows} held-out rows ({compared})."
    word = "better and worse" if better and worse else "better" if better else "worse"
    told = "; ".join(_told(measure, known[measure]) for measure in better + worse)
    rest = f"; {' and '.join(map(_name, open_))} cannot be told apart" if open_ else ""
    return f"Joining is {word} ({model} against own data only, {rows} held-out rows: {told}{rest})."


def _told(measure: str, gain: Interval) -> str:
    if gain.low is None or gain.high is None:
        return f"{_name(measure)} {gain.mean:+.3f}"
    return f"{_name(measure)} {gain.mean:+.3f}, 95 % interval {gain.low:+.3f} to {gain.high:+.3f}"


def _name(measure: str) -> str:
    return "AUC" if measure == "auc" else measure.replace("_", " ")

"""Plots of sites: what a site uses stands beside what it trains, scores end at 0 and 1, and labels do not touch."""

from itertools import pairwise

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection

from secureproto.simulation.history import CHOSEN, RECEIVED, TUNED
from secureproto.simulation.report import render
from secureproto.simulation.report.curves import learning_curves
from secureproto.simulation.report.drawing import looks
from secureproto.simulation.report.gains import gained, gains, panels
from secureproto.simulation.report.site_tables import by_site, gains_by_site, tallies
from secureproto.simulation.report.sites import Marks, dots, scores_by_site
from secureproto.simulation.results import Comparison, Summary, summarise
from secureproto.simulation.statistics import MEASURES, Measure
from support.histories import drawn, history, measured, record, scores
from support.pages import Page, report

NAMES = ("local", "fedavg", "protoaligned")


def some(sites: int = 4, methods: tuple[str, ...] = NAMES) -> Summary:
    return summarise(drawn([f"site-{i:02d}" for i in range(sites)], methods, rounds=1, every=1))


@pytest.mark.parametrize("sites", [4, 41])
def test_what_a_site_uses_is_drawn_beside_what_it_trains(sites: int) -> None:
    summary = some(sites)
    (plot,) = scores_by_site(summary, looks(NAMES, "local"), "accuracy")
    assert plot.title == "Accuracy of each site after local training and as chosen"
    assert ">protoaligned</text>" in plot.svg
    assert ">protoaligned, as chosen</text>" in plot.svg
    assert "Hollow" in plot.reading
    without = some(sites, NAMES[:2])
    (plot,) = scores_by_site(without, looks(NAMES, "local"), "accuracy")
    assert plot.title == "Accuracy of each site after local training"
    assert "chosen" not in plot.svg + plot.reading


@pytest.mark.parametrize("sites", [5, 42])
@pytest.mark.parametrize(("measure", "name"), [("balanced_accuracy", "Balanced accuracy"), ("auc", "AUC")])
def test_every_measure_has_its_drawing(sites: int, measure: Measure, name: str) -> None:
    """The last site has no AUC: it has no row, and stops nothing."""
    summary = some(sites)
    (plot,) = scores_by_site(summary, looks(NAMES, "local"), measure, "p-")
    shown = sites - 1 if measure == "auc" else sites
    assert plot.title == f"{name} of each site after local training and as chosen"
    assert f"{name} on test records of {shown} sites" in plot.alternative
    assert "1/records" not in plot.reading
    rows = [f">site-{i:02d} " in plot.svg for i in range(sites)]
    assert sum(rows) == (shown if sites <= 40 else 0)
    text = render(report(drawn([f"s{i}" for i in range(sites)], NAMES, (0, 1), rounds=1, every=1)))
    assert text.count(f"{name} of each site after local training and as chosen</summary>") == 1


@pytest.mark.parametrize(("sites", "where"), [(200, "the table below"), (201, "results.csv")])
def test_a_method_that_is_left_out_stands_where_it_is_said(sites: int, where: str) -> None:
    summary = some(sites, ("majority", *NAMES[:2]))
    (plot,) = scores_by_site(summary, looks(summary_labels(summary), "local"), "accuracy")
    assert f"it stands in {where}." in plot.reading
    assert (by_site(summary, "accuracy") is not None) is (where == "the table below")


def summary_labels(summary: Summary) -> list[str]:
    return [method.label for method in summary.methods]


def test_where_no_site_has_a_measure_there_is_no_drawing_of_it() -> None:
    found = summarise([history("local", 0, record(0, {TUNED: {"a": measured(0.5, auc=None)}}))])
    assert scores_by_site(found, looks(["local"], None), "auc") == []


def test_a_mark_lies_where_the_measure_is() -> None:
    at = {TUNED: {"a": measured(0.2, auc=0.7), "b": measured(0.4, auc=None), "c": measured(0.6, auc=0.9)}}
    (method,) = summarise([history("local", 0, record(0, at))]).methods
    marks = [Marks("local", "local", TUNED, method.points[TUNED], looks(["local"], None)["local"])]
    expected: dict[Measure, tuple[str, list[float]]] = {
        "accuracy": ("accuracy", [0.2, 0.4, 0.6]),
        "auc": ("AUC", [0.7, 0.9]),
    }
    for measure, (label, values) in expected.items():
        (axes,) = dots(marks, ["a", "b", "c"], measure).axes
        assert list(np.asarray(axes.lines[0].get_xdata())) == values
        assert axes.get_xlabel() == label


def test_bars_and_axes_of_scores_end_at_0_and_1() -> None:
    accuracy = {"a": (0.0, 0.3, 0.1), "b": (1.0, 0.7, 1.0)}
    histories = [
        history("local", seed, record(0, {TUNED: {site: measured(at[seed]) for site, at in accuracy.items()}}))
        for seed in range(3)
    ]
    (method,) = summarise(histories).methods
    at = method.points[TUNED]
    drawn_at = dots([Marks("local", "local", TUNED, at, looks(["local"], None)["local"])], ["a", "b"], "accuracy")
    (axes,) = drawn_at.axes
    bars = [part for bar in axes.collections if isinstance(bar, LineCollection) for part in bar.get_segments()]
    ends = np.array(bars)[:, :, 0]
    assert ends.min() == 0
    assert ends.max() == 1
    assert at.sites["a"]["accuracy"].mean - (at.sites["a"]["accuracy"].deviation or 0) < 0  # it would run over
    assert axes.get_xlim() == (0, 1)


def test_gains_are_drawn_by_every_measure_and_of_what_a_site_uses() -> None:
    summary = some()
    plots = gains(summary)
    assert [plot.key for plot in plots] == ["gains-accuracy", "gains-balanced-accuracy", "gains-auc"]
    for plot, name in zip(plots, ("accuracy", "balanced accuracy", "AUC"), strict=True):
        assert plot.title == f"Gain in {name} over local at each site, after local training and as chosen"
        assert ">protoaligned, as chosen</text>" in plot.svg
        assert f">difference in {name}</text>" in plot.svg
        assert "against local after local training" in plot.reading
        assert ("not defined" in plot.reading) is (name == "AUC")


def test_the_table_of_gains_has_every_site_and_interval() -> None:
    summary = some()
    for measure in MEASURES:
        table = gains_by_site(summary, measure)
        assert table is not None
        assert table.columns == ("site", "fedavg", "protoaligned", "protoaligned, as chosen")
        found = next(c for c in gained(summary, measure) if c.point == CHOSEN)
        interval = found.sites["site-01"]
        cell = table.rows[1][-1]
        assert cell.text == f"{interval.mean:+.3f}".replace("-", "−")
        assert cell.small == f"[{interval.low:+.3f}, {interval.high:+.3f}]".replace("-", "−")
        assert (table.rows[-1][-1].text == "–") is (measure == "auc")
    assert gains_by_site(summarise(drawn(methods=("local",), rounds=1)), "accuracy") is None


def test_sites_that_gain_and_lose_are_counted_by_every_measure() -> None:
    scores = {"local": (0.5, 0.6), "fedavg": (0.7, 0.4)}  # better by accuracy, worse by balanced accuracy
    histories = [
        history(m, seed, record(0, {TUNED: {"a": measured(at + seed * at / 100, balanced=other - seed * other / 100),
                                            "b": measured(0.5, balanced=0.5, auc=None)}}))
        for m, (at, other) in scores.items() for seed in range(3)
    ]  # fmt: skip
    table = tallies(summarise(histories))
    assert table is not None
    assert table.columns == ("method", "accuracy", "balanced accuracy", "AUC")
    (row,) = table.rows
    assert [cell.text for cell in row] == [
        "fedavg", "1 better, 0 worse, 1 open", "0 better, 1 worse, 1 open", "0 better, 0 worse, 1 open",
    ]  # fmt: skip
    assert "(1 of 2 sites)" in row[-1].small


@pytest.mark.parametrize("methods", [2, 12])
def test_the_gains_of_few_methods_are_open_and_of_many_folded(methods: int) -> None:
    names = ("local", *(f"fedprox:mu={i}" for i in range(methods)))
    page = render(report(drawn(("a", "b"), names, (0,), rounds=1, every=1)))
    section = page[page.index('<section id="gain"') : page.index('<section id="best"')]
    first, second = (section.index(f'id="figure-gains-{name}"') for name in ("accuracy", "balanced-accuracy"))
    assert first < section.index("<details>")
    assert (second < section.index("<details>")) is (methods == 2)
    assert not Page(page).broken


@pytest.mark.parametrize("scale", [0.0002, 0.013, 0.021, 0.05, 0.11, 0.24, 0.49])
@pytest.mark.parametrize("sites", [4, 20])
def test_labels_along_the_axis_of_gains_do_not_touch(scale: float, sites: int) -> None:
    drawn_at = panels(_spread(scale, sites))
    FigureCanvasAgg(drawn_at).draw()  # type: ignore[no-untyped-call]  # matplotlib's
    for axes in drawn_at.axes:
        low, high = axes.get_xlim()
        ticks = zip(axes.get_xticks(), axes.get_xticklabels(), strict=True)
        boxes = [label.get_window_extent() for place, label in ticks if low <= place <= high]
        assert len(boxes) >= 2
        assert all(left.x1 + 4 < right.x0 for left, right in pairwise(boxes))


def _spread(scale: float, sites: int) -> list[Comparison]:
    """Three methods that gain from −scale to +scale."""
    names = [f"a-site-of-eighteen{i:02d}" for i in range(sites)]
    even = np.linspace(-scale, scale, sites)
    points = {"local": np.zeros(sites), "fedavg": even, "fedper": even, "ditto": even}
    histories = [
        history(m, 0, record(0, {TUNED: {s: measured(0.5 + at) for s, at in zip(names, points[m], strict=True)}}))
        for m in points
    ]
    return gained(summarise(histories), "accuracy")


def test_learning_curves_have_the_auc_where_there_is_one() -> None:
    def titles(auc: float | None) -> str:
        rounds = [record(r, {p: {"a": measured(0.5, auc=auc)} for p in (RECEIVED, TUNED)}) for r in range(3)]
        (plot,) = learning_curves({"local": [history("local", 0, *rounds)]}, looks(["local"], None))
        return plot.svg + plot.alternative

    for text in ("AUC, as received", "AUC, after local training", "accuracy, balanced accuracy and AUC of the sites"):
        assert text in titles(0.7)
    assert "AUC" not in titles(None)
    assert "balanced accuracy, as received" in titles(None)


def test_the_band_of_a_learning_curve_ends_at_1() -> None:
    runs = [
        history("local", seed, *(record(r, {TUNED: {"a": measured(at)}}) for r in range(2)))
        for seed, at in enumerate((1.0, 1.0, 0.4))
    ]
    (plot,) = learning_curves({"local": runs}, looks(["local"], None))
    ticks = [float(text) for text in Page(plot.svg).texts["text"] if text[:2] in ("0.", "1.")]
    assert max(ticks) <= 1


def test_curves_of_rounds_that_take_a_share_of_the_sites_say_so() -> None:
    few = [record(0, {RECEIVED: scores({"a": 0.9})}), record(1, {RECEIVED: scores({"a": 0.9, "b": 0.3})})]
    everyone = [record(n, {RECEIVED: scores({"a": 0.9, "b": 0.3})}) for n in (0, 1)]
    for rounds, said in ((few, True), (everyone, False)):
        (plot,) = learning_curves({"local": [history("local", 0, *rounds)]}, looks(["local"], None))
        assert ("A round takes a share of the sites" in plot.reading) == said


def test_a_method_whose_name_begins_with_an_underscore_is_in_the_legend() -> None:
    """matplotlib leaves such labels out; a directory may be called so."""
    runs = {"_old/local": [history("_old/local", 0, *(record(n, {RECEIVED: scores({"a": 0.5})}) for n in (0, 1)))]}
    (plot,) = learning_curves(runs, looks(list(runs), None))
    assert "_old/local" in plot.svg

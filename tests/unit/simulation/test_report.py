"""The page: whole for every shape of experiment, closed to the network, safe with any name, true to its numbers."""

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secureproto.simulation.history import RECEIVED, TEST, TUNED, History
from secureproto.simulation.report import OnPartition, Report, render
from secureproto.simulation.report.costs import readable
from secureproto.simulation.report.drawing import looks, shortened, wrapped
from secureproto.simulation.report.findings import findings
from secureproto.simulation.report.relations import relation_maps
from secureproto.simulation.report.series import mean_score, of_run, of_training, over_rounds
from secureproto.simulation.report.words import counting, short_tally, standing, tally
from secureproto.simulation.results import Part, summarise
from support.histories import METHODS, drawn, history, measured, record
from support.pages import PARTITION, Page, on_partition, report, whole

CHROMIUM = shutil.which("chromium")
EVIL = '<script>alert("1")</script> $x_1$ & é'


def test_it_is_one_closed_document() -> None:
    text = whole()
    page = Page(text)
    assert not page.broken
    assert not page.open
    assert text.startswith("<!DOCTYPE html>")
    assert not re.findall(r"https?://", text)
    assert not page.all("script")
    assert not page.all("link")
    (policy,) = (meta["content"] for meta in page.all("meta") if "http-equiv" in meta)
    assert "default-src 'none'" in policy
    sources = [a[name] for _, a in page.tags for name in ("src", "href", "xlink:href") if name in a]
    assert sources
    assert all(source.startswith(("#", "data:")) for source in sources)
    assert page.all("html")[0]["lang"] == "en"


def test_its_links_and_ids_meet() -> None:
    page = Page(whole())
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    targets = [a["href"][1:] for _, a in page.tags if a.get("href", "").startswith("#")]
    named = [name for _, a in page.tags for name in a.get("aria-labelledby", "").split()]
    clips = re.findall(r"url\(#([^)]+)\)", whole())
    assert clips
    assert set(targets) | set(named) | set(clips) <= set(ids)


def test_every_part_is_there_and_reached_by_the_navigation() -> None:
    page = Page(whole())
    links = {attributes["href"] for attributes in page.all("a")}
    parts = {attributes["id"] for attributes in page.all("section")}
    assert parts == {
        "summary", "curves", "by-site", "gain", "choices", "best", "relation", "local-training", "traffic",
        "partition", "failures", "settings", "glossary",
    }  # fmt: skip
    assert {f"#{part}" for part in parts} <= links
    for text in (
        "natural, 9b2c",
        "A note.",
        "page made by",
        "learning_rate = 0.05",
        "Nadeau and Bengio",
        "rounds to accuracy 0.7",
    ):
        assert text in whole()
    assert "fedpac, seed 1: training diverged: the alignment term is no longer finite" in whole()


def test_every_picture_says_what_it_is() -> None:
    page = Page(whole())
    drawings = page.all("svg")
    assert len(drawings) == 11  # learning, sites and gains by three measures, two relations, training, bytes
    assert all(drawing["role"] == "img" and drawing["aria-labelledby"] for drawing in drawings)
    assert len(page.texts["desc"]) == len(page.texts["title"]) - 1 == len(drawings)
    assert all(text.strip() for text in page.texts["desc"])
    assert len(page.all("figcaption")) == len(page.all("figure")) == len(drawings) + 1
    assert all(image["alt"] for image in page.all("img"))
    assert all(header.get("scope") for header in page.all("th"))


def test_equal_reports_are_equal_bytes() -> None:
    histories = drawn(methods=("fedpac",), seeds=(0, 1), rounds=2, every=1)
    assert render(report(histories)) == render(report(histories))


def test_no_name_is_taken_for_markup_or_a_formula() -> None:
    sites, methods = (f"a {EVIL}", f"b {EVIL}"), ("local", f"fedpac:{EVIL}")
    histories = drawn(sites, methods, (0, 1), rounds=2, every=1, failing={methods[1]: 1})
    summary = summarise(histories, reference="local")
    one = OnPartition(Part(EVIL, EVIL, EVIL, EVIL, summary, tuple(histories)), {EVIL: EVIL}, {EVIL: {EVIL: EVIL}})
    two = OnPartition(Part("b", EVIL, EVIL, EVIL, summary, tuple(histories)), picture=PARTITION)
    text = render(Report(EVIL, [one, two], {EVIL: EVIL}, [EVIL]))
    page = Page(text)
    assert not page.all("script")
    assert not page.broken
    assert "<script" not in text
    assert "$x_1$" in "".join(page.texts["text"])  # in the drawings, as it is written
    assert {attributes["id"].isascii() for _, attributes in page.tags if "id" in attributes} == {True}


@pytest.mark.parametrize(
    ("sites", "methods", "seeds"),
    [(1, METHODS[:1], (0,)), (2, METHODS[1:2], (0, 1)), (42, METHODS[1:3], (0,)), (13, METHODS[:7], (0, 1))],
    ids=["one of all", "one method", "many sites", "many methods"],
)
def test_every_shape_of_experiment_has_a_page(sites: int, methods: tuple[str, ...], seeds: tuple[int, ...]) -> None:
    names = [f"site-{i:03d}" for i in range(sites)]
    histories = drawn(names, methods, seeds, rounds=2, every=1)
    page = Page(render(report(histories)))
    assert not page.broken
    assert ("gain" in {part["id"] for part in page.all("section")}) is (len(methods) > 1)
    drawn_names = any(names[0] in text for text in page.texts["text"])
    assert drawn_names is (sites <= 40)
    assert ("One seed" in "".join(page.texts["p"])) is (len(seeds) == 1)


@pytest.mark.parametrize(
    "histories",
    [
        [],
        [history("local", 0, failure="diverged")],
        [history("local", 0, record(0, {TUNED: {"a": measured(0.5, auc=None)}}))],
        [history("local", 0, record(0, {RECEIVED: {"a": measured(0.5)}}))],
        [history("local", 0, record(0, {}, fields={"a": {"cross_entropy": float("nan")}}))],
    ],
    ids=["nothing", "only failed", "no AUC", "received only", "no score"],
)
def test_what_is_missing_makes_no_hole(histories: list[History]) -> None:
    page = Page(render(report(histories)))
    assert not page.broken
    assert "nan" not in " ".join(" ".join(texts) for tag, texts in page.texts.items() if tag != "style")


def test_the_table_holds_the_numbers_of_the_summary() -> None:
    histories = drawn(methods=("local", "fedavg"), rounds=2, every=1)
    summary = summarise(histories)
    text = render(report(histories))
    over = summary.methods[1].points[TUNED].measures["accuracy"]
    for number in (over.mean.mean, over.worst.mean, over.spread.mean):
        assert f">{number:.3f}<" in text
    gain = next(c for c in summary.to_reference if (c.point, c.measure) == (TUNED, "accuracy"))
    assert f"{gain.overall.mean:+.3f}".replace("-", "−") in text
    assert tally(gain) in text


def test_the_findings_say_no_more_than_the_numbers() -> None:
    def runs(local: float, other: Sequence[float]) -> list[History]:
        points = [(("local", seed, local) if m == "local" else (m, seed, other[seed]))
                  for m in ("local", "fedavg") for seed in range(len(other))]  # fmt: skip
        return [history(m, s, record(0, {TUNED: {"a": measured(at), "b": measured(0.5)}})) for m, s, at in points]

    every = ([0.9, 0.91, 0.92], [0.9, 0.4, 0.5], [0.9], [0.9, 0.8], [0.9, 0.9, 0.9])
    sure, unsure, one, two, same = (summarise(runs(0.5, other)) for other in every)
    assert "it does not hold zero" in findings(sure)[0]
    assert "1 of 2 sites significantly better, 0 significantly worse, 1 not to be told apart" in findings(sure)[0]
    assert "chance could give the difference" in findings(unsure)[0]
    assert "0 of 2 sites significantly better" in findings(unsure)[0]
    assert "(by the mean alone 1 gain, 0 lose)" in findings(unsure)[0]
    assert "(one seed, so no interval: a further run may look different); 1 of 2 sites gain" in findings(one)[0]
    assert "(two seeds, so no interval: a further run may look different); 1 of 2 sites gain" in findings(two)[0]
    assert "(the same in every seed, so no interval)" in findings(same)[0]
    assert "1 without interval" in findings(same)[0]  # of the other site it is known: there is no difference
    assert all("significantly" not in findings(few)[0] for few in (one, two))
    told = [tally(summary.to_reference[0]) for summary in (one, two)]
    assert all(
        f"({few} seed" in text and "none of it can be told" in text
        for few, text in zip(("one", "two"), told, strict=True)
    )
    assert [short_tally(summary.to_reference[0]) for summary in (sure, unsure, one)] == [
        "1 better, 0 worse, 1 open",
        "0 better, 0 worse, 2 open",
        "1 gain, 0 lose; no interval",
    ]
    assert [standing(summary.to_reference[0]) for summary in (sure, unsure, one, two, same)] == [
        "better",
        "chance could give it",
        "one seed: cannot be told",
        "two seeds: cannot be told",
        "no interval: cannot be told",
    ]
    assert [counting(summary)[-1][:9] for summary in (one, two, sure)] == ["One seed:", "Two seeds", "All seeds"]


def test_a_curve_is_of_runs_that_ended_and_of_rounds_they_share() -> None:
    def curve(seed: int, *accuracies: float, failure: str | None = None) -> History:
        rounds = (record(r, {TUNED: {"a": measured(at)}}) for r, at in enumerate(accuracies))
        return history("local", seed, *rounds, failure=failure)

    number = mean_score(TUNED, "accuracy")
    found = over_rounds([curve(0, 0.5, 0.6, 0.7), curve(1, 0.7, 0.8), curve(2, 0.0, failure="diverged")], number)
    assert found is not None
    assert found.deviation is not None
    assert (found.rounds.tolist(), found.seeds) == ([0, 1], 2)
    assert found.mean == pytest.approx([0.6, 0.7])
    assert found.deviation == pytest.approx([np.sqrt(0.02)] * 2)
    alone = over_rounds([curve(0, 0.5)], number)
    assert alone is not None
    assert alone.deviation is None
    assert over_rounds([curve(2, 0.0, failure="diverged")], number) is None


def test_numbers_that_are_not_finite_are_no_points() -> None:
    fields = {"a": {"embedding_norm": float("inf")}, "b": {"embedding_norm": 2.0}, "c": {}}
    one = history("local", 0, record(0, {}, fields=fields), record(1, {}, fields={"a": fields["a"]}))
    assert of_run(one, of_training("embedding_norm")) == {0: 2.0}


def test_a_relation_is_drawn_for_the_rounds_that_have_one() -> None:
    histories = drawn(methods=("fedpac",), seeds=(0,), rounds=9, every=3)
    (plot,) = relation_maps({"fedpac": histories, "local": []})
    text = plot.svg
    for number in (0, 3, 5, 8):
        assert f">round {number}</text>" in text
    assert "round 9<" not in text


@given(label=st.text(min_size=1, max_size=80), width=st.integers(4, 40))
def test_a_wrapped_label_keeps_its_letters(label: str, width: int) -> None:
    lines = wrapped(label, width).split("\n")
    assert re.sub(r"\s", "", "".join(lines)) == re.sub(r"\s", "", label)
    assert all(len(line) <= width for line in lines)
    assert len(shortened(label, width)) <= width


def test_methods_look_apart_and_the_reference_is_black() -> None:
    labels = [f"m{i}" for i in range(15)]
    found = looks(labels, "m3")
    assert len({(look.colour, look.line) for look in found.values()}) == 15
    assert found["m3"].colour == "#1a1a1a"
    assert looks(labels, None)["m0"] == found["m0"]


@pytest.mark.parametrize(
    ("amount", "text"), [(0, "0 B"), (999, "999 B"), (1234567, "1.23 MB"), (999_900, "1 MB"), (5e16, "5e+04 TB")]
)
def test_amounts_are_readable(amount: float, text: str) -> None:
    assert readable(amount) == text


def test_the_folded_table_has_every_site() -> None:
    histories = drawn([f"s{i}" for i in range(45)], ("local",), (0,), rounds=1, every=1)
    text = render(report(histories))
    last = histories[0].rounds[-1].sites["s44"].points[TUNED][TEST]
    assert '<th scope="row">s44</th>' in text
    assert f">{last.accuracy:.3f}<" in text


def test_the_partition_is_shown_near_its_own_size() -> None:
    (image,) = Page(whole()).all("img")
    assert image["width"] == "720"  # 432 points are 576 pixels


def probed(text: str, width: int, at: Path) -> list[str]:
    """What a browser of that width tells: whether the page fits, drawings, tables, and tables wider than the page."""
    probe = (
        "<script>const d = document.documentElement, all = what => [...document.querySelectorAll(what)];"
        "const wide = all('.wide').filter(box => box.scrollWidth > box.clientWidth);"
        "document.title = ['measured', d.scrollWidth <= d.clientWidth, all('figure svg').length,"
        "all('table').length, wide.length].join(' ');</script>"
    )
    open_page = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)  # the page runs no script
    (at / "page.html").write_text(open_page.replace("</body>", f"{probe}</body>"), encoding="utf-8")
    flags = ["headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking"]
    flags += ["disable-component-update", "disable-sync", f"window-size={width},1000", "dump-dom"]
    flags += [f"user-data-dir={at / 'profile'}"]
    shown = subprocess.run(
        [str(CHROMIUM), *(f"--{flag}" for flag in flags), (at / "page.html").as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    ).stdout
    title = re.search(r"<title>measured ([^<]+)</title>", shown)
    assert title is not None, shown[:500]
    return title.group(1).split()


@pytest.mark.system
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
def test_a_browser_shows_it_whole_and_within_a_narrow_window(tmp_path: Path) -> None:
    assert probed(whole(), 400, tmp_path)[:3] == ["true", "11", str(whole().count("<table"))]


@pytest.mark.system
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
def test_no_table_runs_past_the_edge_of_a_window_of_usual_width(tmp_path: Path) -> None:
    names = ("local", "fedavg", "protoaligned:representation=presence")
    sites = [f"hospital-{i}" for i in range(12)]  # of which the last has no AUC
    parts = [on_partition(name, drawn(sites, names, range(3), rounds=1, every=1))
             for name in ("iid", "dirichlet:0.3", "pathological:2", "natural")]  # fmt: skip
    assert probed(render(Report("Hearts", parts)), 1200, tmp_path)[-1] == "0"

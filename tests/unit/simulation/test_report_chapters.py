"""The page of many: several partitions, sites without a score, more methods than colours."""

import re
from functools import cache
from itertools import pairwise

from secureproto.simulation.history import RECEIVED, TUNED
from secureproto.simulation.report import Report, render
from secureproto.simulation.report.curves import learning_curves, shown_first
from secureproto.simulation.report.drawing import looks
from secureproto.simulation.report.gains import gains
from secureproto.simulation.report.overview import by_partition
from secureproto.simulation.report.words import undefined_sites
from secureproto.simulation.results import NOT_COMPARED, summarise
from support.histories import drawn, history, measured, record
from support.pages import Page, on_partition, report


@cache
def two_partitions() -> str:
    names = ("local", "fedavg", "fedpac")
    first, second = (drawn(sites, names, (0, 1), rounds=2, every=1) for sites in (("a", "b"), ("c", "d", "e")))
    parts = [on_partition("iid", first), on_partition("dirichlet:1", second)]
    return render(Report("Hearts", parts, {"page made by": "1"}))


def test_several_partitions_make_one_page_with_a_chapter_each() -> None:
    text = two_partitions()
    page = Page(text)
    assert not page.broken
    assert text.count(NOT_COMPARED) == 1
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    targets = {a["href"][1:] for _, a in page.tags if a.get("href", "").startswith("#")}
    named = {name for _, a in page.tags for name in a.get("aria-labelledby", "").split()}
    assert targets | named | set(re.findall(r"url\(#([^)]+)\)", text)) <= set(ids)
    assert {"partition-1-part", "partition-2-gain", "partition-2-settings", "glossary"} <= targets
    assert text.count("with options</h2>") == 2
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
    assert all(later - earlier <= 1 for earlier, later in pairwise(levels))


def test_a_table_over_the_partitions_marks_the_best_of_each_and_ranks_no_mean() -> None:
    means = {"iid": {"local": 0.5, "fedavg": 0.7, "ditto": 0.6}, "dirichlet:1": {"local": 0.9, "fedavg": 0.8}}
    parts = [
        on_partition(name, [history(m, 0, record(0, {p: {"a": measured(at)} for p in (RECEIVED, TUNED)}))
                            for m, at in of.items()])
        for name, of in means.items()
    ]  # fmt: skip
    text = render(Report("Hearts", parts))
    table = text[text.index('<section id="partitions"') : text.index("partition-1-part-heading")]
    accuracy = table[: table.index("</table>")]
    assert accuracy.count("mean of 2 partitions</th>") == 1
    assert re.findall(r'<th scope="rowgroup" colspan="4">([^<]+)', accuracy) == [
        "as received",
        "after local training",
    ]
    rows = re.findall(r'<tr><th scope="row">(.*?)</tr>', accuracy, flags=re.DOTALL)
    cells = [re.findall(r'<td class="([^"]*)">([^<]+)', row) for row in rows]
    shown = [[f"*{text}*" if "best" in kind else text for kind, text in row] for row in cells]
    assert shown == 2 * [
        ["0.500", "*0.900*", "0.700"],
        ["*0.700*", "0.800", "0.750"],  # the highest mean, and not bold
        ["0.600", "–", "–"],
    ]


def test_a_table_over_the_partitions_has_as_chosen_only_what_was_chosen() -> None:
    parts = [on_partition(name, drawn(("a", "b"), ("local", "protoaligned"), (0,), rounds=1, every=1))
             for name in ("iid", "dirichlet:1", "natural")]  # fmt: skip
    for table in by_partition([one.part for one in parts]):
        *_, (heading, rows) = table.parts
        assert (heading, [row[0].text for row in rows]) == ("as chosen", ["protoaligned"])
        assert len(table.columns) == 5  # method, partitions, mean: however many points there are
        assert all(len(row) == 5 for row in table.rows)


def test_a_mean_over_fewer_sites_says_so_in_its_cell() -> None:
    histories = drawn(methods=("local", "fedavg"), rounds=1, every=1)  # the last of four hospitals has no AUC
    text = render(report(histories))
    auc = text[text.index("AUC on test records") : text.index("Runs, pooled accuracy")]
    assert auc.count("(3 of 4 sites)</small>") == 4  # methods × points
    assert "(3 of 4 sites)" not in text[: text.index("AUC on test records")]
    told = undefined_sites(report(histories).parts[0].part.summary)
    assert told is not None
    assert "its means are over 3 of 4 sites" in told


def test_of_many_methods_a_few_are_in_colour_and_the_others_follow() -> None:
    """Neither the majority class nor a bound is among them, however high."""
    methods = ("majority", "local", "fedavg", "fedper", "fedproto", "pooled", "protoaligned:power=2", "protoaligned")
    accuracy = dict(zip(methods, (0.99, 0.5, 0.9, 0.8, 0.7, 0.95, 0.4, 0.3), strict=True))
    histories = [
        history(m, 0, *(record(r, {p: {"a": measured(at)} for p in (RECEIVED, TUNED)}) for r in range(3)))
        for m, at in accuracy.items()
    ]
    first = shown_first(summarise(histories))
    assert first == ["local", "protoaligned:power=2", "fedavg", "fedper"]
    runs = {one.method: [one] for one in histories}
    together, others = learning_curves(runs, looks(methods, "local"), first)
    assert [f">{m}</text>" in together.svg for m in methods] == [m in first for m in methods]
    assert [f">{m}</text>" in others.svg for m in methods] == [m not in first for m in methods]
    assert others.svg.count("accuracy, as received") == 1  # four of them fit one panel
    (one,) = learning_curves({m: runs[m] for m in first}, looks(first, "local"), first)
    assert "grey" not in one.reading


def test_the_majority_class_does_not_set_the_scale_of_the_gains() -> None:
    def gained(*methods: str) -> str:
        plot, *_ = gains(summarise(drawn(("a", "b"), ("local", *methods), (0, 1), rounds=1, every=1)))
        return plot.svg + plot.reading

    assert ">majority</text>" not in gained("majority", "fedavg")
    assert "majority class is left out" in gained("majority", "fedavg")
    assert ">majority</text>" in gained("majority")

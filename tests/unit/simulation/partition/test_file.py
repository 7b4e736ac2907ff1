"""The saved partition: what comes back, and what is refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from secureproto.errors import Conflict, IntegrityBroken, Misconfigured
from secureproto.simulation.partition.assign import draw
from secureproto.simulation.partition.division import Divisions, Options
from secureproto.simulation.partition.file import FORMAT, digest_of, load, save
from secureproto.simulation.partition.spec import parse
from secureproto.simulation.population import Pool
from secureproto.wire import canonical
from support.partitions import names, pool_of

POOL = pool_of([60, 60], shape=(1, 2, 2))


def drawn(text: str = "feature-shift", *, pool: Pool = POOL, seed: int = 1, repeated: bool = False) -> Divisions:
    options = Options(sites=4, split="stratified", validation_share=0.1, test_share=0.25, seed=seed)
    return draw(pool, parse(text), options, classes=names(2), seeds=[3, 4], repeated=repeated)


def saved(path: Path, divisions: Divisions) -> Path:
    save(divisions, path / "partition.json")
    return path / "partition.json"


@pytest.mark.parametrize("repeated", [False, True])
def test_what_is_saved_comes_back(tmp_path: Path, repeated: bool) -> None:
    before = drawn(repeated=repeated)
    after = load(saved(tmp_path, before), POOL)
    assert after.repeated == repeated
    assert len(after.partitions) == (2 if repeated else 1)
    for one, other in zip(before.partitions, after.partitions, strict=True):
        assert (one.scheme, one.options, one.pool) == (other.scheme, other.options, other.pool)
        assert list(one.sites) == list(other.sites)
        for site, rows in one.sites.items():
            found = other.sites[site]
            assert found.shift == rows.shift is not None
            for part in ("train", "test", "validation"):
                assert getattr(found, part).tolist() == getattr(rows, part).tolist()
                assert getattr(found, part).dtype == "int64"
    assert digest_of(after) == digest_of(before)


def test_equal_draws_are_equal_files_and_others_are_not(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    digests = {save(divisions, path) for divisions in (drawn(), drawn())}
    assert json.loads(path.read_text())["digest"] in digests
    assert len(digests) == 1
    others = {digest_of(other) for other in (drawn(seed=2), drawn("iid"), drawn(repeated=True))}
    assert len(others | digests) == 4


def test_the_digest_is_over_all_other_keys_under_the_format_as_label(tmp_path: Path) -> None:
    content = json.loads(saved(tmp_path, drawn()).read_text())
    told = content.pop("digest")
    assert content["format"] == FORMAT
    assert canonical.labelled_digest(FORMAT, canonical.encode(content)) == told


def moved(content: dict[str, Any]) -> None:
    sites = content["partitions"][0]["sites"]
    sites["site-000"]["test"].append(sites["site-001"]["train"].pop())


def renamed(content: dict[str, Any]) -> None:
    content["scheme"] = "iid"


def other_shift(content: dict[str, Any]) -> None:
    content["partitions"][0]["sites"]["site-000"]["shift"]["gain"] = "1.0"


def with_float(content: dict[str, Any]) -> None:
    content["partitions"][0]["seed"] = 1.0


def without_digest(content: dict[str, Any]) -> None:
    del content["digest"]


@pytest.mark.parametrize("change", [moved, renamed, other_shift, with_float, without_digest])
def test_a_changed_file_is_refused(tmp_path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = saved(tmp_path, drawn())
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    with pytest.raises(IntegrityBroken, match="changed after it was saved"):
        load(path, POOL)


def test_white_space_is_no_change(tmp_path: Path) -> None:
    path = saved(tmp_path, drawn())
    path.write_text(json.dumps(json.loads(path.read_text()), indent=2))
    assert digest_of(load(path, POOL)) == digest_of(drawn())


def test_a_partition_of_other_records_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path, drawn())
    with pytest.raises(Conflict, match="other records"):
        load(path, pool_of([61, 59], shape=(1, 2, 2)))
    with pytest.raises(Conflict, match="other records"):
        load(path, POOL, digest="another")
    assert load(path, POOL, digest=POOL.digest())


@pytest.mark.parametrize("text", ["", "no json", "[]", "{}", '{"format": "other"}', "[" * 100_000, "\xff"])
def test_what_is_no_partition_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "p.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(Misconfigured, match="not a partition that was saved"):
        load(path, POOL)


def with_row(row: int) -> dict[str, Any]:
    return {"seed": 0, "sites": {"a": {"train": [row], "test": [], "validation": [], "shift": None}}}


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="cannot be read"):
        load(tmp_path / "p.json", POOL)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("options", {}, "not a partition"),
        ("partitions", [], "not a partition"),
        ("more", 1, "not a partition"),
        ("partitions", [with_row(-1)], "not a partition"),
        ("partitions", [with_row(120)], "rows that these records do not have"),
        ("partitions", [{"seed": -1, "sites": {}}], "not a partition"),
    ],
)
def test_a_signed_but_meaningless_file_is_refused(tmp_path: Path, key: str, value: Any, words: str) -> None:
    path = saved(tmp_path, drawn())
    content = json.loads(path.read_text())
    del content["digest"]
    content[key] = value
    content["digest"] = canonical.labelled_digest(FORMAT, canonical.encode(content))
    path.write_bytes(canonical.encode(content))
    with pytest.raises(Misconfigured, match=words):
        load(path, POOL)


def test_the_file_holds_no_record(tmp_path: Path) -> None:
    content = json.loads(saved(tmp_path, drawn()).read_text())
    assert set(content) == {"format", "digest", "scheme", "pool", "repeated", "options", "partitions"}


def resigned(path: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """The file of a draw over two sites, changed, with the digest that fits the change."""
    content = json.loads(saved(path, drawn("iid")).read_text())
    del content["digest"]
    change(content["partitions"][0]["sites"])
    digest = canonical.labelled_digest(FORMAT, canonical.encode(content))
    (path / "partition.json").write_bytes(canonical.encode({**content, "digest": digest}))
    return path / "partition.json"


def also_in(part: str, source: str, other: str, *, to_another: bool = False) -> Callable[[dict[str, Any]], None]:
    """A row of one part of a site also in a part of it, or of another site."""

    def change(sites: dict[str, Any]) -> None:
        first, second, *_ = sorted(sites)
        sites[second if to_another else first][other].append(sites[first][source][0])

    change.__name__ = part
    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (also_in("own test row", "test", "train"), "a row to test by"),
        (also_in("own test row, to choose by", "test", "validation"), "a row to test by"),
        (also_in("another's test row", "test", "train", to_another=True), "a row to test by"),
        (also_in("validated", "validation", "train"), "a row stands there twice"),
        (also_in("doubled", "train", "train"), "a row stands there twice"),
        (also_in("doubled test row", "test", "test"), "a row stands there twice"),
        (also_in("in two sites", "train", "train", to_another=True), "a row stands there twice"),
    ],
)
def test_a_partition_that_learns_from_what_it_is_scored_on_is_refused(
    tmp_path: Path, change: Callable[[dict[str, Any]], None], words: str
) -> None:
    with pytest.raises(Misconfigured, match=words):
        load(resigned(tmp_path, change), POOL)


def test_sites_may_share_rows_that_they_are_scored_on(tmp_path: Path) -> None:
    (partition,) = load(resigned(tmp_path, also_in("shared", "test", "test", to_another=True)), POOL).partitions
    first, second, *_ = (partition.sites[site] for site in sorted(partition.sites))
    assert first.test[0] in second.test


def named_badly(sites: dict[str, Any]) -> None:
    sites["../\x1b]0;title"] = sites.pop(min(sites))


def shifted_out_of_range(sites: dict[str, Any]) -> None:
    sites[min(sites)]["shift"] = {"gain": "1e400", "offset": "0.0", "quarter_turns": 0}


@pytest.mark.parametrize("change", [named_badly, shifted_out_of_range])
def test_what_could_not_have_been_saved_is_refused(tmp_path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    with pytest.raises(Misconfigured, match="not a partition that was saved"):
        load(resigned(tmp_path, change), POOL)

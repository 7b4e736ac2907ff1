"""The catalogue follows Prometheus' rules and agrees with the enums of the rooms above it."""

import re

import pytest

from secureproto.metrics.catalogue import AUTH_FAILURES, CATALOGUE, PARTICIPANTS, REASONS, SITES, Metric, Type
from secureproto.metrics.table import BEGIN, END, replaced, table
from secureproto.wire.reasons import Reason
from secureproto_server.storage.records import ParticipantState, SiteState


@pytest.mark.parametrize("metric", CATALOGUE, ids=lambda metric: metric.name)
def test_names_types_and_buckets_fit_together(metric: Metric) -> None:
    assert re.fullmatch(r"secureproto_[a-z_]+", metric.name)
    assert metric.name.endswith("_total") == (metric.type is Type.COUNTER)
    assert bool(metric.buckets) == (metric.type is Type.HISTOGRAM)
    assert list(metric.buckets) == sorted(set(metric.buckets))
    assert metric.help.endswith(".")
    assert "|" not in metric.help
    names = [label.name for label in metric.labels]
    assert len(set(names)) == len(names)
    assert "le" not in names


def test_names_are_unique() -> None:
    assert len({metric.name for metric in CATALOGUE}) == len(CATALOGUE)


def test_labels_are_the_words_of_the_protocol() -> None:
    assert tuple(Reason) == REASONS
    assert AUTH_FAILURES.labels[1].values == REASONS
    assert set(SITES.labels[0].values) == {"pending", *SiteState}
    assert PARTICIPANTS.labels[1].values == tuple(ParticipantState)


def test_the_table_replaces_what_is_between_its_marks() -> None:
    assert replaced(f"a\n{BEGIN}old\n{END}b") == f"a\n{BEGIN}{table()}{END}b"
    assert all(f"`{metric.name}`" in table() for metric in CATALOGUE)
    with pytest.raises(ValueError, match="marks"):
        replaced("no marks")

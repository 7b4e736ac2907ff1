"""The server's metrics: bounded, zero before the first event, rendered only after a change."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from secureproto.clock import ManualClock
from secureproto.metrics import catalogue
from secureproto.metrics.catalogue import CATALOGUE, MAX_OPEN_VALUES, OVERFLOW, Label, Metric, Type
from secureproto.wire.reasons import Reason
from secureproto_server.exposition import Exposition
from secureproto_server.metrics import UNATTRIBUTED, ServerMetrics


def value(text: bytes, series: str) -> float | None:
    found = [line for line in text.decode().splitlines() if line.rpartition(" ")[0] == series]
    assert len(found) <= 1
    return float(found[0].rpartition(" ")[2]) if found else None


@pytest.fixture
def metrics() -> ServerMetrics:
    return ServerMetrics(ManualClock(1000))


def everything(metrics: ServerMetrics) -> None:
    metrics.site_known("site-a")
    metrics.study_known("heart")
    metrics.sites({"active": 3})
    metrics.site_seen("site-a", 999.0, skew=-2.0)
    metrics.round_opened("heart", deadline=2000, quorum=2)
    metrics.participants("heart", {"invited": 2, "submitted": 1})
    metrics.phase_finished("heart", "collect", seconds=70)
    metrics.round_finished("heart", "completed", seconds=90)
    metrics.upload_accepted("site-a", size=70_000, verify_seconds=0.3)
    metrics.upload_rejected("site-a", Reason.STALE)
    metrics.upload_rejected(UNATTRIBUTED, Reason.UNKNOWN_KEY)
    metrics.audit_appended("round_opened", tree_size=7)
    metrics.audit_append_failed()
    metrics.auth_failed("admin", Reason.BAD_SIGNATURE)
    metrics.request_answered("/v1/poll", "GET", 200, seconds=0.1)
    metrics.request_refused(431)


def test_each_event_is_seen(metrics: ServerMetrics) -> None:
    everything(metrics)
    text = metrics.exposition()
    for series, expected in {
        "secureproto_sites{state=\"active\"}": 3,
        "secureproto_sites{state=\"revoked\"}": 0,
        "secureproto_site_last_seen_timestamp_seconds{site=\"site-a\"}": 999,
        "secureproto_site_clock_skew_seconds{site=\"site-a\"}": -2,
        "secureproto_rounds_total{outcome=\"completed\",study=\"heart\"}": 1,
        "secureproto_rounds_total{outcome=\"quorum_missed\",study=\"heart\"}": 0,
        "secureproto_round_duration_seconds_bucket{le=\"120.0\",study=\"heart\"}": 1,
        "secureproto_round_duration_seconds_bucket{le=\"60.0\",study=\"heart\"}": 0,
        "secureproto_round_phase_duration_seconds_sum{phase=\"collect\",study=\"heart\"}": 70,
        "secureproto_round_last_success_timestamp_seconds{study=\"heart\"}": 1000,
        "secureproto_round_deadline_timestamp_seconds{study=\"heart\"}": 0,
        "secureproto_round_quorum_required{study=\"heart\"}": 2,
        "secureproto_round_participants{state=\"submitted\",study=\"heart\"}": 1,
        "secureproto_round_participants{state=\"dropped\",study=\"heart\"}": 0,
        "secureproto_uploads_total{result=\"accepted\",site=\"site-a\"}": 1,
        "secureproto_uploads_total{result=\"rejected\",site=\"unattributed\"}": 1,
        "secureproto_upload_rejections_total{reason=\"stale\",site=\"site-a\"}": 1,
        "secureproto_upload_rejections_total{reason=\"replayed\",site=\"site-a\"}": 0,
        "secureproto_upload_size_bytes_count": 1,
        "secureproto_upload_verify_duration_seconds_sum": 0.3,
        "secureproto_audit_entries_total{kind=\"round_opened\"}": 1,
        "secureproto_audit_append_failures_total{reason=\"unavailable\"}": 1,
        "secureproto_audit_append_failures_total{reason=\"integrity\"}": 0,
        "secureproto_audit_tree_size": 7,
        "secureproto_auth_failures_total{reason=\"bad_signature\",surface=\"admin\"}": 1,
        "secureproto_http_requests_total{code=\"200\",method=\"GET\",route=\"/v1/poll\"}": 1,
        "secureproto_http_requests_total{code=\"431\",method=\"other\",route=\"unrouted\"}": 1,
        "secureproto_metrics_overflow_total{label=\"site\"}": 0,
    }.items():  # fmt: skip
        assert value(text, series) == expected, series


def test_every_metric_of_the_catalogue_is_exposed_with_its_help(metrics: ServerMetrics) -> None:
    everything(metrics)
    text = metrics.exposition().decode()
    for metric in CATALOGUE:
        assert f"# HELP {metric.name} {metric.help}\n" in text
        assert f"# TYPE {metric.name} {metric.type}\n" in text
    assert "_created" not in text


def test_reasons_are_zero_before_anything_happens(metrics: ServerMetrics) -> None:
    text = metrics.exposition()
    for reason in Reason:
        series = f'secureproto_upload_rejections_total{{reason="{reason}",site="unattributed"}}'
        assert value(text, series) == 0
        metrics.site_known("site-b")
        assert value(metrics.exposition(), series.replace("unattributed", "site-b")) == 0


def test_an_unsuccessful_round_is_no_success(metrics: ServerMetrics) -> None:
    metrics.round_finished("heart", "quorum_missed", seconds=1)
    assert value(metrics.exposition(), 'secureproto_round_last_success_timestamp_seconds{study="heart"}') is None


def test_who_is_gone_leaves_no_series(metrics: ServerMetrics) -> None:
    everything(metrics)
    metrics.site_gone("site-a")
    metrics.study_gone("heart")
    text = metrics.exposition()
    assert b"site-a" not in text
    assert b"heart" not in text
    assert b"unattributed" in text


def test_the_number_of_series_is_bounded() -> None:
    all_ = Exposition()
    for number in range(MAX_OPEN_VALUES + 5):
        all_.set(catalogue.SITE_LAST_SEEN, number, site=f"site-{number}")
    text = all_.text()
    assert text.count(b"secureproto_site_last_seen_timestamp_seconds{") == MAX_OPEN_VALUES + 1
    assert value(text, f'secureproto_site_last_seen_timestamp_seconds{{site="{OVERFLOW}"}}') is not None
    assert value(text, 'secureproto_metrics_overflow_total{label="site"}') == 5


def test_a_method_or_code_of_the_peers_making_is_other(metrics: ServerMetrics) -> None:
    metrics.request_answered("/v1/poll", "BREW", 418, seconds=0.1)
    series = 'secureproto_http_requests_total{code="other",method="other",route="/v1/poll"}'
    assert value(metrics.exposition(), series) == 1


def test_the_text_is_rendered_again_only_after_a_change(metrics: ServerMetrics) -> None:
    first = metrics.exposition()
    assert metrics.exposition() is first
    metrics.audit_appended("round_opened", tree_size=1)
    assert metrics.exposition() is not first


@pytest.mark.parametrize(
    "misuse",
    [
        lambda all_: all_.add(catalogue.SITES, state="active"),
        lambda all_: all_.set(catalogue.UPLOADS, 1, site="a", result="accepted"),
        lambda all_: all_.add(catalogue.UPLOADS, site="a"),
        lambda all_: all_.add(catalogue.UPLOADS, site="a", result="accepted", more="b"),
        lambda all_: all_.add(catalogue.UPLOADS, site="a", result="lost"),
    ],
)
def test_what_the_catalogue_does_not_have_cannot_be_counted(misuse: Callable[[Exposition], None]) -> None:
    with pytest.raises(ValueError, match=r"secureproto_|label"):
        misuse(Exposition())


def test_the_catalogue_decides_what_starts_at_zero() -> None:
    assert Metric("a", Type.COUNTER, "b", (Label("c"),)).zero
    assert not catalogue.HTTP_REQUESTS.zero


def test_promtool_accepts_the_exposition(metrics: ServerMetrics) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian: prometheus)")
    everything(metrics)
    check = subprocess.run(
        [promtool, "check", "metrics"], input=metrics.exposition(), capture_output=True, check=False
    )
    assert (check.returncode, check.stdout, check.stderr) == (0, b"", b"")


@pytest.mark.parametrize(
    ("recorded", "told"),
    [
        ('{"url": "https://x", "vcs_info": {"vcs": "git", "commit_id": "0123abc"}}', "0123abc"),
        ('{"url": "file:///x", "dir_info": {"editable": true}}', "unknown"),
        ('{"vcs_info": {"commit_id": "a\\nb"}}', "unknown"),
        ("[]", "unknown"),
        ("not json", "unknown"),
    ],
)
def test_the_revision_is_what_the_installer_recorded(
    recorded: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "secureproto-9.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: secureproto\nVersion: 9\n")
    (installed / "direct_url.json").write_text(recorded)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert f'revision="{told}"'.encode() in ServerMetrics(ManualClock(1000)).exposition()

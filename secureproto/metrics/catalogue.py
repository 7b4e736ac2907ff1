"""Every metric of the server: its name, type, labels, help and buckets. The only place where they are written.

From it come the registration (`secureproto_server.exposition`), the table in `ops/README.md`, and the tests that
compare both and the alert rules with it.

Invariants: a label is enumerated here, or open and bounded by MAX_OPEN_VALUES; a value of an open label is the
name of something enrolled or made by an operator, never what a peer claims; no metric tells more of one site than
that it was there, and what became of its uploads.
"""

from dataclasses import dataclass
from enum import StrEnum

MAX_OPEN_VALUES = 1000  # 1,000 sites make 25,000 series, which take half a second to render
OVERFLOW = "overflow"  # the value that stands for everything over the bound

DURATIONS = (30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0, 21_600.0, 43_200.0, 86_400.0)
SIZES = tuple(float(4**power * 65_536) for power in range(8))  # 64 KiB to 1 GiB
VERIFY = (0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0)
REQUESTS = (0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 30.0)  # a long poll takes 25 s

REASONS = (
    "malformed", "bad_signature", "unknown_key", "revoked_key", "suspended", "wrong_federation", "wrong_round",
    "closed", "stale", "replayed", "too_large", "too_slow", "quota", "decrypt_failed", "schema", "non_finite",
    "norm_bound", "policy_digest", "over_budget", "receipt",
)  # fmt: skip  # those of secureproto.wire.reasons, which lies in a room above this one; a test compares them


class Type(StrEnum):
    """Prometheus' types, as far as they are used."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True)
class Label:
    """A label. `values`: all it can have; empty means open. `other` stands for a value that is not among them."""

    name: str
    values: tuple[str, ...] = ()
    other: str = ""


@dataclass(frozen=True)
class Metric:
    """A metric. A counter with `zero` is there, at zero, for every value of its enumerated labels before the first
    event, so that a rate sees that one too."""

    name: str
    type: Type
    help: str
    labels: tuple[Label, ...] = ()
    buckets: tuple[float, ...] = ()
    zero: bool = True


STUDY = Label("study")
SITE = Label("site")  # from the TLS identity, else `unattributed`
ROUTE = Label("route")  # the template of the route, never the path
METHOD = Label("method", ("GET", "POST", "PUT", "DELETE", "HEAD"), other="other")
CODE = Label("code", tuple(str(code) for code in (
    200, 201, 202, 204, 304, 400, 401, 403, 404, 405, 408, 409, 411, 413, 415, 417, 421, 429, 431, 500, 503, 505, 507,
)), other="other")  # fmt: skip
REASON = Label("reason", REASONS)

BUILD_INFO = Metric(
    "secureproto_build_info", Type.GAUGE, "Constant 1; what is running.",
    (Label("version"), Label("revision"), Label("python")),
)  # fmt: skip
ROUNDS = Metric(
    "secureproto_rounds_total", Type.COUNTER, "Finished rounds by how they ended.",
    (STUDY, Label("outcome", ("completed", "quorum_missed", "aborted", "policy_denied", "budget_denied"))),
)  # fmt: skip
ROUND_DURATION = Metric(
    "secureproto_round_duration_seconds", Type.HISTOGRAM, "From opening to the end of a round.", (STUDY,), DURATIONS
)
PHASE_DURATION = Metric(
    "secureproto_round_phase_duration_seconds", Type.HISTOGRAM, "Time a round spent in a phase.",
    (STUDY, Label("phase", ("invite", "collect", "aggregate", "publish"))), DURATIONS,
)  # fmt: skip
ROUND_LAST_SUCCESS = Metric(
    "secureproto_round_last_success_timestamp_seconds", Type.GAUGE, "When a round last completed.", (STUDY,)
)
ROUND_DEADLINE = Metric(
    "secureproto_round_deadline_timestamp_seconds", Type.GAUGE, "Deadline of the open round; 0 when none is open.",
    (STUDY,),
)  # fmt: skip
PARTICIPANTS = Metric(
    "secureproto_round_participants", Type.GAUGE, "Sites of the open round by what they did.",
    (STUDY, Label("state", ("invited", "submitted", "declined", "dropped"))),
)  # fmt: skip
QUORUM = Metric("secureproto_round_quorum_required", Type.GAUGE, "Uploads that the open round needs.", (STUDY,))
UPLOADS = Metric(
    "secureproto_uploads_total", Type.COUNTER, "Uploads by result; the same bytes sent again count once.",
    (SITE, Label("result", ("accepted", "rejected"))),
)  # fmt: skip
REJECTIONS = Metric("secureproto_upload_rejections_total", Type.COUNTER, "Refused uploads by reason.", (SITE, REASON))
UPLOAD_SIZE = Metric("secureproto_upload_size_bytes", Type.HISTOGRAM, "Ciphertext of an accepted upload.", (), SIZES)
UPLOAD_VERIFY = Metric(
    "secureproto_upload_verify_duration_seconds", Type.HISTOGRAM,
    "Decrypting and checking an upload, once it is received.", (), VERIFY,
)  # fmt: skip
SITES = Metric(
    "secureproto_sites", Type.GAUGE, "Sites by state.",
    (Label("state", ("pending", "active", "suspended", "revoked", "withdrawn")),),
)  # fmt: skip
SITE_LAST_SEEN = Metric(
    "secureproto_site_last_seen_timestamp_seconds", Type.GAUGE, "When a site last spoke to the server.", (SITE,)
)
SITE_CLOCK_SKEW = Metric(
    "secureproto_site_clock_skew_seconds", Type.GAUGE, "A site's signed time minus the server's.", (SITE,)
)
AUTH_FAILURES = Metric(
    "secureproto_auth_failures_total", Type.COUNTER, "Requests whose sender could not be established.",
    (Label("surface", ("admin", "site", "metrics")), REASON),
)  # fmt: skip
AUDIT_ENTRIES = Metric(
    "secureproto_audit_entries_total", Type.COUNTER, "Entries appended since the start, by action.", (Label("kind"),)
)
AUDIT_APPEND_FAILURES = Metric(
    "secureproto_audit_append_failures_total", Type.COUNTER, "Entries that could not be written.",
    (Label("reason", ("unavailable", "integrity"), other="unavailable"),),
)  # fmt: skip
AUDIT_TREE_SIZE = Metric("secureproto_audit_tree_size", Type.GAUGE, "Entries in the audit log.")
HTTP_REQUESTS = Metric(
    "secureproto_http_requests_total", Type.COUNTER, "Requests; route `unrouted` are those refused before routing.",
    (ROUTE, METHOD, CODE), zero=False,  # most of the products never happen
)  # fmt: skip
HTTP_DURATION = Metric(
    "secureproto_http_request_duration_seconds", Type.HISTOGRAM, "From the headers to the end of the answer.",
    (ROUTE, METHOD, CODE), REQUESTS,
)  # fmt: skip
OVERFLOWS = Metric(
    "secureproto_metrics_overflow_total", Type.COUNTER, "Values counted as `overflow`: the bound on series was met.",
    (Label("label", ("study", "site", "route", "kind"), other="other"),),
)  # fmt: skip

CATALOGUE: tuple[Metric, ...] = (
    BUILD_INFO,
    ROUNDS,
    ROUND_DURATION,
    PHASE_DURATION,
    ROUND_LAST_SUCCESS,
    ROUND_DEADLINE,
    PARTICIPANTS,
    QUORUM,
    UPLOADS,
    REJECTIONS,
    UPLOAD_SIZE,
    UPLOAD_VERIFY,
    SITES,
    SITE_LAST_SEEN,
    SITE_CLOCK_SKEW,
    AUTH_FAILURES,
    AUDIT_ENTRIES,
    AUDIT_APPEND_FAILURES,
    AUDIT_TREE_SIZE,
    HTTP_REQUESTS,
    HTTP_DURATION,
    OVERFLOWS,
)

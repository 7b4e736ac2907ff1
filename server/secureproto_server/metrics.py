"""What the server counts, in the words of the protocol: one method an event. Names and labels: the catalogue.

A `site` or `study` given here is the name of one that is enrolled or was created, or UNATTRIBUTED; never what a
request says of itself. No method takes a value that depends on one site's data.
"""

import json
import platform
import re
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, distribution

from secureproto import __version__
from secureproto.clock import Clock
from secureproto.metrics import catalogue
from secureproto.wire.reasons import Reason
from secureproto_server.exposition import CONTENT_TYPE, Exposition

UNATTRIBUTED = "unattributed"
UNROUTED = "unrouted"
COMMIT = re.compile("[0-9a-f]{7,64}")

__all__ = ["CONTENT_TYPE", "UNATTRIBUTED", "UNROUTED", "ServerMetrics"]


def revision() -> str:
    """The commit that was installed, as the installer recorded it (PEP 610); "unknown" for a plain wheel."""
    try:
        recorded = distribution("secureproto").read_text("direct_url.json")
        commit = json.loads(recorded or "{}").get("vcs_info", {}).get("commit_id", "")
    except (PackageNotFoundError, ValueError, AttributeError):
        commit = ""
    return commit if COMMIT.fullmatch(commit) else "unknown"


class ServerMetrics:
    """The server's own registry. Safe to use from any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._all = Exposition()
        python = platform.python_version()
        self._all.set(catalogue.BUILD_INFO, 1, version=__version__, revision=revision(), python=python)
        self._all.set(catalogue.AUDIT_TREE_SIZE, 0)
        self._all.know(catalogue.SITE, UNATTRIBUTED)

    def exposition(self) -> bytes:
        """Everything, in the text format of CONTENT_TYPE."""
        return self._all.text()

    # sites

    def site_known(self, site: str) -> None:
        """A site is enrolled: its counters are there at zero."""
        self._all.know(catalogue.SITE, site)

    def site_gone(self, site: str) -> None:
        """A site withdrew: its series end."""
        self._all.forget(catalogue.SITE, site)

    def sites(self, counts: Mapping[str, int]) -> None:
        """How many sites are in each state now; a state that is not named has none."""
        for state in catalogue.SITES.labels[0].values:
            self._all.set(catalogue.SITES, counts.get(state, 0), state=state)

    def site_seen(self, site: str, now: float, *, skew: float) -> None:
        """A site spoke at `now`; its signed time was `skew` seconds ahead of ours."""
        self._all.set(catalogue.SITE_LAST_SEEN, now, site=site)
        self._all.set(catalogue.SITE_CLOCK_SKEW, skew, site=site)

    # rounds

    def study_known(self, study: str) -> None:
        """A study exists: its counters are there at zero."""
        self._all.know(catalogue.STUDY, study)

    def study_gone(self, study: str) -> None:
        """A study is closed: its series end."""
        self._all.forget(catalogue.STUDY, study)

    def round_opened(self, study: str, *, deadline: float, quorum: int) -> None:
        """A round is open until `deadline` and needs `quorum` uploads."""
        self._all.set(catalogue.ROUND_DEADLINE, deadline, study=study)
        self._all.set(catalogue.QUORUM, quorum, study=study)

    def participants(self, study: str, counts: Mapping[str, int]) -> None:
        """Sites of the open round by state now; a state that is not named has none."""
        for state in catalogue.PARTICIPANTS.labels[1].values:
            self._all.set(catalogue.PARTICIPANTS, counts.get(state, 0), study=study, state=state)

    def phase_finished(self, study: str, phase: str, *, seconds: float) -> None:
        """A round left a phase it was in for `seconds`."""
        self._all.observe(catalogue.PHASE_DURATION, seconds, study=study, phase=phase)

    def round_finished(self, study: str, outcome: str, *, seconds: float) -> None:
        """A round ended `seconds` after it opened."""
        self._all.add(catalogue.ROUNDS, study=study, outcome=outcome)
        self._all.observe(catalogue.ROUND_DURATION, seconds, study=study)
        self._all.set(catalogue.ROUND_DEADLINE, 0, study=study)
        if outcome == "completed":
            self._all.set(catalogue.ROUND_LAST_SUCCESS, self._clock.now(), study=study)

    # uploads

    def upload_accepted(self, site: str, *, size: int, verify_seconds: float) -> None:
        """An upload of `size` bytes of ciphertext was taken. Not to be called for the same bytes again."""
        self._all.add(catalogue.UPLOADS, site=site, result="accepted")
        self._all.observe(catalogue.UPLOAD_SIZE, size)
        self._all.observe(catalogue.UPLOAD_VERIFY, verify_seconds)

    def upload_rejected(self, site: str, reason: Reason) -> None:
        """An upload was refused. Not to be called for a retry of the same bytes, which is none."""
        self._all.add(catalogue.UPLOADS, site=site, result="rejected")
        self._all.add(catalogue.REJECTIONS, site=site, reason=reason.value)

    # log, requests

    def audit_appended(self, kind: str, *, tree_size: int) -> None:
        """An entry is in the log, which now has `tree_size`."""
        self._all.add(catalogue.AUDIT_ENTRIES, kind=kind)
        self._all.set(catalogue.AUDIT_TREE_SIZE, tree_size)

    def audit_append_failed(self, reason: str = "unavailable") -> None:
        """An entry could not be written."""
        self._all.add(catalogue.AUDIT_APPEND_FAILURES, reason=reason)

    def auth_failed(self, surface: str, reason: Reason) -> None:
        """A request on a surface (admin, site, metrics) whose sender could not be established."""
        self._all.add(catalogue.AUTH_FAILURES, surface=surface, reason=reason.value)

    def request_answered(self, route: str, method: str, code: int, *, seconds: float) -> None:
        """A request was answered. `route` is a template of ours, or UNROUTED."""
        labels = {"route": route, "method": method, "code": str(code)}
        self._all.add(catalogue.HTTP_REQUESTS, **labels)
        self._all.observe(catalogue.HTTP_DURATION, seconds, **labels)

    def request_refused(self, code: int) -> None:
        """A request was refused before routing (see `http.guard`); its method may be anything."""
        self._all.add(catalogue.HTTP_REQUESTS, route=UNROUTED, method="other", code=str(code))

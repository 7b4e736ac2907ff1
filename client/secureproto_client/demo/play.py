"""The demo from the first command to the last, in order, with progress for whoever watches.

1  two sides: the operator founds a federation and starts the server; four hospitals get their own rows
2  enrolment: invitation, keys made at the site, fingerprints compared, approval
3  a study, signed; then a round that nobody but an intruder answers, and that the operator aborts
4  the study's rounds, with the four sites' agents
5  a second update for a round already answered; the log exported and verified; the metrics read
6  the comparison with other ways to get a model, and a file of predictions at each hospital
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from secureproto.clock import Clock
from secureproto.data.factory import open_source
from secureproto.simulation.heart.hospitals import HOSPITALS, study_path
from secureproto.simulation.population import SiteData
from secureproto.study.file import load
from secureproto.study.schema import StudyFile
from secureproto.wire.messages import UploadReceipt
from secureproto_client import roots, settings
from secureproto_client.database import Database
from secureproto_client.demo.comparison import MEASURES, RECEIVED, TUNED, Comparison, compare
from secureproto_client.demo.intruder import Attempt, Known, intruder
from secureproto_client.demo.metrics import totals
from secureproto_client.demo.processes import Processes
from secureproto_client.demo.stage import Desk, Hospitals, Places
from secureproto_client.holdout_key import read_or_make_key
from secureproto_client.identity import read_site_file
from secureproto_client.journal import Journal
from secureproto_client.paths import SitePaths

STUDY = "heart"
VICTIM = "long-beach"  # whose stolen files the intruder uses
PROBE_REASON = "opened for the demo's attempts only"

Say = Callable[[str], None]


@dataclass(frozen=True)
class Played:
    """All that the demo has to show."""

    places: Places
    comparison: Comparison
    attempts: tuple[Attempt, ...]
    rounds_completed: int
    uploads: dict[str, int]
    refusals: dict[str, int]
    receipts: dict[str, int]
    audit: dict[str, Any]
    predicted: dict[str, int]
    seconds: float


@dataclass
class Play:
    """One run of the demo."""

    places: Places
    clock: Clock
    say: Say

    def run(self) -> Played:
        """Everything, in order.

        Raises:
            Unavailable: a process failed; its log is named. IntegrityBroken: an attempt was not refused.
        """
        began = time.monotonic()
        for directory in (self.places.logs, self.places.credentials):
            directory.mkdir(parents=True)
        with Processes(self.places.logs, self.places.credentials) as processes:
            desk, hospitals = Desk(processes, self.places), Hospitals(processes, self.places)
            self._meet(desk, hospitals)
            known, attempts = self._intrude(desk)
            completed = self._rounds(desk, hospitals)
            attempts.append(self._replay(known))
            uploads = totals(desk.ports["metrics"], "secureproto_uploads_total", "result")
            refusals = totals(desk.ports["metrics"], "secureproto_upload_rejections_total", "reason")
            audit = self._audit(desk)
            predicted = {name: hospitals.predict(name) for name in HOSPITALS}
            comparison = self._compare(hospitals)
        return Played(
            places=self.places,
            comparison=comparison,
            attempts=tuple(attempts),
            rounds_completed=completed,
            uploads=uploads,
            refusals=refusals,
            receipts=self._receipts(),
            audit=audit,
            predicted=predicted,
            seconds=time.monotonic() - began,
        )

    def _meet(self, desk: Desk, hospitals: Hospitals) -> None:
        desk.found()
        patients = hospitals.prepare()
        self.say(f"founded the federation heart-consortium; {patients} patients lie at {len(HOSPITALS)} hospitals")
        desk.serve()
        self.say(f"the server runs: sites at https://localhost:{desk.ports['site']}, mutual TLS")
        hospitals.enrol(desk)
        self.say(f"enrolled {', '.join(HOSPITALS)}: each made its keys itself, fingerprints were compared")
        created = desk.run("study", "create", study_path())
        self.say(f"created the study {STUDY}, digest {created['digest'][:16]}…, signed by the operator")

    def _intrude(self, desk: Desk) -> tuple[Known, list[Attempt]]:
        number = desk.run("round", "open", STUDY)["round"]
        with intruder(self.places.site(VICTIM), self.clock) as somebody:
            attempts = somebody.in_the_open_round(self.places.out)
            known = somebody.known
        desk.run("round", "abort", STUDY, number, "--confirm", STUDY, "--reason", PROBE_REASON)
        self.say(
            f"an intruder with the files of {VICTIM} tried {len(attempts)} things in round {number}: all refused"
        )
        return known, attempts

    def _rounds(self, desk: Desk, hospitals: Hospitals) -> int:
        wanted = load(study_path()).rounds.total
        hospitals.start()
        desk.run("round", "open", STUDY, "--rounds", wanted)
        self.say(f"four agents started; {wanted} rounds opened")
        done = 0
        for done in desk.follow(wanted):
            self.say(f"round {done} of {wanted} completed")
        hospitals.finish()
        self.say("every hospital has its own model, and has trained on it locally")
        return done

    def _replay(self, known: Known) -> Attempt:
        paths = SitePaths(self.places.site(VICTIM))
        database = Database(paths.journal)
        try:
            answered = Journal(database).answered(STUDY)
        finally:
            database.close()
        with intruder(paths.root, self.clock, known=known) as somebody:
            return somebody.answer_again(answered)

    def _audit(self, desk: Desk) -> dict[str, Any]:
        desk.run("audit", "export", "--out", self.places.audit_log)
        return dict(desk.verify(self.places.audit_log))

    def _receipts(self) -> dict[str, int]:
        """How many receipts the sites hold, by the protection that the server has certified in them."""
        found: dict[str, int] = {}
        for name in HOSPITALS:
            paths = SitePaths(self.places.site(name))
            trust = roots.load(paths, read_site_file(paths))
            database = Database(paths.journal)
            try:
                signed = [row.receipt for row in Journal(database).rounds() if row.receipt]
            finally:
                database.close()
            for receipt in signed:
                protection = trust.from_server(receipt, UploadReceipt).protection
                found[protection] = found.get(protection, 0) + 1
        return found

    def _compare(self, hospitals: Hospitals) -> Comparison:
        study = load(study_path())
        personalised = {}
        for name in HOSPITALS:
            status = hospitals.status(name)
            version = status["version"]
            personalised[name] = {
                RECEIVED: _measures(status["scores"][str(version)]),
                TUNED: _measures(status["scores"][f"{version}-local"]),
            }
        self.say("computing the comparison: majority class, own data only, FedAvg")
        return compare({name: self._records(name, study) for name in HOSPITALS}, study, personalised)

    def _records(self, name: str, study: StudyFile) -> SiteData:
        """The hospital's records as its own client reads them."""
        paths = SitePaths(self.places.site(name))
        source = open_source(
            settings.load(paths.settings).data_for(STUDY), key=read_or_make_key(paths.state / "hold-out.key"),
            allowed_factories=(),
        )  # fmt: skip
        loaded = source.load(study)
        return SiteData(loaded.train, loaded.test)


def _measures(scores: dict[str, float | None]) -> dict[str, float | None]:
    return {measure: scores[measure] for measure in MEASURES}

"""The site's agent: asks the server for news and acts on it, until it is told to stop or everything is done.

For each answer, in this order: studies (verify, pin), outcomes, versions (install, score), invitations (answer,
deliver, or decline), and, when a study is over, local training. Before the first question it takes up what an
earlier run left sealed. Every step may be cut off at any point: the next run goes on from the journal.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from secureproto.errors import Misconfigured, Partial, PolicyDenied, Rejected, SecureProtoError
from secureproto.wire.limits import LIMITS
from secureproto.wire.messages import Invitation, PollReply, StudyKnown
from secureproto.wire.reasons import Reason
from secureproto_client import delivery, procedure, releases, scores, studies
from secureproto_client.invitations import Expected, Standing, judge
from secureproto_client.journal import State
from secureproto_client.learner import Learner, ModelUnfit
from secureproto_client.local_training import finish
from secureproto_client.models import model_name
from secureproto_client.polling import known_of, poll
from secureproto_client.problems import demand
from secureproto_client.releases import EPOCH
from secureproto_client.site import Site
from secureproto_client.studies import Study

PAUSE = 2.0  # after an answer that brought nothing the site could act on: news it cannot use must not become a storm
SUSPENDED_PAUSE = 60.0

log = logging.getLogger(__name__)


@dataclass
class Agent:
    """One run of a site's client. The caller holds the lock of the site's state."""

    site: Site
    sleep: Callable[[float], None]
    # what was offered of studies that this site does not accept: told to the server, or it would offer it again
    _passed_over: dict[str, StudyKnown] = field(default_factory=dict, init=False)
    _studies: dict[str, Study] = field(default_factory=dict, init=False)
    _learners: dict[str, Learner] = field(default_factory=dict, init=False)
    _over: set[str] = field(default_factory=set, init=False)
    _untrained: dict[str, str] = field(default_factory=dict, init=False)

    def run(self, *, until_complete: bool = False) -> None:
        """Work until stopped; with `until_complete` until every accepted study is over and trained on locally.

        Raises:
            SecureProtoError: what a person must look at.
        """
        resumed, wait = False, 0  # the first question is answered at once: it shows that the line works
        while True:
            try:
                if not resumed:
                    self.resume()
                    resumed = True
                acted = self.step(wait=wait)
                wait = LIMITS.poll_seconds
            except Rejected as error:
                self._wait_if_suspended(error)
                continue
            if until_complete and self.complete():
                return self._demand_trained()
            if not acted:
                self.sleep(PAUSE)

    def resume(self) -> None:
        """Take up what an earlier run left: sealed rounds are sent, the outbox is tidied. What was sealed for a study
        that the site no longer takes part in is not sent."""
        accepted = self._accepted()
        for row in self.site.journal.unsent():
            if row.study not in accepted:
                log.warning("study %s round %d: not sent: no longer accepted here", row.study, row.round)
                self.site.journal.close(row.study, row.round, "study_not_accepted")
                continue
            log.info("study %s round %d: taken up again, %s", row.study, row.round, row.state)
            delivery.deliver(self.site, row)
        delivery.tidy(self.site)

    def prepare(self) -> None:
        """Fetch studies and versions, and answer no invitation: what a rehearsal needs."""
        reply = poll(self.site, self._known(), wait=0)
        for ref in reply.studies:
            self._meet(ref.study)
        self._install(reply)

    def step(self, *, wait: int) -> bool:
        """One question and all that follows from its answer. False when there was news that led to nothing."""
        reply = poll(self.site, self._known(), wait=wait)
        news = bool(reply.releases or reply.invitations or reply.outcomes)
        return self._act(reply) or not news

    def complete(self) -> bool:
        """Whether there is an accepted study, and each is over and trained on."""
        names = self._accepted()
        return bool(names) and names <= self._over

    def _act(self, reply: PollReply) -> bool:
        for ref in reply.studies:
            self._meet(ref.study)
        acted = self._note_outcomes(reply)
        acted = self._install(reply) or acted
        for invitation in reply.invitations:
            acted = self._answer(invitation) or acted
        ended = {ref.study for ref in reply.studies if ref.state in ("completed", "closed")}
        for name, study in self._studies.items():
            acted = self._finish(name, study, ended=name in ended) or acted
        return acted

    def _meet(self, name: str) -> None:
        """Fetch, verify, pin and remember a study that the site accepts."""
        if name in self._studies or name in self._passed_over:
            return
        site = self.site
        if name in self._accepted():
            self._studies[name] = studies.load(site.paths, site.facts, name)
            return
        signed = site.link.ask(lambda transport: demand(transport.get(f"/v1/studies/{name}"), 200))
        study = studies.verified(signed, site.link.trust, name)
        try:
            studies.accept(study, signed, paths=site.paths, settings=site.settings, facts=site.facts)
        except PolicyDenied as error:
            log.warning("%s; its digest is %s. %s", error.message, study.descriptor.study_digest, error.hint)
            self._pass_over(name)
            return
        self._studies[name] = study
        log.info("study %s accepted, digest %s", name, study.descriptor.study_digest)

    def _note_outcomes(self, reply: PollReply) -> bool:
        for outcome in reply.outcomes:
            if outcome.study in self._studies:
                self.site.journal.outcome(outcome.study, outcome.round, outcome.outcome, outcome.version)
                log.info("study %s round %d: %s", outcome.study, outcome.round, outcome.outcome)
            else:
                self._pass_over(outcome.study, outcome=outcome.round)
        if reply.outcomes:
            delivery.tidy(self.site)
        return bool(reply.outcomes)

    def _install(self, reply: PollReply) -> bool:
        acted = False
        for release in reply.releases:
            study = self._studies.get(release.study)
            if study is None:
                self._pass_over(release.study, version=release.version)
            elif releases.install(self.site, study, release):
                self._score_received(study, release.version)
                acted = True
        return acted

    def _answer(self, invitation: Invitation) -> bool:
        """Take part in a round, say no to it, or leave it; says whether anything was done."""
        site, study = self.site, self._studies.get(invitation.study)
        row = site.journal.row(invitation.study, invitation.round)
        if row is not None and row.state in (State.DONE, State.CLOSED):
            if study is None:
                self._pass_over(invitation.study, answered=invitation.round)
            return False
        if row is not None and row.state in (State.SEALED, State.SENT):
            delivery.deliver(site, row)
            return True
        if study is None or (row is not None and row.state is State.DECLINED):
            procedure.decline(site, invitation, "study_not_accepted")
            self._pass_over(invitation.study, answered=invitation.round)
            return True
        standing = judge(invitation, study.descriptor, self._expected(study))
        if standing is Standing.LATE:
            site.journal.close(invitation.study, invitation.round, "late")
        if standing is not Standing.READY:
            return standing is Standing.LATE
        if procedure.exhausted(row):
            procedure.decline(site, invitation, "data_unusable")
        else:
            self._take_part(study, invitation)
        return True

    def _take_part(self, study: Study, invitation: Invitation) -> None:
        site = self.site
        try:
            procedure.answer(site, study, self._learner(study), invitation)
        except (Misconfigured, PolicyDenied) as error:
            log.error("%s (%s)", error.message, error.hint)
            del self._learners[study.name]  # the records are read again for the next round
            return procedure.decline(site, invitation, _reason(error))
        row = site.journal.row(invitation.study, invitation.round)
        return delivery.deliver(site, row) if row else None

    def _finish(self, name: str, study: Study, *, ended: bool) -> bool:
        """Local training once the study is over. A site that cannot says why, and serves what it received."""
        latest = self.site.facts.latest(name)
        if name in self._over or latest is None or not (ended or latest.final):
            return False
        try:
            finish(self.site, study, self._learner(study), latest.version)
        except SecureProtoError as error:
            log.error("study %s: no local training: %s (%s)", name, error.message, error.hint)
            self._untrained[name] = error.message
        self._over.add(name)
        return True

    def _score_received(self, study: Study, version: int) -> None:
        name = model_name(version, "received")
        try:
            model = self.site.models(study.name).load(name, study.descriptor.model)
            scored = self._learner(study).score(model.shared, model.head)
        except (Misconfigured, PolicyDenied) as error:
            log.error("study %s: version %d not scored: %s", study.name, version, error.message)
            return
        scores.note(self.site.paths.scores, study.name, name, scored)

    def _learner(self, study: Study) -> Learner:
        if study.name not in self._learners:
            self._learners[study.name] = self.site.learner_of(study)
        return self._learners[study.name]

    def _expected(self, study: Study) -> Expected:
        latest = self.site.facts.latest(study.name)
        return Expected(
            federation=self.site.identity.federation,
            site=self.site.identity.site,
            epoch=self.site.facts.number(EPOCH),
            now=self.site.times.now(),
            latest=latest.version if latest else -1,
            recipient_key=self.site.link.trust.recipient.key_id,
        )

    def _pass_over(self, name: str, *, version: int = -1, outcome: int = -1, answered: int = -1) -> None:
        known = self._passed_over.get(name, StudyKnown(study=name, answered_round=-1, version=-1, outcome_round=-1))
        self._passed_over[name] = StudyKnown(
            study=name,
            answered_round=max(known.answered_round, answered),
            version=max(known.version, version),
            outcome_round=max(known.outcome_round, outcome),
        )

    def _known(self) -> list[StudyKnown]:
        mine = {name: known_of(self.site, name) for name in self._accepted()}
        return list((self._passed_over | mine).values())

    def _accepted(self) -> set[str]:
        settings = self.site.settings
        return {pin.study for pin in self.site.facts.pins() if settings.study(pin.study).takes(pin.study_digest)}

    def _wait_if_suspended(self, error: Rejected) -> None:
        """A suspension is lifted by a person elsewhere: ask again. Any other refusal is for a person here."""
        if error.reason is not Reason.SUSPENDED:
            raise error
        log.warning("this site is suspended: %s", error.message)
        self.sleep(SUSPENDED_PAUSE)

    def _demand_trained(self) -> None:
        """Raises Partial when a study is over and its local training failed."""
        for name, why in self._untrained.items():
            raise Partial(
                f"study {name}: the last version is installed, local training failed: {why}",
                hint="correct it and run again: the version as received is in use meanwhile",
            )


def _reason(error: Misconfigured | PolicyDenied) -> str:
    """What the refusal tells the server: not which record, file or setting it was."""
    if isinstance(error, ModelUnfit) or (isinstance(error, PolicyDenied) and "model_factory" in error.reasons):
        return "model_not_allowed"
    return "data_unusable"

"""What is new for a site: the answer to its long poll.

Invariants: a reply is a function of the rows and of what the site says it has, so that a lost reply costs nothing;
a site hears of rounds only that it was invited to, and nothing of other sites.
"""

from dataclasses import dataclass, replace
from typing import Literal

from secureproto.audit.entries import Event
from secureproto.audit.vocabulary import Action, Role
from secureproto.clock import seconds
from secureproto.crypto.envelope import sign, verify
from secureproto.crypto.keys import PublicKey
from secureproto.errors import Rejected
from secureproto.wire.limits import LIMITS
from secureproto.wire.messages import (
    Invitation,
    PollReply,
    PollRequest,
    Refusal,
    Release,
    RoundOutcome,
    StudyKnown,
    StudyRef,
)
from secureproto.wire.reasons import Reason
from secureproto_server import phases, releases, roots, roster, rounds, studies
from secureproto_server.phases import Phase
from secureproto_server.services import Services
from secureproto_server.storage.records import Participant, ParticipantState, Round, Site, Study
from secureproto_server.storage.store import Transaction

SEEN_SECONDS = 15  # a heartbeat is written at most so often: it is a row, and so a commit
OUTCOMES = 16  # a study, of a site that was away for long: the last ones
AT_ONCE = 8  # releases, and invitations, in one reply: it stays under the limit of a message; the rest is next


@dataclass(frozen=True)
class Poll:
    """A verified poll."""

    request: PollRequest
    site: Site


def authenticate(services: Services, body: bytes, certificate: bytes | None) -> Poll:
    """Who polls.

    Raises:
        Rejected: not signed by an active site, or over another site's connection, or off by over ten minutes.
    """
    peer = roster.peer_of(certificate, services.federation)
    now = seconds(services.clock)
    with services.store.transaction("authenticate poll") as tx:
        site = roster.require_active(roster.require_same(roster.sender(tx, body), peer))
        request = verify(body, PollRequest, {site.signing_key_id: PublicKey.from_b64(site.signing_key)})
        if request.federation != services.federation or request.site != site.site:
            raise Rejected(Reason.WRONG_FEDERATION, "the poll is for another federation or site")
        if abs(request.now - now) > LIMITS.clock_skew:
            raise Rejected(
                Reason.STALE, "the site's clock is off by more than ten minutes", hint="set the clock, then try again"
            )
        if site.last_seen is None or site.last_seen + SEEN_SECONDS <= now:
            tx.put(replace(site, last_seen=now))
    services.metrics.site_seen(site.site, now, skew=request.now - now)
    return Poll(request, site)


def reply(services: Services, poll: Poll) -> tuple[bool, bytes]:
    """Whether there is news, and the signed reply.

    Raises:
        Rejected: the site was excluded since.
    """
    known = {entry.study: entry for entry in poll.request.known}
    with services.store.transaction("gather news") as tx:
        site = roster.require_active(tx.get(Site, poll.site.site))
        rows = tx.select(Study)
        root_version = roots.row_in_force(tx).version
        outcomes = [o for row in rows for o in _outcomes(services, tx, row, site, _known(known, row))]
        invitations = [i for row in rows for i in _invitations(services, tx, row, site, _known(known, row))]
    fresh: list[Release] = [
        releases.release(services, site, row)
        for row in [row for row in rows if row.version > _known(known, row).version][:AT_ONCE]
    ]
    message = PollReply(
        federation=services.federation,
        epoch=services.epoch,
        site=site.site,
        now=seconds(services.clock),
        root_version=root_version,
        studies=tuple(StudyRef(study=r.study, study_digest=r.digest, state=r.state.value) for r in rows),
        releases=tuple(fresh),
        invitations=tuple(invitations[:AT_ONCE]),
        outcomes=tuple(outcomes[:OUTCOMES]),
    )
    news = bool(fresh or invitations or outcomes or root_version > poll.request.root_version)
    return news, sign(message, services.identity.signer)


def decline(services: Services, study: str, number: int, *, certificate: bytes | None, body: bytes) -> None:
    """Take a site's signed refusal of a round. Saying it again changes nothing.

    Raises:
        Rejected: not from an invited, active site, for another round, or the round was answered otherwise.
    """
    peer = roster.peer_of(certificate, services.federation)
    with services.store.transaction("site declines") as tx:
        site = roster.require_active(roster.require_same(roster.sender(tx, body), peer))
        refusal = verify(body, Refusal, {site.signing_key_id: PublicKey.from_b64(site.signing_key)})
        said = (refusal.federation, refusal.epoch, refusal.site)
        if said != (services.federation, services.epoch, site.site):
            raise Rejected(Reason.WRONG_FEDERATION, "the refusal is for another federation, epoch or site")
        if (refusal.study, refusal.round) != (study, number):
            raise Rejected(Reason.WRONG_ROUND, "the refusal is for another round than the request")
        mine = tx.get(Participant, study, number, site.site)
        if mine is None:
            raise Rejected(Reason.WRONG_ROUND, f"{site.site} is not invited to this round")
        if mine.state is ParticipantState.DECLINED:
            return
        if mine.state is not ParticipantState.INVITED:
            raise Rejected(Reason.REPLAYED, f"{site.site} has answered this round: {mine.state}")
        if rounds.standing(tx, study, number).phase is not Phase.COLLECT:
            raise Rejected(Reason.CLOSED, "the round is closed")
        _log_decline(services, tx, mine, refusal)
    services.work.tell()


def _known(known: dict[str, StudyKnown], row: Study) -> StudyKnown:
    return known.get(row.study) or StudyKnown(study=row.study, answered_round=-1, version=-1, outcome_round=-1)


def _outcomes(services: Services, tx: Transaction, row: Study, site: Site, known: StudyKnown) -> list[RoundOutcome]:
    found: list[RoundOutcome] = []
    first = max(known.outcome_round + 1, row.next_round - OUTCOMES)
    for number in range(first, row.next_round):
        round_ = tx.get(Round, row.study, number)
        if round_ is None or round_.outcome is None or tx.get(Participant, row.study, number, site.site) is None:
            continue
        outcome = Phase(round_.outcome)
        found.append(
            RoundOutcome(
                federation=services.federation,
                study=row.study,
                round=number,
                outcome=_WORDS[outcome],
                version=round_.base_version + (outcome is Phase.COMPLETED),
            )
        )
    return found


def _invitations(services: Services, tx: Transaction, row: Study, site: Site, known: StudyKnown) -> list[Invitation]:
    open_round = rounds.current(tx, row.study)
    if open_round is None or known.answered_round >= open_round.round:
        return []
    standing = rounds.standing(tx, row.study, open_round.round)
    mine = next((p for p in standing.participants if p.site == site.site), None)
    if mine is None or mine.state is not ParticipantState.INVITED:
        return []
    if not phases.accepts_upload(standing.phase, standing.rules, now=services.clock.now()):
        return []
    plan = studies.PLANS.of(row)
    return [
        Invitation(
            federation=services.federation,
            epoch=services.epoch,
            site=site.site,
            study=row.study,
            study_digest=row.digest,
            schema_digest=plan.descriptor.schema_digest,
            round=open_round.round,
            base_version=open_round.base_version,
            opened=open_round.opened,
            deadline=open_round.deadline,
            grace=standing.rules.grace,
            policy_digest=row.digest,
            recipient_key=services.identity.hpke_public.key_id,
            plaintext_length=plan.upload_schema.plaintext_length,
            quorum=open_round.quorum,
            invited=len(standing.participants),
        )
    ]


def _log_decline(services: Services, tx: Transaction, mine: Participant, refusal: Refusal) -> None:
    reasons = " ".join(refusal.reasons) or "unsaid"
    tx.put(replace(mine, state=ParticipantState.DECLINED, detail=reasons))
    event = Event(
        actor=mine.site,
        role=Role.SITE,
        action=Action.SITE_DECLINED,
        object=mine.site,
        study=mine.study,
        round=mine.round,
        reason=reasons,
    )
    services.log.append(tx, event)


_WORDS: dict[Phase, Literal["completed", "quorum_missed", "aborted"]] = {
    Phase.COMPLETED: "completed",
    Phase.QUORUM_MISSED: "quorum_missed",
    Phase.ABORTED: "aborted",
}

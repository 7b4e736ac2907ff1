"""A round's life on the store: every transition is one named transaction with its audit entry.

`phases` says what may follow what; this module reads the rows, asks it, and writes. Invariants: a study has at most
one round that has not ended; which sites take part follows from the stored seed, study and round, so it can be
recomputed by an auditor of the server; a transition that is asked for twice happens once.
"""

import hmac
import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

from secureproto.audit.entries import Event
from secureproto.audit.vocabulary import Action, Detail, Role
from secureproto.clock import seconds
from secureproto.errors import Conflict, NotFound
from secureproto.wire.canonical import length_prefixed
from secureproto.wire.messages import Person
from secureproto_server import phases, roster, studies
from secureproto_server.phases import Phase, Rules, Tally
from secureproto_server.services import Services
from secureproto_server.storage.records import (
    Participant,
    ParticipantState,
    Round,
    Site,
    SiteState,
    Study,
    StudyState,
    Upload,
    UploadState,
)
from secureproto_server.storage.store import Transaction

LOG = logging.getLogger("secureproto.server.rounds")


@dataclass(frozen=True)
class Standing:
    """A round as it stands: its row, its rules, its participants."""

    row: Round
    rules: Rules
    participants: tuple[Participant, ...]
    tally: Tally

    @property
    def phase(self) -> Phase:
        return Phase(self.row.phase)


def want(services: Services, person: Person, *, study: str, rounds: int) -> Study:
    """Ask for so many rounds, to be opened one after the other.

    Raises:
        NotFound, Conflict: no such study, it takes no more rounds, or too few sites are enrolled for its quorum.
    """
    with services.store.transaction("ask for rounds") as tx:
        row = studies.require(tx, study)
        rules = studies.PLANS.of(row).file.rounds
        if row.state is not StudyState.OPEN:
            raise Conflict(f"study {study} is {row.state}: it takes no more rounds")
        active = len(roster.active(tx))
        if active < rules.quorum:
            raise Conflict(
                f"study {study} needs {rules.quorum} sites, {active} can take part", hint="approve more sites first"
            )
        row = replace(row, rounds_wanted=min(row.rounds_wanted + rounds, rules.total))
        tx.put(row)
        if current(tx, study) is None:
            _open(services, tx, row, by=person)
        row = studies.require(tx, study)
    services.tell_sites()
    return row


def open_next(services: Services, study: str) -> bool:
    """Open the next wanted round of a study, if there is one and none is running; says whether it did."""
    with services.store.transaction("open round") as tx:
        row = studies.require(tx, study)
        if row.state is not StudyState.OPEN or row.rounds_wanted == 0 or current(tx, study) is not None:
            return False
        phase = _open(services, tx, row, by=None)
    if phase is Phase.QUORUM_MISSED:  # ended as it began, so nobody sees it leave a phase: it is counted here
        services.metrics.round_finished(study, phase.value, seconds=0.0)
    services.tell_sites()
    return True


def current(tx: Transaction, study: str) -> Round | None:
    """The round of a study that has not ended."""
    row = studies.require(tx, study)
    last = tx.get(Round, study, row.next_round - 1) if row.next_round else None
    return last if last is not None and Phase(last.phase) not in phases.ENDS else None


def standing(tx: Transaction, study: str, number: int) -> Standing:
    """A round as it stands.

    Raises:
        NotFound: no such round.
    """
    row = tx.get(Round, study, number)
    if row is None:
        raise NotFound(f"study {study} has no round {number}")
    grace = studies.PLANS.of(studies.require(tx, study)).file.rounds.grace
    participants = tuple(tx.select(Participant, study=study, round=number))
    tally = _tally(participants, _begun(tx, study, number))
    return Standing(row, Rules(row.quorum, row.deadline, grace), participants, tally)


def close_if_due(services: Services, study: str, number: int) -> Phase:
    """Let time and counts decide (`phases.decide`); returns the phase the round is in afterwards."""
    with services.store.transaction("close round") as tx:
        before = standing(tx, study, number)
        now = _without_excluded(tx, before)
        following = phases.decide(now.phase, now.rules, now.tally, now=services.clock.now())
        if following is now.phase is Phase.COLLECT:
            return following  # nothing is written: a site that is suspended now may be back before the round closes
        for participant in set(now.participants) - set(before.participants):
            tx.put(participant)
        if following is now.phase:
            return following
        phases.require_move(now.phase, following)
        if following is Phase.QUORUM_MISSED:
            end(services, tx, now, following, Action.ROUND_QUORUM_MISSED)
        else:
            tx.put(replace(now.row, phase=following.value))
            services.log.append(tx, _event(now, Action.ROUND_CLOSED))
    if following in phases.ENDS:
        services.tell_sites()
    return following


def abort(services: Services, person: Person, *, study: str, number: int, reason: str) -> None:
    """End a round by an operator's decision; its uploads are thrown away, its number is used up.

    Raises:
        NotFound, Conflict: no such round, or it has ended or is being published.
    """
    with services.store.transaction("abort round") as tx:
        now = standing(tx, study, number)
        phases.require_move(now.phase, Phase.ABORTED)
        tx.put(replace(studies.require(tx, study), rounds_wanted=0))
        tx.put(replace(now.row, phase=Phase.ABORTED.value, outcome=Phase.ABORTED.value, closed=_now(services)))
        event = Event(
            actor=person.name,
            role=Role(person.role),
            action=Action.ROUND_ABORTED,
            study=study,
            round=number,
            reason=reason,
        )
        services.log.append(tx, event)
    services.metrics.round_finished(study, Phase.ABORTED.value, seconds=services.clock.now() - now.row.opened)
    services.tell_sites()


def end(services: Services, tx: Transaction, now: Standing, phase: Phase, action: Action | None) -> None:
    """Write a round's end. The caller's transaction holds whatever else the end brings."""
    tx.put(replace(now.row, phase=phase.value, outcome=phase.value, closed=_now(services)))
    if action is not None:
        services.log.append(tx, _event(now, action))


def submitted(standing_: Standing) -> list[str]:
    """Sites whose upload is in, in the order of their names."""
    return [p.site for p in standing_.participants if p.state is ParticipantState.SUBMITTED]


def sample(seed: bytes, study: str, number: int, sites: Sequence[str], count: int) -> list[str]:
    """`count` of the sites, chosen by HMAC under the seed: uniform, and the same whenever it is asked."""

    def draw(site: str) -> bytes:
        return hmac.digest(seed, length_prefixed(study.encode(), str(number).encode(), site.encode()), sha256)

    return sorted(sorted(sites, key=draw)[:count])


def _open(services: Services, tx: Transaction, study: Study, *, by: Person | None) -> Phase:
    """Open the study's next round; the phase it is in then, which is its end when too few sites are left."""
    plan, number, now = studies.PLANS.of(study), study.next_round, _now(services)
    rules = plan.file.rounds
    sites = [site.site for site in roster.active(tx)]
    count = min(len(sites), max(rules.quorum, math.ceil(rules.participation * len(sites))))
    invited = sample(services.sampling_seed, study.study, number, sites, count)
    row = Round(
        study.study, number, study.version, Phase.INVITE.value, now, now + rules.deadline, rules.quorum, None, None
    )
    tx.put(replace(study, next_round=number + 1, rounds_wanted=study.rounds_wanted - 1))
    tx.insert(row)
    for site in invited:
        tx.insert(Participant(study.study, number, site, ParticipantState.INVITED, ""))
    event = Event(
        actor=by.name if by else "server",
        role=Role(by.role) if by else Role.SERVER,
        action=Action.ROUND_OPENED,
        study=study.study,
        round=number,
        policy_digest=study.digest,
        details={
            Detail.INVITED: len(invited),
            Detail.QUORUM: rules.quorum,
            Detail.DEADLINE: row.deadline,
            Detail.BASE_VERSION: study.version,
        },
    )
    services.log.append(tx, event)
    LOG.info("round opened: study=%s round=%d invited=%d", study.study, number, len(invited))
    opened = standing(tx, study.study, number)
    following = phases.decide(Phase.INVITE, opened.rules, opened.tally, now=now)
    if following is Phase.QUORUM_MISSED:
        end(services, tx, opened, following, Action.ROUND_QUORUM_MISSED)
        # the next of the series would end in the same moment: a person opens it again when there are sites
        tx.put(replace(studies.require(tx, study.study), rounds_wanted=0))
    else:
        tx.put(replace(row, phase=following.value))
    return following


def _without_excluded(tx: Transaction, now: Standing) -> Standing:
    """The deny-list, read again: a site that was suspended or revoked meanwhile counts as dropped."""
    participants = tuple(_dropped_if_excluded(tx, participant) for participant in now.participants)
    excluded = {p.site for p in participants if p.state is ParticipantState.DROPPED}
    begun = _begun(tx, now.row.study, now.row.round) - excluded
    return replace(now, participants=participants, tally=_tally(participants, begun))


def _dropped_if_excluded(tx: Transaction, participant: Participant) -> Participant:
    site = tx.get(Site, participant.site)
    if site is not None and site.state is SiteState.ACTIVE:
        return participant
    if participant.state not in (ParticipantState.INVITED, ParticipantState.SUBMITTED):
        return participant
    detail = "unknown_key" if site is None else str(site.state)
    return replace(participant, state=ParticipantState.DROPPED, detail=detail)


def _begun(tx: Transaction, study: str, number: int) -> set[str]:
    """Sites whose manifest is accepted and whose body is not in."""
    return {upload.sender for upload in tx.select(Upload, study=study, round=number, state=UploadState.RESERVED)}


def _tally(participants: Sequence[Participant], begun: set[str]) -> Tally:
    counts = {state: sum(p.state is state for p in participants) for state in ParticipantState}
    uploading = sum(p.state is ParticipantState.INVITED and p.site in begun for p in participants)
    return Tally(
        invited=counts[ParticipantState.INVITED],
        submitted=counts[ParticipantState.SUBMITTED],
        declined=counts[ParticipantState.DECLINED],
        dropped=counts[ParticipantState.DROPPED],
        uploading=uploading,
    )


def _event(now: Standing, action: Action) -> Event:
    return Event(
        actor="server",
        role=Role.SERVER,
        action=action,
        study=now.row.study,
        round=now.row.round,
        details={Detail.UPLOADS: now.tally.submitted, Detail.QUORUM: now.rules.quorum},
    )


def _now(services: Services) -> int:
    return seconds(services.clock)

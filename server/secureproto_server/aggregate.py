"""From a closed round to a published version.

    1. Of the participants, those whose upload is in and who may still take part (the deny-list, read again).
    2. The base version's prototypes, and the heads of the sites outside the round.
    3. Every upload, streamed from its sealed blob in the order of the sites' names (`secureproto.aggregation`).
    4. The new bodies sealed and durable: shared part, each head, the mean for late joiners.
    5. One transaction: rows of the new version, phase `publish`, entry; refused if step 1 would differ by now.
    6. One transaction: the study's version, the round's end, entry. From here sites see it.

Invariants: killed anywhere, the same steps run again from the first that is not durable, with the same uploads, and
make the same numbers (sums are in the order of names); nothing is visible before step 6, nothing is lost after 5.
"""

import logging
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray

from secureproto.aggregation.layout import F64, FlatLayout
from secureproto.aggregation.prototypes import GlobalPrototypes
from secureproto.aggregation.round import RoundAccumulator, RoundResult
from secureproto.aggregation.stopping import StopReason, decide
from secureproto.audit.entries import Event
from secureproto.audit.vocabulary import Action, Detail, Result, Role
from secureproto.errors import Rejected
from secureproto.wire import layouts, tensors
from secureproto.wire.reasons import Reason
from secureproto_server import losses, phases, releases, rounds, studies, uploads, vault
from secureproto_server.phases import Phase
from secureproto_server.services import Services
from secureproto_server.storage.records import (
    Head,
    Meta,
    Participant,
    ParticipantState,
    Published,
    Round,
    Site,
    SiteState,
    Study,
    StudyState,
    Upload,
)

LOG = logging.getLogger("secureproto.server.aggregate")


@dataclass(frozen=True)
class Work:
    """All rows that an aggregation reads, taken in one transaction."""

    study: Study
    plan: studies.Plan
    round: Round
    base: Published
    sites: tuple[Site, ...]
    uploads: tuple[Upload, ...]
    outside: tuple[Head, ...]


class Spoilt(Exception):
    """A stored upload is no longer what was received."""

    def __init__(self, site: str, error: Rejected) -> None:
        super().__init__(site)
        self.site, self.error = site, error


def run(services: Services, study: str, number: int) -> Phase:
    """Steps 1 to 5; returns the phase afterwards: `aggregate` again when the sites changed meanwhile.

    Raises:
        Unavailable: the disk is full or fails; the round stays where it is and is tried again.
        IntegrityBroken: the base version does not open.
    """
    phase = rounds.close_if_due(services, study, number)
    if phase is not Phase.AGGREGATE:
        return phase
    work = _gather(services, study, number)
    try:
        result = _aggregate(services, work)
    except Spoilt as spoilt:
        _drop(services, study, number, spoilt)
        return Phase.AGGREGATE
    except Rejected as error:
        _give_up(services, study, number, error)
        return Phase.ABORTED
    version = work.study.version + 1
    shared, heads = _seal(services, work, result, version)
    history = _history(services, work, result, version)
    return _write(services, work, shared, heads, history)


def complete(services: Services, study: str, number: int) -> Phase:
    """Step 6."""
    why = _stops(services, study)
    with services.store.transaction("publish version") as tx:
        now = rounds.standing(tx, study, number)
        phases.require_move(now.phase, Phase.COMPLETED)
        row = studies.require(tx, study)
        published = releases.require_published(tx, study, row.version + 1)
        state = StudyState.COMPLETED if why and row.state is StudyState.OPEN else row.state
        wanted = row.rounds_wanted if state is StudyState.OPEN else 0
        tx.put(replace(row, version=published.version, state=state, rounds_wanted=wanted))
        rounds.end(services, tx, now, Phase.COMPLETED, None)
        event = Event(
            actor="server",
            role=Role.SERVER,
            action=Action.MODEL_RELEASED,
            object=study,
            object_digest=published.digest,
            study=study,
            round=number,
            reason=str(why) if why else "",
            details={Detail.MODEL_VERSION: published.version, Detail.UPLOADS: now.tally.submitted},
        )
        services.log.append(tx, event)
    if why:
        LOG.info("study is over: study=%s version=%d why=%s", study, published.version, why)
    services.tell_sites()
    return Phase.COMPLETED


def _gather(services: Services, study: str, number: int) -> Work:
    with services.store.transaction("gather uploads") as tx:
        row = studies.require(tx, study)
        now = rounds.standing(tx, study, number)
        names = rounds.submitted(now)
        found_sites = [tx.get(Site, name) for name in names]
        found_uploads = [tx.get(Upload, study, number, name) for name in names]
        heads = tx.select(Head, study=study, version=row.version)
        return Work(
            row,
            studies.PLANS.of(row),
            now.row,
            releases.require_published(tx, study, row.version),
            tuple(site for site in found_sites if site is not None),
            tuple(upload for upload in found_uploads if upload is not None),
            tuple(head for head in heads if head.site != releases.MEAN and head.site not in names),
        )


def _aggregate(services: Services, work: Work) -> RoundResult:
    plan = work.plan
    sites = {site.site: site for site in work.sites}
    by_site = {upload.sender: upload for upload in work.uploads}
    accumulator = RoundAccumulator(
        plan.upload_schema, plan.options, previous=_previous(services, work), sites=sites.keys()
    )
    for name in accumulator.sites:
        try:
            accumulator.accept(name, uploads.stored_pieces(services, plan, by_site[name], sites[name]))
        except Rejected as error:
            raise Spoilt(name, error) from error
    return accumulator.result(outside=_outside(services, work))


def _previous(services: Services, work: Work) -> GlobalPrototypes:
    small: dict[str, NDArray[Any]] = {}
    schema = work.plan.shared_schema
    for tensor in schema.tensors[:2]:  # prototypes and their age; the extractor streams past
        small[tensor.name] = vault.empty(tensor)
    for piece in vault.pieces(schema, vault.open_chunks(services, work.base.blob, work.base.manifest)):
        if piece.tensor.name in small:
            vault.place(small[piece.tensor.name], piece)
    return GlobalPrototypes(small[layouts.PROTOTYPES], small[layouts.PROTOTYPE_AGE])


def _outside(services: Services, work: Work) -> dict[str, F64]:
    layout = FlatLayout(work.plan.head_schema.tensors)
    return {
        head.site: layout.flatten(
            vault.arrays(work.plan.head_schema, vault.open_chunks(services, head.blob, head.manifest))
        )
        for head in work.outside
    }


def _seal(services: Services, work: Work, result: RoundResult, version: int) -> tuple[Published, list[Head]]:
    plan = work.plan
    shared = releases.seal_shared(
        services,
        plan,
        tensors.encode(plan.shared_schema, result.shared_arrays()),
        version=version,
        round_=work.round.round,
    )
    owners = [(site, result.head_arrays(site)) for site in sorted(result.heads)]
    heads = [
        releases.seal_head(services, plan, tensors.encode(plan.head_schema, head), version=version, site=site)
        for site, head in [*owners, (releases.MEAN, result.head_arrays())]
    ]
    return shared, heads


def _history(services: Services, work: Work, result: RoundResult, version: int) -> Meta | None:
    if result.loss is None:
        return None
    history = (*losses.read(services, work.study.study, version - 1), result.loss)
    return losses.seal(services, work.study.study, version, history)


def _write(services: Services, work: Work, shared: Published, heads: list[Head], history: Meta | None) -> Phase:
    study, number = work.round.study, work.round.round
    with services.store.transaction("keep version") as tx:
        now = rounds.standing(tx, study, number)
        if now.phase is not Phase.AGGREGATE:
            return now.phase  # aborted meanwhile
        phases.require_move(now.phase, Phase.PUBLISH)
        rows = [tx.get(Site, name) for name in rounds.submitted(now)]
        if [row.site for row in rows if row and row.state is SiteState.ACTIVE] != [s.site for s in work.sites]:
            return Phase.AGGREGATE  # somebody was excluded meanwhile: again, without that site
        tx.put(shared)
        for head in heads:
            tx.put(head)
        if history is not None:
            losses.write(tx, history, study, shared.version)
        tx.put(replace(now.row, phase=Phase.PUBLISH.value))
        event = Event(
            actor="server",
            role=Role.SERVER,
            action=Action.MODEL_PUBLISHED,
            object=study,
            object_digest=shared.digest,
            study=study,
            round=number,
            details={Detail.MODEL_VERSION: shared.version},
        )
        services.log.append(tx, event)
    return Phase.PUBLISH


def _stops(services: Services, study: str) -> StopReason | None:
    """Why the version about to be published is the study's last, if it is (METHOD, A round, step 6)."""
    with services.store.transaction("read study") as tx:
        row = studies.require(tx, study)
    history = losses.read(services, study, row.version + 1)
    rule = studies.PLANS.of(row).stopping
    return decide(rule, rounds_completed=row.version + 1, losses=history)


def _drop(services: Services, study: str, number: int, spoilt: Spoilt) -> None:
    """Go on without a site whose stored upload is broken; whether that is still a quorum, `phases` decides."""
    reason = Reason(spoilt.error.reason)
    services.metrics.upload_rejected(spoilt.site, reason)
    with services.store.transaction("drop broken upload") as tx:
        tx.put(Participant(study, number, spoilt.site, ParticipantState.DROPPED, str(reason)))
        event = Event(
            actor="server",
            role=Role.SERVER,
            action=Action.UPLOAD_REJECTED,
            result=Result.REFUSED,
            object=spoilt.site,
            study=study,
            round=number,
            reason=str(reason),
        )
        services.log.append(tx, event)


def _give_up(services: Services, study: str, number: int, error: Rejected) -> None:
    """End a round that has no result, e.g. because no site holds a record."""
    with services.store.transaction("abort round") as tx:
        now = rounds.standing(tx, study, number)
        rounds.end(services, tx, now, Phase.ABORTED, None)
        event = Event(
            actor="server",
            role=Role.SERVER,
            action=Action.ROUND_ABORTED,
            study=study,
            round=number,
            reason=error.message,
        )
        services.log.append(tx, event)
    services.tell_sites()

"""Gauges that are a view of the rows: set from them again after each look of the coordinator, and at the start."""

from collections import Counter

from secureproto.errors import SecureProtoError
from secureproto_server import rounds
from secureproto_server.services import Services
from secureproto_server.storage.records import (
    Enrolment,
    EnrolmentState,
    Participant,
    Site,
    SiteState,
    Study,
    StudyState,
)


def refresh(services: Services) -> None:
    """Set them. While the database does not answer they stay as they are: other metrics tell of that."""
    metrics = services.metrics
    try:
        with services.store.transaction("read gauges") as tx:
            sites = tx.select(Site)
            pending = len({row.site for row in tx.select(Enrolment, state=EnrolmentState.PENDING)})
            studies = tx.select(Study)
            running = {row.study: rounds.current(tx, row.study) for row in studies}
            states = {
                study: Counter(str(p.state) for p in tx.select(Participant, study=study, round=row.round))
                for study, row in running.items()
                if row is not None
            }
    except SecureProtoError:
        return
    metrics.sites({"pending": pending, **Counter(str(site.state) for site in sites)})
    for site in sites:
        if site.state is not SiteState.WITHDRAWN:
            metrics.site_known(site.site)
    for study in studies:
        if study.state is StudyState.CLOSED:
            metrics.study_gone(study.study)
            continue
        metrics.study_known(study.study)
        row = running[study.study]
        metrics.participants(study.study, states.get(study.study, {}))
        if row is not None:
            metrics.round_opened(study.study, deadline=row.deadline, quorum=row.quorum)

"""Every refusal of an upload is counted, and logged as an entry with its reason.

Invariants: the label and the actor are the site of the TLS certificate, never what a request says of itself; a
stranger (no certificate) is counted and shows in the process's log, but cannot make the audit log grow, and a site
only slowly (`allowance`); a refusal that ends a site's part in a round is one transaction with that change.
"""

import logging

from secureproto.audit.entries import Event
from secureproto.audit.vocabulary import Action, Detail, Result, Role
from secureproto.errors import Rejected, SecureProtoError
from secureproto.wire.reasons import Reason
from secureproto_server.services import Services
from secureproto_server.storage.records import Participant, ParticipantState, Site, Upload

STRANGER = "unattributed"
LOG = logging.getLogger("secureproto.server.refusals")


def note(services: Services, error: Rejected, *, site: str | None, study: str, number: int) -> None:
    """Count and log a refusal. Failing to log it does not turn it into anything else: it stays refused."""
    reason = Reason(error.reason)
    site = _enrolled(services, site)
    services.metrics.upload_rejected(site or STRANGER, reason)
    LOG.warning("upload refused: site=%s study=%s round=%d reason=%s", site or STRANGER, study, number, reason)
    left_out = None if site is None else services.refusals.take(site)
    if site is None or left_out is None:
        return
    try:
        with services.store.transaction("log refused upload") as tx:
            services.log.append(tx, _event(site, reason, study=study, number=number, left_out=left_out))
    except SecureProtoError as failure:
        services.metrics.audit_append_failed()
        LOG.error("a refusal could not be logged: %s", failure.message)


def drop(services: Services, upload: Upload, error: Rejected) -> None:
    """The site has answered its round with a body that cannot be used: it is out of the round, and that is logged."""
    reason = Reason(error.reason)
    services.metrics.upload_rejected(upload.sender, reason)
    LOG.warning(
        "upload refused: site=%s study=%s round=%d reason=%s", upload.sender, upload.study, upload.round, reason
    )
    with services.store.transaction("drop site from round") as tx:
        tx.put(Participant(upload.study, upload.round, upload.sender, ParticipantState.DROPPED, str(reason)))
        services.log.append(tx, _event(upload.sender, reason, study=upload.study, number=upload.round))
    services.work.tell()


def _enrolled(services: Services, site: str | None) -> str | None:
    """The name, if it is one of ours: labels and actors never come from elsewhere."""
    if site is None:
        return None
    with services.store.transaction("read site") as tx:
        return site if tx.get(Site, site) is not None else None


def _event(site: str, reason: Reason, *, study: str, number: int, left_out: int = 0) -> Event:
    return Event(
        actor=site,
        role=Role.SITE,
        action=Action.UPLOAD_REJECTED,
        result=Result.REFUSED,
        object="upload",
        study=study,
        round=number,
        reason=str(reason),
        details={Detail.LEFT_OUT: left_out} if left_out else {},
    )

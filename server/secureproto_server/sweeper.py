"""Housekeeping, each minute: what has expired or is no longer named is removed.

Invariants: nothing that a row still needs is removed; de-duplication rows (uploads, used tokens) stay, for they
outlive what they answer; a nonce stays until no request that carries it can be valid any more.
"""

import logging
from dataclasses import replace

from secureproto.clock import seconds
from secureproto.errors import SecureProtoError
from secureproto_server import losses, phases
from secureproto_server.phases import Phase
from secureproto_server.services import Services
from secureproto_server.storage.records import (
    Head,
    Nonce,
    Published,
    Round,
    Study,
    Token,
    TokenState,
    Upload,
    UploadState,
)
from secureproto_server.storage.store import Transaction

HEADS_KEPT = 2  # versions: the newest, and the one a site may be fetching at this moment
LOG = logging.getLogger("secureproto.server.sweeper")


def sweep(services: Services) -> None:
    """Do it once. A failure is logged, and the next minute tries again."""
    try:
        now = seconds(services.clock)
        with services.publishing:  # a body whose row is about to be written is not an orphan
            with services.store.transaction("sweep") as tx:
                _expire(tx, now)
                _forget_old_heads(tx)
                keep = _named(tx)
            removed = services.blobs.sweep(keep)
    except (SecureProtoError, OSError) as error:
        LOG.error("housekeeping failed: %s", error)
        return
    if removed:
        LOG.info("removed %d objects that nothing names any more", len(removed))


def _expire(tx: Transaction, now: int) -> None:
    for nonce in tx.select(Nonce):
        if nonce.expires < now:
            tx.delete(Nonce, nonce.nonce)
    for token in tx.select(Token, state=TokenState.ISSUED):
        if token.expires < now:
            tx.put(replace(token, state=TokenState.VOID))


def _forget_old_heads(tx: Transaction) -> None:
    for study in tx.select(Study):
        for head in tx.select(Head, study=study.study):
            if head.version <= study.version - HEADS_KEPT:
                tx.delete(Head, head.study, head.site, head.version)


def _named(tx: Transaction) -> set[str]:
    """Every blob that a row still needs. Uploads of a round that has ended are no longer needed."""
    keep = {row.blob for row in tx.select(Published)} | {row.blob for row in tx.select(Head)}
    keep |= {losses.blob_name(study.study, study.version + ahead) for study in tx.select(Study) for ahead in (0, 1)}
    for round_ in tx.select(Round):
        if Phase(round_.phase) not in phases.ENDS:
            rows = tx.select(Upload, study=round_.study, round=round_.round)
            keep |= {row.blob for row in rows if row.state in (UploadState.RESERVED, UploadState.RECEIVED)}
    return keep

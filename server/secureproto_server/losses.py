"""The federation's loss after each completed round, for a stopping rule: sealed at rest, as every figure of sites is.

Invariant: one number a completed round, the mean over the round's sites; no single site's loss is ever kept. With a
study that has no stopping rule nothing is kept at all.
"""

import json
from collections.abc import Sequence
from typing import ClassVar

from secureproto.wire import base64url
from secureproto.wire.messages.base import Count, Message, Name
from secureproto_server import vault
from secureproto_server.services import Services
from secureproto_server.storage.records import Meta
from secureproto_server.storage.store import Transaction


class LossesCore(Message):
    """What a history of losses is sealed under."""

    LABEL: ClassVar[str] = "secureproto/v1/losses"
    federation: Name
    study: Name
    version: Count


def blob_name(study: str, version: int) -> str:
    """The blob of the history that ends with a version."""
    return f"losses.{study}.{version}"


def read(services: Services, study: str, version: int) -> tuple[float, ...]:
    """The losses up to a version, oldest first; empty when none were kept."""
    with services.store.transaction("read losses") as tx:
        row = tx.get(Meta, _key(study, version))
    if row is None:
        return ()
    body = b"".join(vault.open_chunks(services, blob_name(study, version), base64url.decode(row.value)))
    return tuple(float.fromhex(text) for text in json.loads(body))


def seal(services: Services, study: str, version: int, history: Sequence[float]) -> Meta:
    """Make a history durable; returns its row, not yet written."""
    core = LossesCore(federation=services.federation, study=study, version=version)
    body = json.dumps([loss.hex() for loss in history]).encode()
    manifest = vault.seal(services, blob_name(study, version), core, [body])
    return Meta(_key(study, version), base64url.encode(manifest))


def write(tx: Transaction, row: Meta, study: str, version: int) -> None:
    """Keep the history of a version, and forget the one before it."""
    tx.put(row)
    tx.delete(Meta, _key(study, version - 1))


def _key(study: str, version: int) -> str:
    return f"losses.{study}.{version}"

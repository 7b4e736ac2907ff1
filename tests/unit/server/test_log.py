from pathlib import Path

import pytest

from secureproto.audit import checkpoint as notes
from secureproto.audit.entries import Event
from secureproto.audit.export import Record, SignedCheckpoint
from secureproto.audit.receipt import verify_receipt
from secureproto.audit.verify import verify_records
from secureproto.audit.vocabulary import Action, Role
from secureproto.errors import IntegrityBroken, Unavailable
from secureproto_server.log import HEAD
from secureproto_server.storage.records import Meta
from support.parts import Parts, parts_in

STOPPED = Event(actor="server", role=Role.SERVER, action=Action.SERVER_STOPPED)


@pytest.fixture
def parts(tmp_path: Path) -> Parts:
    return parts_in(tmp_path)


def test_every_entry_is_proved_by_the_checkpoint_that_ends_with_it(parts: Parts) -> None:
    log, keys = (
        parts.services.log,
        {parts.services.identity.signer.public.key_id: parts.services.identity.signer.public},
    )
    for number in range(70):
        with parts.services.store.transaction("test") as tx:
            proved = log.append_proved(tx, STOPPED)
        assert proved.sequence == number
        verify_receipt(
            proved.data,
            [bytes.fromhex(node) for node in proved.proof],
            index=number,
            checkpoint_text=proved.checkpoint,
            origin=log.origin,
            keys=keys,
        )


def test_the_whole_log_verifies_and_pages_miss_nothing(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secureproto_server.log.PAGE", 3)
    services = parts.services
    for _ in range(10):
        with services.store.transaction("test") as tx:
            services.log.append(tx, STOPPED)
    text = services.log.checkpoint(services.store)
    key = services.identity.signer.public
    records: list[Record] = [*services.log.entries(services.store, 0, 100), SignedCheckpoint(text)]
    assert verify_records(records, origin=services.log.origin, keys={key.key_id: key}).size == 10
    assert len(list(services.log.entries(services.store, 4, 5))) == 5
    assert list(services.log.entries(services.store, 10, 5)) == []


def test_an_entry_of_a_transaction_that_failed_is_not_there(parts: Parts) -> None:
    services = parts.services
    with pytest.raises(KeyError), services.store.transaction("fails") as tx:
        raise KeyError(services.log.append(tx, STOPPED).entry.sequence)
    assert services.log.size(services.store) == 0
    assert list(services.log.entries(services.store, 0, 5)) == []


def test_a_checkpoint_is_signed_once_for_a_size(parts: Parts) -> None:
    services = parts.services
    first = services.log.checkpoint(services.store)
    assert services.log.checkpoint(services.store) is first
    with services.store.transaction("test") as tx:
        services.log.append(tx, STOPPED)
    second = services.log.checkpoint(services.store)
    key = services.identity.signer.public
    assert notes.verify(second, services.log.origin, keys={key.key_id: key}).size == 1


def test_nothing_is_logged_by_a_clock_that_was_set_back(parts: Parts) -> None:
    parts.clock.advance(-100)
    with pytest.raises(Unavailable), parts.services.store.transaction("test") as tx:
        parts.services.log.append(tx, STOPPED)


def test_a_log_that_has_lost_its_head_is_an_alarm(parts: Parts) -> None:
    services = parts.services
    with services.store.transaction("test") as tx:
        services.log.append(tx, STOPPED)
    with services.store.transaction("somebody at the database") as tx:
        tx.delete(Meta, HEAD)
    with pytest.raises(IntegrityBroken, match="entries and no head"), services.store.transaction("next") as tx:
        services.log.append(tx, STOPPED)

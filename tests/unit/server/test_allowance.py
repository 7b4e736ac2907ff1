"""A site cannot make the audit log grow without end, and nothing it did is lost from the count."""

from pathlib import Path

from secureproto.audit.entries import Entry
from secureproto.audit.vocabulary import Action, Detail
from secureproto.clock import ManualClock
from secureproto.errors import Rejected
from secureproto.wire.reasons import Reason
from secureproto_server import refusals
from secureproto_server.allowance import AT_ONCE, REFILL_SECONDS, Allowance
from support.parts import Parts, parts_in
from support.sending import begun


def entries(parts: Parts) -> list[Entry]:
    services = parts.services
    logged = services.log.entries(services.store, 0, services.log.size(services.store))
    return [entry for entry in (Entry.parse(row.data) for row in logged) if entry.action == Action.UPLOAD_REJECTED]


def refuse(parts: Parts, times: int) -> None:
    for _ in range(times):
        error = Rejected(Reason.STALE, "no")
        refusals.note(parts.services, error, site="alpha", study="trial", number=0)


def test_so_many_at_once_then_one_a_minute() -> None:
    clock = ManualClock(1_800_000_000)
    allowance = Allowance(clock)
    taken = [allowance.take("alpha") for _ in range(AT_ONCE + 40)]
    assert taken == [0] * AT_ONCE + [None] * 40
    assert allowance.take("beta") == 0
    clock.advance(REFILL_SECONDS)
    assert allowance.take("alpha") == 40
    assert allowance.take("alpha") is None
    clock.advance(2 * AT_ONCE * REFILL_SECONDS)
    assert [allowance.take("alpha") for _ in range(AT_ONCE + 1)] == [1] + [0] * (AT_ONCE - 1) + [None]


def test_refusals_are_all_in_the_log_by_entry_or_by_number(tmp_path: Path) -> None:
    parts = parts_in(tmp_path)
    begun(parts, tmp_path, "alpha", "beta")
    refuse(parts, AT_ONCE + 25)
    assert len(entries(parts)) == AT_ONCE
    parts.clock.advance(REFILL_SECONDS)
    refuse(parts, 1)
    found = entries(parts)
    assert len(found) == AT_ONCE + 1
    assert found[-1].details == {Detail.LEFT_OUT: 25}
    assert b'reason="stale",site="alpha"} 86.0' in parts.services.metrics.exposition()

"""Every ledger keeps the promises of `secureproto.privacy.ledger.seam`."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from secureproto.errors import ApprovalNeeded, Conflict, IntegrityBroken, Rejected
from secureproto.privacy.ledger.charging import Charging
from secureproto.privacy.ledger.entries import Begun, Imported, Mirrored, Opened, Reserved
from secureproto.privacy.ledger.memory import MemoryLedger
from secureproto.privacy.ledger.seam import Ledger
from secureproto.privacy.ledger.state import Phase, State
from secureproto_client.ledger.file import SqliteLedger
from support.ledgers import NOW, START, begun, claim, committed, counting, link, opened


class LedgerContract:
    """What any ledger must pass; a subclass gives `ledger`, with its first entry `opened()` and no more."""

    def test_it_begins_with_its_first_entry(self, ledger: Ledger) -> None:
        assert ledger.entries() == (opened(),)
        assert ledger.state == State.begin(opened())
        assert ledger.find(opened().digest())

    def test_state_is_what_the_entries_say_after_each(self, ledger: Ledger) -> None:
        charging = Charging(ledger)
        for number in range(3):
            committed(charging, claim(number))
            begun(charging, claim(number, study="lung"))
            assert State.replay(ledger.entries()) == ledger.state
        assert len(ledger.entries()) == 22
        assert [entry.sequence for entry in ledger.entries()] == list(range(22))

    def test_append_returns_the_state_after(self, ledger: Ledger) -> None:
        before = ledger.state
        entry = Reserved(claim=claim(), time=START, **link(before))
        assert ledger.append(entry) == ledger.state == before.after(entry)
        assert ledger.state.reservation(entry.digest()).phase is Phase.RESERVED

    def test_a_refused_entry_changes_nothing(self, ledger: Ledger) -> None:
        Charging(ledger).reserve(claim(), counting(), NOW)
        entries, state = ledger.entries(), ledger.state
        for wrong, family in (
            (Begun(reservation="e" * 64, **link(state)), Conflict),
            (Begun(reservation="e" * 64, **link(state, sequence=7)), IntegrityBroken),
            (Reserved(claim=claim(1), time=START, **link(state, previous="0" * 64)), IntegrityBroken),
            (Reserved(claim=claim(1), time=START + 601, **link(state)), ApprovalNeeded),
            (opened(**link(state)), IntegrityBroken),
            (Reserved(claim=claim(1), time=START, **link(state)).model_copy(update={"salt": "x"}), ValueError),
        ):
            with pytest.raises(family):
                ledger.append(wrong)
            assert ledger.entries() == entries
            assert ledger.state == state

    def test_every_head_is_found_and_no_other(self, ledger: Ledger) -> None:
        committed(Charging(ledger), claim())
        assert all(ledger.find(entry.digest()) for entry in ledger.entries())
        assert not ledger.find("0" * 64)
        assert not ledger.find("")

    def test_an_imported_head_is_found(self, ledger: Ledger) -> None:
        mirrored = Mirrored(study="lung", through=4, head="9" * 64, mirror="8" * 64, events=())
        ledger.append(Imported(mirrored=mirrored, time=START, **link(ledger.state)))
        assert ledger.find("9" * 64)
        assert not ledger.find("8" * 64)

    def test_long_ledgers_stay_whole(self, ledger: Ledger) -> None:
        charging = Charging(ledger)
        for number in range(30):
            charging.reserve(claim(number), counting(), NOW)
        assert sum(times for _, times in charging.spent()) == 30

    def test_closing_again_is_nothing(self, ledger: Ledger) -> None:
        ledger.close()
        ledger.close()


class TestMemoryLedger(LedgerContract):
    @pytest.fixture
    def ledger(self) -> Ledger:
        return MemoryLedger(opened())


class TestSqliteLedger(LedgerContract):
    @pytest.fixture
    def ledger(self, tmp_path: Path) -> Iterator[Ledger]:
        ledger = SqliteLedger.create(tmp_path / "heart.ledger", opened())
        yield ledger
        ledger.close()


def test_entries_are_messages_like_all_others() -> None:
    with pytest.raises(Rejected):
        Opened.parse(opened().canonical() + b" ")

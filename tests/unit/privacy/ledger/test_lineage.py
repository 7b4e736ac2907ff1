"""Which ledgers count for a data set, and who may begin with nothing spent."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secureproto.errors import IntegrityBroken, PolicyDenied
from secureproto.privacy.events import Gaussian
from secureproto.privacy.ledger.charging import Charging
from secureproto.privacy.ledger.entries import Declaration, Opened, Origin
from secureproto.privacy.ledger.lineage import check_opening, family, roots
from secureproto.privacy.ledger.memory import MemoryLedger
from support.ledgers import NOW, OFFICER, SERVER, SITE, claim, committed, counting, derived, hex_id, opened, text_of

A, B, UNION, SUBSET, OTHER = (letter * 32 for letter in "abcde")
OFFICERS = {OFFICER.public.key_id: OFFICER.public}


def spend(ledger: MemoryLedger, noise: float, *kin: MemoryLedger) -> None:
    data_set = ledger.state.opened.data_set
    committed(Charging(ledger, kin=kin), claim(len(ledger.entries()), data_set=data_set, events=[Gaussian(noise)]))


def declared(data_set: str, *, signer: Any = OFFICER, of: str = "", site: str = SITE) -> Opened:
    said = Declaration(site=site, data_set=of or data_set)
    signature = text_of(signer.sign(Declaration.LABEL, said.canonical()))
    return opened(data_set, origin=Origin.DECLARED, officer=signer.public.key_id, signature=signature)


def names(ledgers: tuple[Any, ...]) -> set[str]:
    return {ledger.state.opened.data_set for ledger in ledgers}


def test_an_ancestor_on_two_ways_counts_once() -> None:
    one = MemoryLedger(opened(A))
    spend(one, 2.0)
    left, right = MemoryLedger(derived(B, one.state)), MemoryLedger(derived(SUBSET, one.state))
    spend(left, 3.0, one)
    union = MemoryLedger(derived(UNION, left.state, right.state))
    spend(union, 4.0, one, left, right)
    spent = Charging(union, kin=[one, left, right, one]).spent()
    assert spent == ((Gaussian(2.0), 1), (Gaussian(3.0), 1), (Gaussian(4.0), 1))


def test_what_a_parent_spends_later_counts_for_the_child_too() -> None:
    parent = MemoryLedger(opened(A))
    child = MemoryLedger(derived(B, parent.state))
    charging = Charging(child, kin=[parent])
    spend(parent, 2.0)
    assert charging.spent() == ((Gaussian(2.0), 1),)


def test_all_that_may_share_a_record_count_and_no_others() -> None:
    one, two, apart = (MemoryLedger(opened(name)) for name in (A, B, OTHER))
    union, subset = MemoryLedger(derived(UNION, one.state, two.state)), MemoryLedger(derived(SUBSET, one.state))
    everyone = [one, two, apart, union, subset]
    assert names(family(one, everyone)) == {A, UNION, SUBSET}
    assert names(family(two, everyone)) == {B, UNION}
    assert names(family(union, everyone)) == {A, B, UNION, SUBSET}
    assert names(family(apart, everyone)) == {OTHER}
    for ledger in everyone:
        assert family(ledger, everyone)[0] is ledger


@given(st.lists(st.sets(st.integers(0, 6)), min_size=1, max_size=7))
def test_roots_are_what_a_search_of_all_ways_finds(drawn: list[set[int]]) -> None:
    parents = {str(i): {str(j) for j in above if j < i} for i, above in enumerate(drawn)}

    def slow(name: str) -> set[str]:
        return set().union(*(slow(above) for above in parents[name])) if parents[name] else {name}

    assert all(roots(name, parents) == slow(name) for name in parents)


def test_a_missing_ancestor_or_one_that_went_back_stops_the_child() -> None:
    parent = MemoryLedger(opened(A))
    before = MemoryLedger(opened(A))
    spend(parent, 2.0)
    child = MemoryLedger(derived(B, parent.state))
    with pytest.raises(IntegrityBroken, match="not here"):
        Charging(child)
    with pytest.raises(IntegrityBroken, match="went back"):
        Charging(child, kin=[before])
    grandchild = MemoryLedger(derived(SUBSET, child.state))
    with pytest.raises(IntegrityBroken, match="not here"):
        Charging(grandchild, kin=[child])


def test_two_copies_that_went_apart_are_an_alarm() -> None:
    one, copy = MemoryLedger(opened(A)), MemoryLedger(opened(A))
    assert len(family(one, [copy])) == 1
    spend(copy, 2.0)
    with pytest.raises(IntegrityBroken, match="copies"):
        family(one, [copy])


def test_a_lost_ledger_and_its_successor_both_count() -> None:
    old, new = MemoryLedger(opened(A)), MemoryLedger(opened(A, origin=Origin.RECOVERED, ledger=hex_id(9)))
    spend(old, 2.0)
    assert Charging(new, kin=[old]).spent() == ((Gaussian(2.0), 1),)


def test_only_the_first_begins_by_itself() -> None:
    first = MemoryLedger(opened(A))
    check_opening(opened(A), officers={}, others=[])
    with pytest.raises(PolicyDenied) as caught:
        check_opening(opened(B), officers=OFFICERS, others=[first])
    assert caught.value.reasons == ("data_set_not_first",)


def test_a_new_one_needs_the_officers_signature_over_its_own_id() -> None:
    first = MemoryLedger(opened(A))
    check_opening(declared(B), officers=OFFICERS, others=[first])
    with pytest.raises(PolicyDenied, match="not that of a privacy officer"):
        check_opening(declared(B, signer=SERVER), officers=OFFICERS, others=[first])
    for wrong in (declared(B, of=UNION), declared(B, site="hungary")):
        with pytest.raises(IntegrityBroken, match="does not verify"):
            check_opening(wrong, officers=OFFICERS, others=[first])


def test_a_derived_one_needs_its_parents_as_they_are() -> None:
    parent = MemoryLedger(opened(A))
    start = parent.state
    spend(parent, 2.0)
    check_opening(derived(B, start), officers={}, others=[parent])
    check_opening(derived(B, parent.state), officers={}, others=[parent])
    with pytest.raises(IntegrityBroken, match="not here"):
        check_opening(derived(B, parent.state), officers={}, others=[])
    with pytest.raises(IntegrityBroken, match="went back"):
        check_opening(derived(B, parent.state), officers={}, others=[MemoryLedger(opened(A))])


def test_a_study_over_two_versions_of_a_data_set_spends_one_budget() -> None:
    parent = MemoryLedger(opened(A))
    spend(parent, 2.0)
    child = MemoryLedger(derived(B, parent.state))
    charging = Charging(child, kin=[parent])
    charging.reserve(claim(data_set=B, study="lung"), counting(), NOW)
    assert charging.spent_by("heart") == ((Gaussian(2.0), 1),)
    assert charging.spent_by("lung") == ((Gaussian(4.0), 1),)

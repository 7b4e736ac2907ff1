"""The life of a round: each rule of `phases`, by example and by property."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secureproto.errors import Conflict
from secureproto_server.phases import (
    ENDS,
    MOVES,
    Phase,
    Rules,
    Tally,
    accepts_body,
    accepts_upload,
    decide,
    require_move,
)

RULES = Rules(quorum=2, deadline=100, grace=10)

small = st.integers(0, 6)
rules = st.builds(Rules, quorum=st.integers(1, 6), deadline=st.integers(0, 50), grace=st.integers(0, 20))
times = st.integers(0, 100)


@st.composite
def tallies(draw: st.DrawFn) -> Tally:
    invited = draw(small)
    return Tally(invited, draw(small), draw(small), draw(small), draw(st.integers(0, invited)))


@pytest.mark.parametrize(
    ("tally", "now", "expected"),
    [
        (Tally(invited=4), 0, Phase.COLLECT),
        (Tally(invited=1, submitted=3), 99, Phase.COLLECT),  # one may still come
        (Tally(submitted=3, declined=1), 50, Phase.AGGREGATE),  # all have answered
        (Tally(submitted=1, declined=3), 50, Phase.QUORUM_MISSED),
        (Tally(invited=1, declined=3), 50, Phase.QUORUM_MISSED),  # cannot be reached any more
        (Tally(invited=2, submitted=2), 100, Phase.AGGREGATE),  # deadline, nothing under way
        (Tally(invited=2, submitted=1), 100, Phase.QUORUM_MISSED),
        (Tally(invited=2, submitted=1, uploading=1), 100, Phase.COLLECT),  # within the grace
        (Tally(invited=2, submitted=1, uploading=1), 110, Phase.QUORUM_MISSED),
        (Tally(invited=2, submitted=2, uploading=1), 110, Phase.AGGREGATE),
    ],
)
def test_collect(tally: Tally, now: int, expected: Phase) -> None:
    assert decide(Phase.COLLECT, RULES, tally, now=now) is expected


def test_a_round_without_enough_sites_ends_at_once() -> None:
    assert decide(Phase.INVITE, RULES, Tally(invited=1), now=0) is Phase.QUORUM_MISSED
    assert decide(Phase.INVITE, RULES, Tally(invited=2), now=0) is Phase.COLLECT


def test_sites_revoked_during_aggregation_can_cost_the_quorum() -> None:
    assert decide(Phase.AGGREGATE, RULES, Tally(submitted=2), now=0) is Phase.AGGREGATE
    assert decide(Phase.AGGREGATE, RULES, Tally(submitted=1, dropped=1), now=0) is Phase.QUORUM_MISSED


def test_uploads_begin_before_the_deadline_and_end_within_the_grace() -> None:
    assert accepts_upload(Phase.COLLECT, RULES, now=99.9)
    assert not accepts_upload(Phase.COLLECT, RULES, now=100)
    assert accepts_body(Phase.COLLECT, RULES, now=109.9)
    assert not accepts_body(Phase.COLLECT, RULES, now=110)
    for phase in set(Phase) - {Phase.COLLECT}:
        assert not accepts_upload(phase, RULES, now=0)
        assert not accepts_body(phase, RULES, now=0)


def test_ends_are_final_and_publish_only_completes() -> None:
    assert {phase for phase in Phase if not MOVES[phase]} == ENDS
    assert MOVES[Phase.PUBLISH] == {Phase.COMPLETED}
    assert set(MOVES) == set(Phase)


@pytest.mark.parametrize("current", list(Phase))
@pytest.mark.parametrize("following", list(Phase))
def test_every_other_move_is_refused(current: Phase, following: Phase) -> None:
    if following in MOVES[current]:
        require_move(current, following)
    else:
        with pytest.raises(Conflict, match="cannot become"):
            require_move(current, following)


def test_no_phase_comes_back() -> None:
    def reachable(phase: Phase) -> set[Phase]:
        return set(MOVES[phase]).union(*(reachable(following) for following in MOVES[phase]))

    assert not [phase for phase in Phase if phase in reachable(phase)]


@pytest.mark.parametrize("counts", [{"invited": -1}, {"uploading": 1}])
def test_impossible_counts_are_misuse(counts: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="impossible"):
        Tally(**counts)


@pytest.mark.parametrize(("quorum", "grace"), [(0, 0), (1, -1)])
def test_impossible_rules_are_misuse(quorum: int, grace: int) -> None:
    with pytest.raises(ValueError, match="quorum"):
        Rules(quorum, 0, grace)


@given(st.sampled_from(Phase), rules, tallies(), times)
def test_decisions_are_legal_moves(phase: Phase, rules: Rules, tally: Tally, now: int) -> None:
    following = decide(phase, rules, tally, now=now)
    assert following is phase or following in MOVES[phase]
    assert following is phase or following is not Phase.ABORTED  # that is a person's decision


@given(rules, tallies(), times)
def test_only_a_quorum_is_aggregated(rules: Rules, tally: Tally, now: int) -> None:
    for phase in (Phase.COLLECT, Phase.AGGREGATE):
        if decide(phase, rules, tally, now=now) is Phase.AGGREGATE:
            assert tally.submitted >= rules.quorum


@given(rules, tallies())
def test_no_round_hangs(rules: Rules, tally: Tally) -> None:
    assert decide(Phase.COLLECT, rules, tally, now=rules.deadline + rules.grace) is not Phase.COLLECT


@given(rules, tallies(), times)
def test_the_round_is_not_closed_on_an_upload_that_may_still_count(rules: Rules, tally: Tally, now: int) -> None:
    hopeless = tally.submitted + tally.invited < rules.quorum
    if accepts_body(Phase.COLLECT, rules, now=now) and tally.uploading and not hopeless:
        assert decide(Phase.COLLECT, rules, tally, now=now) is Phase.COLLECT

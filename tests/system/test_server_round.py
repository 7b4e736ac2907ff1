"""Whole rounds against a real server process, over real TLS."""

import threading
from pathlib import Path

import numpy as np
import pytest

from secureproto.crypto.envelope import sign
from secureproto.errors import Conflict
from secureproto.wire.messages import PollReply, Refusal, StudyKnown
from support.federation import federation
from support.rounds import answer, assert_published, expected
from support.sim_site import OCTETS
from support.sim_study import SimStudy

pytestmark = pytest.mark.system


def test_what_is_published_is_what_the_method_says(tmp_path: Path) -> None:
    with federation(tmp_path) as fed:
        sites = {name: fed.enrol(name) for name in ("alpha", "beta", "gamma")}
        study = fed.create_study(SimStudy(quorum=3, total=1))
        fed.open_rounds()
        updates = {name: answer(sites[name], study, seed) for seed, name in enumerate(("gamma", "alpha", "beta"))}
        fed.until_ended(0)
        result = expected(study, updates)
        for site in sites.values():
            reply = site.poll()
            assert [(o.round, o.outcome, o.version) for o in reply.outcomes] == [(0, "completed", 1)]
            assert reply.releases[0].final
            assert reply.studies[0].state == "completed"
            assert_published(site, study, result)
        with pytest.raises(Conflict, match="completed"):
            fed.open_rounds()


def test_a_late_joiner_starts_with_the_mean_of_the_heads_and_outsiders_keep_theirs(tmp_path: Path) -> None:
    with federation(tmp_path) as fed:
        sites = {name: fed.enrol(name) for name in ("alpha", "beta", "gamma")}
        study = fed.create_study(SimStudy(quorum=2, total=3, deadline="3s"))
        fed.open_rounds()
        before = sites["gamma"].fetch(sites["gamma"].release(), study.model)[1]
        updates = {name: answer(sites[name], study, seed) for seed, name in enumerate(("alpha", "beta"))}
        fed.until_ended(0)
        result = expected(study, updates)
        late = fed.enrol("delta")
        np.testing.assert_array_equal(
            sites["gamma"].fetch(sites["gamma"].release(), study.model)[1]["head.weight"], before["head.weight"]
        )
        mine = [result.layout.head.flatten(result.head_arrays(name)) for name in ("alpha", "beta")]
        outside = result.layout.head.flatten({k: before[k] for k in ("head.weight", "head.bias")})
        mean = result.layout.head.split(np.mean([*mine, outside], axis=0))
        got = late.fetch(late.release(), study.model)[1]
        np.testing.assert_allclose(got["head.weight"], mean["head.weight"], rtol=1e-6)
        assert late.poll().outcomes == ()


def test_a_round_without_its_quorum_ends_and_the_next_one_opens(tmp_path: Path) -> None:
    with federation(tmp_path) as fed:
        alpha = fed.enrol("alpha")
        fed.enrol("beta")
        study = fed.create_study(SimStudy(quorum=2, deadline="2s"))
        fed.open_rounds(2)
        answer(alpha, study, 1)
        fed.until_ended(0, "quorum_missed")
        fed.until(lambda: fed.round()["round"] == 1)
        assert fed.round(1)["base_version"] == 0
        assert [o.outcome for o in alpha.poll().outcomes][:1] == ["quorum_missed"]


def test_a_site_that_declines_is_not_waited_for(tmp_path: Path) -> None:
    with federation(tmp_path) as fed:
        alpha, beta = fed.enrol("alpha"), fed.enrol("beta")
        study = fed.create_study(SimStudy(quorum=1))
        fed.open_rounds()
        answer(alpha, study, 1)
        invitation = beta.invitation()
        refusal = Refusal(
            federation=invitation.federation,
            epoch=invitation.epoch,
            study=invitation.study,
            round=invitation.round,
            site="beta",
            reasons=("operator_approval",),
            issued=invitation.opened,
        )
        path = f"/v1/studies/small/rounds/{invitation.round}/refusal"
        assert beta.client.post(path, content=sign(refusal, beta.signer), headers=OCTETS).status_code == 204
        fed.until_ended(0)
        assert fed.round(0)["declined"] == ["beta"]
        assert fed.audit()[-1]["action"] == "model_released"


def test_a_long_poll_is_woken_by_news(tmp_path: Path) -> None:
    with federation(tmp_path) as fed:
        alpha = fed.enrol("alpha")
        fed.create_study(SimStudy(quorum=1))
        known = StudyKnown(study="small", answered_round=-1, version=0, outcome_round=-1)
        replies: list[PollReply] = []
        waiter = threading.Thread(target=lambda: replies.append(alpha.poll(known, wait=20)))
        waiter.start()
        fed.open_rounds()
        waiter.join(5)
        assert [item.round for item in replies[0].invitations] == [0]


def test_participation_invites_a_part_that_follows_from_the_seed(tmp_path: Path) -> None:
    with federation(tmp_path) as fed:
        for name in ("alpha", "beta", "gamma", "delta"):
            fed.enrol(name)
        fed.create_study(SimStudy(quorum=1, participation=0.5, deadline="1s"))
        fed.open_rounds(3)
        fed.until(lambda: fed.round()["round"] == 2 and fed.round()["ended"])
        invited = [set(fed.round(number)["invited"]) for number in range(3)]
        assert {len(sites) for sites in invited} == {2}


def test_the_study_stops_when_its_loss_has_converged(tmp_path: Path) -> None:
    with federation(tmp_path) as fed:
        alpha = fed.enrol("alpha")
        study = fed.create_study(SimStudy(quorum=1, total=9, reports_loss=True))
        fed.open_rounds(9)
        for number in range(2):
            fed.until(lambda n=number: fed.round()["round"] == n)
            answer(alpha, study, 3)
            fed.until_ended(number)
        fed.until(lambda: fed.desk.get("studies/small", meaning="look")["state"] == "completed")
        assert fed.round()["round"] == 1


def test_a_suspended_site_is_out_at_once_and_at_aggregation(tmp_path: Path) -> None:
    with federation(tmp_path) as fed:
        sites = {name: fed.enrol(name) for name in ("alpha", "beta", "gamma")}
        study = fed.create_study(SimStudy(quorum=2, total=1))
        fed.open_rounds()
        updates = {name: answer(sites[name], study, seed) for seed, name in enumerate(("alpha", "beta"))}
        fed.desk.post("sites/alpha/suspend", {"reason": "key seen on a laptop"}, meaning="suspend alpha")
        updates["gamma"] = answer(sites["gamma"], study, 7)
        fed.until_ended(0)
        assert fed.round(0)["details"] == {"alpha": "suspended"}
        del updates["alpha"]
        shared = sites["beta"].fetch(sites["beta"].release(), study.model)[0]
        np.testing.assert_array_equal(
            shared["extractor.weight"], expected(study, updates).shared_arrays()["extractor.weight"]
        )


def test_an_aborted_round_takes_no_more_and_stops_the_series(tmp_path: Path) -> None:
    with federation(tmp_path) as fed:
        alpha = fed.enrol("alpha")
        fed.create_study(SimStudy(quorum=1))
        fed.open_rounds(3)
        fed.desk.post("studies/small/rounds/0/abort", {"reason": "wrong file"}, meaning="abort")
        assert fed.round()["round"] == 0
        assert [o.outcome for o in alpha.poll().outcomes] == ["aborted"]

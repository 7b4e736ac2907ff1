from pathlib import Path

import pytest

from secureproto.crypto.envelope import sign, verify
from secureproto.errors import Rejected
from secureproto.wire.messages import PollReply, PollRequest, Refusal, StudyKnown
from secureproto_server import news, rounds, views
from support.parts import NAME, Member, Parts, parts_in
from support.sending import begun, send
from support.sim_study import SimStudy


@pytest.fixture
def parts(tmp_path: Path) -> Parts:
    return parts_in(tmp_path)


def poll_request(parts: Parts, member: Member, **changes: object) -> bytes:
    values = {
        "federation": NAME,
        "site": member.site.name,
        "now": int(parts.clock.now()),
        "wait": 0,
        "root_version": 1,
        "known": (),
        "client_version": "0.1.0",
        **changes,
    }
    return sign(PollRequest.model_validate(values), member.site.signer)


def refusal(parts: Parts, member: Member, **changes: object) -> bytes:
    values = {
        "federation": NAME,
        "epoch": 1,
        "study": "small",
        "round": 0,
        "site": member.site.name,
        "reasons": ("budget",),
        "issued": int(parts.clock.now()),
        **changes,
    }
    return sign(Refusal.model_validate(values), member.site.signer)


def decline(parts: Parts, member: Member, body: bytes, *, number: int = 0) -> str:
    """The reason of the refusal of a refusal; empty when it was taken."""
    try:
        news.decline(parts.services, "small", number, certificate=member.certificate, body=body)
    except Rejected as error:
        return str(error.reason)
    return ""


def test_a_poll_is_of_this_federation_site_and_time(parts: Parts, tmp_path: Path) -> None:
    alpha, beta = parts.enrol("alpha", tmp_path), parts.enrol("beta", tmp_path)
    now = int(parts.clock.now())
    for body, certificate, reason in (
        (poll_request(parts, alpha, federation="other"), alpha.certificate, "wrong_federation"),
        (poll_request(parts, alpha, site="beta"), alpha.certificate, "wrong_federation"),
        (poll_request(parts, alpha, now=now - 601), alpha.certificate, "stale"),
        (poll_request(parts, alpha), beta.certificate, "unknown_key"),
        (poll_request(parts, alpha), None, "unknown_key"),
        (b"{}", alpha.certificate, "malformed"),
    ):
        with pytest.raises(Rejected) as caught:
            news.authenticate(parts.services, body, certificate)
        assert caught.value.reason == reason


def test_nothing_new_is_no_news(parts: Parts, tmp_path: Path) -> None:
    alpha = parts.enrol("alpha", tmp_path)
    parts.create(SimStudy(quorum=1))
    known = (StudyKnown(study="small", answered_round=-1, version=0, outcome_round=-1),)

    def asked(**changes: object) -> bool:
        request = poll_request(parts, alpha, **{"known": known, "root_version": 2, **changes})
        return news.reply(parts.services, news.authenticate(parts.services, request, alpha.certificate))[0]

    assert not asked()
    assert asked(known=())
    assert asked(root_version=1)
    rounds.want(parts.services, parts.person, study="small", rounds=1)
    assert asked()
    assert not asked(known=(known[0].model_copy(update={"answered_round": 0}),))


def test_no_invitation_after_the_deadline_or_the_answer(parts: Parts, tmp_path: Path) -> None:
    study, members = begun(parts, tmp_path, "alpha", "beta")
    send(parts, members["alpha"], study, 1)
    assert parts.poll(members["alpha"]).invitations == ()
    assert len(parts.poll(members["beta"]).invitations) == 1
    parts.clock.advance(601)
    assert parts.poll(members["beta"]).invitations == ()


def test_a_reply_stays_small_with_many_studies(parts: Parts, tmp_path: Path) -> None:
    alpha = parts.enrol("alpha", tmp_path)
    for number in range(news.AT_ONCE + 3):
        parts.create(SimStudy(name=f"study-{number}", quorum=1))
    reply: PollReply = parts.poll(alpha)
    assert len(reply.releases) == news.AT_ONCE
    assert len(reply.studies) == news.AT_ONCE + 3
    known = tuple(StudyKnown(study=r.study, answered_round=-1, version=0, outcome_round=-1) for r in reply.releases)
    body = poll_request(parts, alpha, known=known)
    again = news.reply(parts.services, news.authenticate(parts.services, body, alpha.certificate))[1]
    assert len(verify(again, PollReply, alpha.site.server).releases) == 3


def test_a_refusal_is_taken_once_and_only_for_an_open_invitation(parts: Parts, tmp_path: Path) -> None:
    study, members = begun(parts, tmp_path, "alpha", "beta", "gamma")
    alpha, beta, gamma = members.values()
    late = parts.enrol("late", tmp_path)
    assert decline(parts, alpha, refusal(parts, alpha, federation="other")) == "wrong_federation"
    assert decline(parts, alpha, refusal(parts, alpha, epoch=2)) == "wrong_federation"
    assert decline(parts, alpha, refusal(parts, alpha, round=1)) == "wrong_round"
    assert decline(parts, late, refusal(parts, late)) == "wrong_round"
    assert decline(parts, beta, refusal(parts, alpha)) == "unknown_key"
    assert decline(parts, alpha, refusal(parts, alpha)) == ""
    size = parts.services.log.size(parts.services.store)
    assert decline(parts, alpha, refusal(parts, alpha)) == ""
    assert parts.services.log.size(parts.services.store) == size
    send(parts, beta, study, 1)
    assert decline(parts, beta, refusal(parts, beta)) == "replayed"
    rounds.abort(parts.services, parts.person, study="small", number=0, reason="x")
    assert decline(parts, gamma, refusal(parts, gamma)) == "closed"
    record = views.round_(parts.services, "small", 0)
    assert (record["declined"], record["details"]) == (["alpha"], {"alpha": "budget"})

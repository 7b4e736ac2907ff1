from dataclasses import replace
from pathlib import Path

import pytest

from secureproto.crypto.certificates import new_csr, site_of
from secureproto.crypto.envelope import sign, verify
from secureproto.errors import Conflict, NotFound, Rejected
from secureproto.wire import base64url
from secureproto.wire.messages import EnrolmentReply, InviteToken, RenewalRequest
from secureproto_server import admission, enrolment
from secureproto_server.storage.records import SiteState
from support.parts import NAME, Member, Parts, parts_in
from support.sim_site import Keys, SimSite
from support.sim_site import enrolment as request_of


@pytest.fixture
def parts(tmp_path: Path) -> Parts:
    return parts_in(tmp_path)


def renewal(member: Member, parts: Parts, **changes: object) -> bytes:
    values = {
        "federation": NAME,
        "site": member.site.name,
        "csr": base64url.encode(new_csr(member.site.keys.tls, NAME, member.site.name)),
        "issued": int(parts.clock.now()),
        **changes,
    }
    return sign(RenewalRequest.model_validate(values), member.site.signer)


def refused(parts: Parts, body: bytes) -> str:
    with pytest.raises(Rejected) as caught:
        enrolment.enrol(parts.services, body)
    return str(caught.value.reason)


def test_an_invitation_expires(parts: Parts, tmp_path: Path) -> None:
    site, token = parts.stranger("alpha", tmp_path), parts.invite("alpha")
    parts.clock.advance(3601)
    assert refused(parts, request_of(site, token)) == "stale"


def test_whoever_asked_in_time_may_poll_for_the_decision_later(parts: Parts, tmp_path: Path) -> None:
    site, token = parts.stranger("alpha", tmp_path), parts.invite("alpha")
    fingerprint = parts.ask(site, token).fingerprint
    parts.clock.advance(7200)
    parts.approve(site, fingerprint)
    reply = parts.ask(site, token)
    assert reply.state == "approved"
    assert site_of(base64url.decode(reply.certificates[0]), NAME) == "alpha"
    assert reply.root_version == 2


def test_keys_must_differ_and_the_csr_be_for_the_tls_key(parts: Parts, tmp_path: Path) -> None:
    site, token = parts.stranger("alpha", tmp_path), parts.invite("alpha")
    same = site.keys.public.model_copy(update={"hpke": site.keys.public.tls})
    assert refused(parts, request_of(site, token, keys=same)) == "malformed"
    csr = base64url.encode(new_csr(Keys.make().tls, NAME, "alpha"))
    assert refused(parts, request_of(site, token, csr=csr)) == "malformed"
    csr = base64url.encode(new_csr(site.keys.tls, NAME, "beta"))
    assert refused(parts, request_of(site, token, csr=csr)) == "malformed"
    assert parts.ask(site, token).state == "pending"  # none of them used the token up


def test_a_token_lives_a_day_at_most(parts: Parts) -> None:
    with pytest.raises(Conflict):
        admission.issue_token(parts.services, parts.person, site="alpha", hours=25)


@pytest.mark.parametrize(
    "changes",
    [
        {"version": 3},
        {"threshold": 2},
        {"ca": "AAAA"},
        {"sites": ()},
        {"people": ()},
        {"expires": 5},
        {"federation": "x"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_approval_takes_only_a_root_document_that_does_what_was_asked(
    parts: Parts, tmp_path: Path, changes: dict[str, object]
) -> None:
    site, token = parts.stranger("alpha", tmp_path), parts.invite("alpha")
    fingerprint = parts.ask(site, token).fingerprint
    envelope = parts.next_root(site, **changes)
    with pytest.raises((Conflict, Rejected)):
        admission.approve(parts.services, parts.person, site="alpha", fingerprint=fingerprint, envelope=envelope)
    assert parts.root.version == 1
    assert parts.ask(site, token).state == "pending"


def test_approval_needs_the_fingerprint_of_the_request(parts: Parts, tmp_path: Path) -> None:
    site, token = parts.stranger("alpha", tmp_path), parts.invite("alpha")
    parts.ask(site, token)
    with pytest.raises(Conflict, match="fingerprint"):
        parts.approve(site, "0" * 64)
    with pytest.raises(NotFound):
        admission.deny(parts.services, parts.person, site="beta", reason="x")


def test_a_site_that_lost_its_keys_enrols_again_and_the_old_keys_are_unknown(parts: Parts, tmp_path: Path) -> None:
    old = parts.enrol("alpha", tmp_path)
    admission.set_state(parts.services, parts.person, site="alpha", verb="revoke", reason="laptop stolen")
    with pytest.raises(Rejected) as caught:
        parts.poll(old)
    assert caught.value.reason == "revoked_key"
    new = parts.enrol("alpha", tmp_path / "new")
    assert parts.poll(new).site == "alpha"
    with pytest.raises(Rejected) as caught:
        parts.poll(old)
    assert caught.value.reason == "unknown_key"
    assert [entry.since for entry in parts.root.sites] == [3]
    with pytest.raises(Rejected, match="connection's key"):
        parts.poll(Member(new.site, old.certificate))


def test_renewal_is_signed_by_the_enrolled_key_and_for_the_enrolled_tls_key(parts: Parts, tmp_path: Path) -> None:
    member = parts.enrol("alpha", tmp_path)
    reply = verify(enrolment.renew(parts.services, renewal(member, parts)), EnrolmentReply, member.site.server)
    assert (reply.state, len(reply.certificates)) == ("approved", 2)
    for changes, reason in (
        ({"issued": int(parts.clock.now()) - 601}, "stale"),
        ({"federation": "other"}, "wrong_federation"),
        ({"csr": base64url.encode(new_csr(Keys.make().tls, NAME, "alpha"))}, "unknown_key"),
    ):
        with pytest.raises(Rejected) as caught:
            enrolment.renew(parts.services, renewal(member, parts, **changes))
        assert caught.value.reason == reason
    admission.set_state(parts.services, parts.person, site="alpha", verb="suspend", reason="x")
    with pytest.raises(Rejected) as caught:
        enrolment.renew(parts.services, renewal(member, parts))
    assert caught.value.reason == "suspended"


def test_verbs_on_a_site_follow_its_state(parts: Parts, tmp_path: Path) -> None:
    parts.enrol("alpha", tmp_path)
    for verb, state in (
        ("suspend", SiteState.SUSPENDED),
        ("resume", SiteState.ACTIVE),
        ("revoke", SiteState.REVOKED),
    ):
        assert admission.set_state(parts.services, parts.person, site="alpha", verb=verb, reason="x") is state
    with pytest.raises(Conflict, match="revoked"):
        admission.set_state(parts.services, parts.person, site="alpha", verb="resume", reason="x")
    with pytest.raises(NotFound):
        admission.set_state(parts.services, parts.person, site="beta", verb="revoke", reason="x")


def invited_again(parts: Parts, directory: Path, keys: Keys) -> tuple[SimSite, InviteToken]:
    """Alpha, with these keys and a new invitation."""
    site = SimSite(directory / "again", "alpha", keys=keys, root=parts.root, port=1)
    site.clock = parts.clock
    site.close()
    return site, parts.invite("alpha")


def change(parts: Parts, verb: str) -> None:
    admission.set_state(parts.services, parts.person, site="alpha", verb=verb, reason="test")


@pytest.mark.parametrize("which", ["tls", "signing", "hpke"])
def test_a_revoked_key_never_comes_back(parts: Parts, tmp_path: Path, which: str) -> None:
    old = parts.enrol("alpha", tmp_path).site.keys
    change(parts, "revoke")
    site, token = invited_again(parts, tmp_path, replace(Keys.make(), **{which: getattr(old, which)}))
    assert refused(parts, request_of(site, token)) == "revoked_key"
    site, _ = invited_again(parts, tmp_path, Keys.make())  # the invitation was not used up
    parts.approve(site, parts.ask(site, token).fingerprint)
    site, token = invited_again(parts, tmp_path, old)  # nor when others have taken their place
    assert refused(parts, request_of(site, token)) == "revoked_key"


def test_a_key_that_is_revoked_while_it_waits_is_not_approved(parts: Parts, tmp_path: Path) -> None:
    site, token = invited_again(parts, tmp_path, parts.enrol("alpha", tmp_path).site.keys)
    fingerprint = parts.ask(site, token).fingerprint
    change(parts, "revoke")
    with pytest.raises(Rejected, match="revoked"):
        parts.approve(site, fingerprint)


def test_keys_in_use_may_enrol_again(parts: Parts, tmp_path: Path) -> None:
    site, token = invited_again(parts, tmp_path, parts.enrol("alpha", tmp_path).site.keys)
    parts.approve(site, parts.ask(site, token).fingerprint)
    assert parts.ask(site, token).state == "approved"

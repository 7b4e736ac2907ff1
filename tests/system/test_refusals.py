"""Every Reason, from a real request to a real server: refused with the right word, counted, and in the log.

The server is one process for the module; each test has a study and a round of its own.
"""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import httpx
import numpy as np
import pytest

from secureproto.crypto.keys import FileSigner
from secureproto.crypto.sealing import Sealer, sign_manifest
from secureproto.wire import canonical, layouts, tensors
from secureproto.wire.messages import Invitation
from secureproto.wire.reasons import Reason
from support.federation import Federation, federation
from support.raw_tls import exchange, put_head, raw_connection, read_head
from support.sim_site import Keys, Sealed, SimSite, ask, enrolment, ok, reason_of, request
from support.sim_study import Arrays, SimStudy

pytestmark = pytest.mark.system

NAMES = ("alpha", "beta", "gamma")
numbers = count()
WRONG = "0" * 64


@pytest.fixture(scope="module")
def fed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    """The federation of the module; a site may send one body at once."""
    with federation(tmp_path_factory.mktemp("refusals"), start=False) as made:
        made.environment["SECUREPROTO_SERVER_SITE_UPLOADS"] = "1"
        made.start()
        for name in NAMES:
            made.enrol(name)
        yield made


@dataclass
class Bout:
    """One study with one open round, seen from alpha."""

    fed: Federation
    study: SimStudy
    site: SimSite
    invitation: Invitation

    def sealed(self, **changes: object) -> Sealed:
        return self.site.sealed_update(self.invitation, self.update(), self.study.model, **changes)

    def update(self, seed: int = 1) -> Arrays:
        return self.study.update(seed)

    def manifest(self, sealed: Sealed) -> httpx.Response:
        return self.site.send_manifest(self.invitation, sealed.manifest.encode())

    def refused_manifest(self, **changes: object) -> str:
        """The reason for which an upload with a changed core is refused."""
        return reason_of(self.manifest(self.sealed(**changes)))

    def refused_body(self, arrays: Arrays) -> str:
        """The reason for which these tensors, well sealed and signed, are refused."""
        sealed = self.site.sealed_update(self.invitation, arrays, self.study.model)
        assert self.manifest(sealed).status_code == 201
        return reason_of(self.site.send_body(self.invitation, sealed.digest, sealed.body))

    def body_path(self, sealed: Sealed) -> str:
        return f"/v1/studies/{self.study.name}/rounds/{self.invitation.round}/body/{sealed.digest}"


def begin(fed: Federation, **changes: object) -> Bout:
    """A new study with an open round."""
    study = SimStudy(name=f"study-{next(numbers)}", **changes)  # type: ignore[arg-type]  # a test's own values
    fed.create_study(study)
    fed.open_rounds()
    site = fed.sites["alpha"]
    return Bout(fed, study, site, site.invitation(study.name))


@pytest.fixture
def bout(fed: Federation) -> Iterator[Bout]:
    made = begin(fed)
    yield made
    if not ended(made):
        abort(made)


def ended(made: Bout) -> bool:
    return bool(made.fed.desk.get(f"studies/{made.study.name}/rounds/last", meaning="look")["ended"])


def abort(made: Bout) -> None:
    made.fed.desk.post(f"studies/{made.study.name}/rounds/0/abort", {"reason": "over"}, meaning="abort")


# the manifest


def test_malformed(bout: Bout) -> None:
    assert reason_of(bout.site.send_manifest(bout.invitation, b"garbage")) == "malformed"
    core = bout.site.core(bout.invitation).canonical()
    spaced = bout.site.seal(core.replace(b":", b": ", 1), b"x")
    assert reason_of(bout.manifest(spaced)) == "malformed"
    extended = bout.sealed().manifest.encode() + b"\0"
    assert reason_of(bout.site.send_manifest(bout.invitation, extended)) == "malformed"


def test_a_manifest_of_nine_kib_is_too_large(bout: Bout) -> None:
    assert reason_of(bout.site.send_manifest(bout.invitation, b"m" * 9 * 1024)) == "too_large"


def test_unknown_key(bout: Bout) -> None:
    stranger = FileSigner(Keys.make().signing)
    core = bout.site.core(bout.invitation, sender_key=stranger.public.key_id)
    assert reason_of(bout.manifest(bout.site.seal(core, b"x", signer=stranger))) == "unknown_key"
    assert bout.refused_manifest(recipient_key=WRONG) == "unknown_key"
    assert bout.refused_manifest(sender="beta") == "unknown_key"


def test_a_connection_of_another_site_or_of_nobody(bout: Bout) -> None:
    data = bout.sealed().manifest.encode()
    assert reason_of(bout.fed.sites["beta"].send_manifest(bout.invitation, data)) == "unknown_key"
    path = f"/v1/studies/{bout.study.name}/rounds/0/manifest"
    assert reason_of(bout.site.anonymous.post(path, content=data)) == "unknown_key"


def test_bad_signature(bout: Bout) -> None:
    other = bout.site.seal(bout.site.core(bout.invitation), b"x", signer=FileSigner(Keys.make().signing))
    assert reason_of(bout.manifest(other)) == "bad_signature"


def test_suspended_and_revoked_at_once(bout: Bout) -> None:
    gamma = bout.fed.sites["gamma"]
    sealed = gamma.sealed_update(bout.invitation, bout.update(), bout.study.model)
    desk = bout.fed.desk
    desk.post("sites/gamma/suspend", {"reason": "test"}, meaning="suspend")
    assert reason_of(gamma.send_manifest(bout.invitation, sealed.manifest.encode())) == "suspended"
    assert gamma.client.get("/v1/roots/1").status_code == 403
    desk.post("sites/gamma/resume", {"reason": "test"}, meaning="resume")
    assert gamma.send_manifest(bout.invitation, sealed.manifest.encode()).status_code == 201
    desk.post("sites/gamma/suspend", {"reason": "test"}, meaning="suspend")
    assert reason_of(gamma.send_body(bout.invitation, sealed.digest, sealed.body)) == "suspended"
    throwaway = bout.fed.enrol(f"throwaway-{next(numbers)}")
    desk.post(f"sites/{throwaway.name}/revoke", {"reason": "test"}, meaning="revoke")
    sealed = throwaway.sealed_update(bout.invitation, bout.update(), bout.study.model)
    assert reason_of(throwaway.send_manifest(bout.invitation, sealed.manifest.encode())) == "revoked_key"
    desk.post("sites/gamma/resume", {"reason": "test"}, meaning="resume")


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("federation", "another", Reason.WRONG_FEDERATION),
        ("epoch", 2, Reason.WRONG_FEDERATION),
        ("round", 7, Reason.WRONG_ROUND),
        ("study", "another", Reason.WRONG_ROUND),
        ("schema_digest", WRONG, Reason.SCHEMA),
        ("plaintext_length", 17, Reason.SCHEMA),
        ("study_digest", WRONG, Reason.POLICY_DIGEST),
        ("policy_digest", WRONG, Reason.POLICY_DIGEST),
        ("ledger_head", WRONG, Reason.RECEIPT),
    ],
)
def test_not_as_this_round_has_it(bout: Bout, field: str, value: object, reason: Reason) -> None:
    assert bout.refused_manifest(**{field: value}) == reason


def test_a_round_that_does_not_exist(bout: Bout) -> None:
    sealed = bout.sealed(round=7)
    path = f"/v1/studies/{bout.study.name}/rounds/7/manifest"
    assert reason_of(bout.site.client.post(path, content=sealed.manifest.encode())) == "wrong_round"


def test_receipt(bout: Bout) -> None:
    said = json.loads(bout.site.core(bout.invitation).canonical())
    said["receipt"]["epsilon"] = "1.0"
    assert reason_of(bout.manifest(bout.site.seal(canonical.encode(said), b"x"))) == "receipt"


def test_stale(bout: Bout) -> None:
    now = int(time.time())  # noqa: TID251 - the server is another process with the host's clock
    assert bout.refused_manifest(issued=now - 100, expires=now - 50) == "stale"
    assert bout.refused_manifest(expires=bout.invitation.deadline + bout.invitation.grace + 1) == "stale"
    assert bout.refused_manifest(issued=now + 900) == "stale"


def test_closed(bout: Bout) -> None:
    sealed = bout.sealed()
    abort(bout)
    assert reason_of(bout.manifest(sealed)) == "closed"


def test_a_round_that_closes_before_the_body(bout: Bout) -> None:
    sealed = bout.sealed()
    assert bout.manifest(sealed).status_code == 201
    abort(bout)
    assert reason_of(bout.site.send_body(bout.invitation, sealed.digest, sealed.body)) == "closed"


def test_a_site_that_is_not_invited(bout: Bout) -> None:
    late = bout.fed.enrol(f"late-{next(numbers)}")
    sealed = late.sealed_update(bout.invitation, bout.update(), bout.study.model)
    assert reason_of(late.send_manifest(bout.invitation, sealed.manifest.encode())) == "wrong_round"
    bout.fed.desk.post(f"sites/{late.name}/revoke", {"reason": "test"}, meaning="revoke")


def test_replayed_but_the_same_bytes_get_the_same_receipt(bout: Bout) -> None:
    sealed = bout.sealed()
    receipt = ok(bout.site.send(bout.invitation, sealed)).content
    assert reason_of(bout.manifest(bout.sealed())) == "replayed"
    assert ok(bout.manifest(sealed)).content == receipt
    assert ok(bout.site.send_body(bout.invitation, sealed.digest, sealed.body)).content == receipt
    abort(bout)
    assert ok(bout.manifest(sealed)).content == receipt


def test_other_bytes_while_the_first_are_under_way(bout: Bout) -> None:
    assert bout.manifest(bout.sealed()).status_code == 201
    assert reason_of(bout.manifest(bout.sealed())) == "replayed"


def test_too_large(fed: Federation) -> None:
    made = begin(fed, max_upload_bytes=10_000)
    longer = made.site.seal(made.site.core(made.invitation), bytes(10_000))
    assert reason_of(made.manifest(longer)) == "too_large"
    abort(made)


# the body


def test_a_body_cut_off_is_resumed(bout: Bout) -> None:
    sealed = bout.sealed()
    assert bout.manifest(sealed).status_code == 201
    with raw_connection(bout.site) as tls:
        tls.sendall(put_head(bout.body_path(sealed), len(sealed.body)) + sealed.body[:1000])
        time.sleep(0.3)  # the server has read it when the connection ends
    bout.fed.until(lambda: bout.manifest(sealed).status_code == 201)  # until then: busy with the other connection
    offset = bout.manifest(sealed).json()["offset"]
    assert offset == 1000
    wrong = bout.site.send_body(bout.invitation, sealed.digest, sealed.body[offset + 1 :], offset=offset + 1)
    assert reason_of(wrong) == "conflict"
    ok(bout.site.send_body(bout.invitation, sealed.digest, sealed.body[offset:], offset=offset))


@pytest.mark.parametrize("change", ["truncated", "extended"])
def test_a_body_of_another_length(bout: Bout, change: str) -> None:
    sealed = bout.sealed()
    assert bout.manifest(sealed).status_code == 201
    body = sealed.body[:-1] if change == "truncated" else sealed.body + b"\0"
    assert reason_of(bout.site.send_body(bout.invitation, sealed.digest, body)) == "malformed"
    ok(bout.site.send_body(bout.invitation, sealed.digest, sealed.body))


@pytest.mark.parametrize("change", ["flipped", "reordered"])
def test_a_body_that_is_not_the_signed_one(bout: Bout, change: str) -> None:
    sealed = bout.sealed()
    assert bout.manifest(sealed).status_code == 201
    middle = len(sealed.body) // 2
    flipped = sealed.body[:middle] + bytes([sealed.body[middle] ^ 1]) + sealed.body[middle + 1 :]
    reordered = sealed.body[middle:] + sealed.body[:middle]
    body = flipped if change == "flipped" else reordered
    assert reason_of(bout.site.send_body(bout.invitation, sealed.digest, body)) == "bad_signature"
    ok(bout.site.send_body(bout.invitation, sealed.digest, sealed.body))


def test_a_signed_body_that_does_not_open(bout: Bout) -> None:
    plaintext = b"".join(tensors.encode(layouts.upload_schema(bout.study.model), bout.update()))
    sealer = Sealer(bout.site.core(bout.invitation).canonical(), [bout.site.server_key])
    body = bytearray(sealer.update(plaintext) + sealer.finalize())
    body[100] ^= 1
    honest = sign_manifest(sealer, bout.site.signer)
    forged = bout.site.resign(honest, bytes(body))
    assert bout.manifest(forged).status_code == 201
    assert reason_of(bout.site.send_body(bout.invitation, forged.digest, forged.body)) == "decrypt_failed"
    assert reason_of(bout.site.send_body(bout.invitation, forged.digest, forged.body)) == "closed"


def test_a_header_that_is_not_the_rounds(bout: Bout) -> None:
    plaintext = b"".join(tensors.encode(layouts.upload_schema(bout.study.model), bout.update()))
    other = plaintext.replace(b'"extractor.weight"', b'"extractor.wEight"', 1)
    sealed = bout.site.seal(bout.site.core(bout.invitation), other)
    assert bout.manifest(sealed).status_code == 201
    assert reason_of(bout.site.send_body(bout.invitation, sealed.digest, sealed.body)) == "schema"


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("name", ["extractor.weight", "head.bias", "prototypes"])
def test_non_finite(bout: Bout, name: str, value: float) -> None:
    arrays = bout.update()
    arrays[name].reshape(-1)[-1] = value
    assert bout.refused_body(arrays) == "non_finite"


def test_counts_that_no_records_give(bout: Bout) -> None:
    arrays = bout.update()
    arrays["prototypes"][0, -1] = -3
    assert bout.refused_body(arrays) == "schema"


def test_an_update_over_its_bound(fed: Federation) -> None:
    made = begin(fed, max_update_norm=5.0)
    within, over = made.update(), made.update()
    over["extractor.weight"] = (made.study.shared()["extractor.weight"] + 1.0).astype(np.float32)
    assert made.refused_body(over) == "norm_bound"
    beta = fed.sites["beta"]
    ok(beta.send(made.invitation, beta.sealed_update(made.invitation, within, made.study.model)))
    abort(made)


def test_an_embedding_over_its_bound(fed: Federation) -> None:
    made = begin(fed, max_embedding_norm=1.0)
    arrays = made.update()
    arrays["prototypes"][:, :-1] = arrays["prototypes"][:, -1:] * 0.9
    assert made.refused_body(arrays) == "norm_bound"
    abort(made)


def test_one_body_at_once(fed: Federation) -> None:
    first, second = begin(fed), begin(fed)
    slow, quick = first.sealed(), second.sealed()
    assert first.manifest(slow).status_code == 201
    assert second.manifest(quick).status_code == 201
    with raw_connection(first.site) as tls:
        tls.sendall(put_head(first.body_path(slow), len(slow.body)) + slow.body[:100])
        time.sleep(0.3)
        assert reason_of(second.site.send_body(second.invitation, quick.digest, quick.body)) == "quota"
    abort(first)
    abort(second)


def test_too_slow(bout: Bout) -> None:
    sealed = bout.sealed()
    assert bout.manifest(sealed).status_code == 201
    with raw_connection(bout.site) as tls:
        tls.sendall(put_head(bout.body_path(sealed), len(sealed.body)) + sealed.body[:100])
        answer = read_head(tls)
    assert answer.startswith(b"HTTP/1.1 408")
    assert b"too_slow" in answer
    bout.fed.until(lambda: bout.fed.audit(5)[-1]["reason"] == "too_slow")


# HTTP


@pytest.mark.parametrize(
    ("hosts", "status"),
    [([], b"400"), (["localhost", "localhost"], b"400"), (["elsewhere"], b"421")],
)
def test_a_host_header_is_there_once_and_ours(fed: Federation, hosts: list[str], status: bytes) -> None:
    lines = ["GET /v1/roots/1 HTTP/1.1", *(f"Host: {host}" for host in hosts), "", ""]
    assert exchange(fed.sites["alpha"], "\r\n".join(lines).encode()).split(b" ")[1] == status


def test_a_thousand_headers(fed: Federation) -> None:
    lines = ["GET /v1/roots/1 HTTP/1.1", "Host: localhost", *(f"X-{n}: 1" for n in range(1000)), "", ""]
    assert exchange(fed.sites["alpha"], "\r\n".join(lines).encode()).split(b" ")[1] == b"431"


# enrolment


def test_tokens_used_before_for_another_site_or_with_another_root(fed: Federation, tmp_path: Path) -> None:
    site, token = request(fed.desk, fed.ports["site"], tmp_path, "newcomer")

    def refused(data: bytes) -> str:
        return reason_of(site.anonymous.post("/v1/enrolments", content=data))

    assert refused(enrolment(site, token, root_digest=WRONG)) == "wrong_federation"
    assert refused(enrolment(site, token, federation="another")) == "wrong_federation"
    assert refused(enrolment(site, token, secret="AAAA")) == "unknown_key"
    other, _ = request(fed.desk, fed.ports["site"], tmp_path, "somebody")
    assert refused(enrolment(other, token)) == "unknown_key"
    assert ask(site, token).state == "pending"
    assert ask(site, token).state == "pending"
    thief, _ = request(fed.desk, fed.ports["site"], tmp_path, "newcomer")
    assert refused(enrolment(thief, token)) == "replayed"
    fed.desk.post("enrolments/newcomer/deny", {"reason": "test"}, meaning="deny")
    assert site.anonymous.post("/v1/enrolments", content=enrolment(site, token)).status_code == 403
    for left in (site, other, thief):
        left.close()


def test_keys_of_another_site_cannot_enrol(fed: Federation, tmp_path: Path) -> None:
    site, token = request(fed.desk, fed.ports["site"], tmp_path, "copycat", keys=fed.sites["beta"].keys)
    assert reason_of(site.anonymous.post("/v1/enrolments", content=enrolment(site, token))) == "replayed"
    site.close()


def test_every_reason_was_counted_and_logged(fed: Federation) -> None:
    text = httpx.get(f"http://127.0.0.1:{fed.ports['metrics']}/metrics", trust_env=False).text
    lines = [line for line in text.splitlines() if line.startswith("secureproto_upload_rejections_total{")]
    counted = {line.split('reason="')[1].split('"')[0] for line in lines if float(line.split()[-1]) > 0}
    logged = {entry["reason"] for entry in fed.audit(5000) if entry["action"] == "upload_rejected"}
    every = set(Reason) - {Reason.OVER_BUDGET}  # there are no budgets yet
    assert counted == logged == {str(reason) for reason in every}

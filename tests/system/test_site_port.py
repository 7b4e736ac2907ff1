"""What a site fetches: roots, descriptors, bodies in part; renewal without a certificate; and who gets nothing."""

from hashlib import sha256
from pathlib import Path

import pytest

from secureproto.crypto.certificates import new_csr
from secureproto.crypto.envelope import sign, verify, verify_threshold
from secureproto.crypto.keys import PublicKey
from secureproto.wire import base64url
from secureproto.wire.messages import EnrolmentReply, RenewalRequest, RootDocument, StudyDescriptor
from support.federation import NAME, federation
from support.sim_site import OCTETS, ok, reason_of
from support.sim_study import SimStudy

pytestmark = pytest.mark.system


def test_what_a_site_fetches(tmp_path: Path) -> None:
    with federation(tmp_path) as fed:
        alpha, beta = fed.enrol("alpha"), fed.enrol("beta")
        study = fed.create_study(SimStudy(quorum=1, elements=300_000))
        people = {key.key_id: key for key in (PublicKey.from_b64(p.key) for p in alpha.root.people)}
        root = verify_threshold(ok(alpha.client.get("/v1/roots/3")).content, RootDocument, people, 1)
        assert [entry.site for entry in root.sites] == ["alpha", "beta"]
        descriptor = verify(ok(alpha.client.get("/v1/studies/small")).content, StudyDescriptor, people)
        assert descriptor == study.descriptor(NAME)
        shared = "/v1/studies/small/versions/0/shared"
        release = alpha.release()
        whole = ok(alpha.client.get(shared))
        assert sha256(whole.content).hexdigest() == release.shared.ciphertext_digest
        part = alpha.client.get(shared, headers={"range": "bytes=1000000-"})
        assert (part.status_code, part.content) == (206, whole.content[1_000_000:])
        assert part.headers["content-range"] == f"bytes 1000000-{len(whole.content) - 1}/{len(whole.content)}"
        for text in ("bytes=5-9", "bytes=99999999-", "items=1-"):
            assert reason_of(alpha.client.get(shared, headers={"range": text})) == "malformed"
        beta.release()  # makes its head
        heads = [site.client.get("/v1/studies/small/versions/0/head").content for site in (alpha, beta)]
        assert heads[0] != heads[1]
        for path in ("/v1/roots/9", "/v1/studies/none", "/v1/studies/small/versions/1/shared", "/v1/nothing",
                     "/v1/studies/small/versions/1/head", "/v1/studies/none/versions/0/shared"):  # fmt: skip
            assert alpha.client.get(path).status_code == 404, path
        for path in ("/v1/roots/1", "/v1/studies/small", shared):
            assert reason_of(alpha.anonymous.get(path)) == "unknown_key"
        assert alpha.client.get("/v1/poll").status_code == 405


def test_a_site_that_was_off_for_long_renews_without_a_certificate(tmp_path: Path) -> None:
    with federation(tmp_path) as fed:
        alpha = fed.enrol("alpha")
        csr = base64url.encode(new_csr(alpha.keys.tls, NAME, "alpha"))
        request = RenewalRequest(federation=NAME, site="alpha", csr=csr, issued=int(alpha.clock.now()))
        body = sign(request, alpha.signer)
        reply = verify(
            ok(alpha.anonymous.post("/v1/renewals", content=body, headers=OCTETS)).content,
            EnrolmentReply,
            alpha.server,
        )
        alpha.client.close()
        alpha.certify(reply.certificates)
        assert alpha.poll().site == "alpha"

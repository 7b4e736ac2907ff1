from hashlib import sha256
from pathlib import Path

import pytest

from secureproto.crypto.envelope import Envelope, sign
from secureproto.crypto.keys import FileSigner
from secureproto.errors import Rejected
from secureproto.wire import base64url
from secureproto.wire.messages import AdminRequest
from secureproto_server import auth
from support.parts import NAME, Parts, parts_in
from support.sim_site import Keys

PATH, BODY = "/v1/admin/tokens", b"{}"


@pytest.fixture
def parts(tmp_path: Path) -> Parts:
    return parts_in(tmp_path)


def header(parts: Parts, *, signer: FileSigner | None = None, **changes: object) -> str:
    now = int(parts.clock.now())
    values = {
        "federation": NAME,
        "epoch": 1,
        "method": "POST",
        "path": PATH,
        "body_digest": sha256(BODY).hexdigest(),
        "meaning": "test",
        "nonce": "0" * 32,
        "issued": now,
        "expires": now + 60,
        **changes,
    }
    envelope = sign(AdminRequest.model_validate(values), signer or parts.operator)
    return auth.SCHEME + base64url.encode(envelope)


def refused(parts: Parts, authorization: str, *, method: str = "POST", path: str = PATH, body: bytes = BODY) -> str:
    with pytest.raises(Rejected) as caught:
        auth.operator(parts.services, authorization=authorization, method=method, path=path, body=body)
    return str(caught.value.reason)


def test_a_signed_request_passes_once(parts: Parts) -> None:
    authorization = header(parts)
    person = auth.operator(parts.services, authorization=authorization, method="POST", path=PATH, body=BODY)
    assert person.name == "alice"
    assert refused(parts, authorization) == "replayed"


def test_a_request_is_for_one_path_method_and_body(parts: Parts) -> None:
    assert refused(parts, header(parts), path="/v1/admin/studies") == "bad_signature"
    assert refused(parts, header(parts), method="GET") == "bad_signature"
    assert refused(parts, header(parts), body=b"{ }") == "bad_signature"


def test_a_request_is_for_this_server_and_now(parts: Parts) -> None:
    now = int(parts.clock.now())
    assert refused(parts, header(parts, federation="other")) == "wrong_federation"
    assert refused(parts, header(parts, epoch=2)) == "wrong_federation"
    assert refused(parts, header(parts, issued=now - 100, expires=now - 1)) == "stale"
    assert refused(parts, header(parts, issued=now + 500, expires=now + 560)) == "stale"
    assert refused(parts, header(parts, expires=now + 86_400)) == "stale"


def test_strangers_are_refused_and_cannot_make_the_log_grow(parts: Parts) -> None:
    size = parts.services.log.size(parts.services.store)
    assert refused(parts, header(parts, signer=FileSigner(Keys.make().signing))) == "unknown_key"
    assert refused(parts, "") == "unknown_key"
    assert refused(parts, "Bearer token") == "unknown_key"
    assert refused(parts, auth.SCHEME + "%%%") == "malformed"
    assert parts.services.log.size(parts.services.store) == size


def test_a_strangers_request_under_an_operators_key_id_cannot_make_the_log_grow(parts: Parts) -> None:
    size = parts.services.log.size(parts.services.store)
    real = Envelope.parse(base64url.decode(header(parts).removeprefix(auth.SCHEME)))
    forged = real.model_copy(update={"signature": base64url.encode(b"0" * 70)})
    assert refused(parts, auth.SCHEME + base64url.encode(forged.canonical())) == "bad_signature"
    assert parts.services.log.size(parts.services.store) == size


def test_a_request_is_refused_before_its_body_is_there(parts: Parts) -> None:
    for authorization in ("", header(parts, epoch=2), header(parts, signer=FileSigner(Keys.make().signing))):
        with pytest.raises(Rejected):
            auth.signed(parts.services, authorization=authorization, method="POST", path=PATH)
    asked = auth.signed(parts.services, authorization=header(parts), method="POST", path=PATH)
    size = parts.services.log.size(parts.services.store)
    with pytest.raises(Rejected, match="body"):
        auth.confirm(parts.services, asked, b"another")
    assert parts.services.log.size(parts.services.store) == size + 1
    assert auth.confirm(parts.services, asked, BODY).name == "alice"


def test_a_request_that_ends_before_it_begins_is_never_valid(parts: Parts) -> None:
    now = int(parts.clock.now())
    assert refused(parts, header(parts, issued=now + 60, expires=now + 30)) == "stale"


def test_a_known_persons_refused_request_is_logged(parts: Parts) -> None:
    size = parts.services.log.size(parts.services.store)
    assert refused(parts, header(parts, epoch=2)) == "wrong_federation"
    assert parts.services.log.size(parts.services.store) == size + 1

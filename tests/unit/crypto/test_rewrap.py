import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from secureproto.crypto.keys import PublicKey
from secureproto.crypto.sealing import Opener, Sealer, rewrap
from secureproto.errors import Rejected


def key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def test_a_body_opens_for_somebody_it_was_not_sealed_to() -> None:
    server, site = key(), key()
    sealer = Sealer(b"core", [PublicKey.of(server.public_key())])
    body = sealer.update(b"weights") + sealer.finalize()
    wrapped = rewrap(b"core", sealer.wrapped[0], server, PublicKey.of(site.public_key()))
    opener = Opener(b"core", wrapped, site)
    assert opener.update(body) + opener.finalize() == b"weights"


@pytest.mark.parametrize(("core", "own"), [(b"other core", True), (b"core", False)])
def test_only_whoever_can_open_it_can_wrap_it_again(core: bytes, own: bool) -> None:
    server, site = key(), key()
    sealer = Sealer(b"core", [PublicKey.of(server.public_key())])
    with pytest.raises(Rejected) as caught:
        rewrap(core, sealer.wrapped[0], server if own else site, PublicKey.of(site.public_key()))
    assert caught.value.reason == "decrypt_failed"

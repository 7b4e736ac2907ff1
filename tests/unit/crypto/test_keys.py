"""Keys and passphrases in files: modes, atomicity, one clear line for each thing that can be wrong."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)

from secureproto.crypto.keyfile import read_private, write_once
from secureproto.crypto.keys import FileSigner, PublicKey, generate_key, load_private, load_signer
from secureproto.crypto.passphrase import DIRECTORY_VARIABLE, create_passphrase, read_passphrase
from secureproto.errors import Conflict, IntegrityBroken, Misconfigured, Rejected

PASSPHRASE = b"correct horse"
SIGNER = FileSigner(ec.derive_private_key(3, ec.SECP256R1()))


def test_a_generated_key_signs_and_its_public_key_verifies(tmp_path: Path) -> None:
    public = generate_key(tmp_path / "signing.pem", PASSPHRASE)
    signer = load_signer(tmp_path / "signing.pem", PASSPHRASE)
    assert signer.public == public
    assert hash(signer.public) == hash(public)
    public.verify("label", b"data", signer.sign("label", b"data"))


def test_a_key_file_is_private_encrypted_and_alone(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        generate_key(tmp_path / "signing.pem", PASSPHRASE)
    finally:
        os.umask(old)
    (path,) = tmp_path.iterdir()  # no draft is left beside it
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_text().startswith("-----BEGIN ENCRYPTED PRIVATE KEY-----")


def test_a_key_is_never_overwritten(tmp_path: Path) -> None:
    public = generate_key(tmp_path / "k", PASSPHRASE)
    with pytest.raises(Conflict, match="is there already"):
        generate_key(tmp_path / "k", PASSPHRASE)
    assert load_signer(tmp_path / "k", PASSPHRASE).public == public
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("passphrase", [b"", b"x" * 1024])
def test_impossible_passphrases_write_nothing(tmp_path: Path, passphrase: bytes) -> None:
    with pytest.raises(Misconfigured, match="empty or over 1023"):
        generate_key(tmp_path / "k", passphrase)
    assert not list(tmp_path.iterdir())


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match=r"cannot write .*nowhere/k: No such file"):
        generate_key(tmp_path / "nowhere" / "k", PASSPHRASE)


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(Misconfigured, match="No space left"):
        write_once(tmp_path / "k", b"secret")
    assert not list(tmp_path.iterdir())


def _other(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey, encryption: KeySerializationEncryption) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)


_WRONG: dict[str, tuple[Callable[[], bytes], str]] = {
    "other curve": (
        lambda: _other(ec.generate_private_key(ec.SECP384R1()), BestAvailableEncryption(PASSPHRASE)),
        "is not a P-256 key",
    ),
    "other kind": (
        lambda: _other(rsa.generate_private_key(65537, 2048), BestAvailableEncryption(PASSPHRASE)),
        "is not a P-256 key",
    ),
    "not encrypted": (
        lambda: _other(ec.generate_private_key(ec.SECP256R1()), NoEncryption()),
        "is not encrypted",
    ),
    "wrong passphrase": (
        lambda: _other(ec.generate_private_key(ec.SECP256R1()), BestAvailableEncryption(b"another")),
        "passphrase is wrong",
    ),
    "no PEM": (lambda: b"hello", "does not open"),
    "empty": (lambda: b"", "does not open"),
}


@pytest.mark.parametrize("case", _WRONG)
def test_a_key_file_that_does_not_fit_is_one_clear_line(tmp_path: Path, case: str) -> None:
    make, says = _WRONG[case]
    write_once(tmp_path / "k.pem", make())
    with pytest.raises(Misconfigured, match=says) as caught:
        load_private(tmp_path / "k.pem", PASSPHRASE)
    assert caught.value.hint
    for line in (caught.value.message, caught.value.hint):
        assert "\n" not in line
        assert PASSPHRASE.decode() not in line


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o610])
def test_a_key_that_others_can_reach_is_refused(tmp_path: Path, mode: int) -> None:
    generate_key(tmp_path / "k", PASSPHRASE)
    (tmp_path / "k").chmod(mode)
    with pytest.raises(Misconfigured, match="can be read by other users") as caught:
        load_private(tmp_path / "k", PASSPHRASE)
    assert caught.value.hint == f"chmod 600 {tmp_path / 'k'}"


def test_a_missing_key_is_named(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match=r"cannot read .*/k: No such file"):
        load_private(tmp_path / "k", PASSPHRASE)
    with pytest.raises(Misconfigured, match="Is a directory"):
        read_private(tmp_path, forbidden=0)


@pytest.mark.parametrize("change", ["label", "data", "signature", "key"])
def test_a_signature_holds_for_one_label_one_text_one_key(change: str) -> None:
    label, data, signature, key = "label", b"data", SIGNER.sign("label", b"data"), SIGNER.public
    match change:
        case "label":
            label, data = "labe", b"ldata"  # the same bytes, cut elsewhere
        case "data":
            data = b"date"
        case "signature":
            signature = signature[:-1]
        case "key":
            key = PublicKey.of(ec.derive_private_key(4, ec.SECP256R1()).public_key())
    with pytest.raises(IntegrityBroken, match="does not verify"):
        key.verify(label, data, signature)


def test_a_public_key_travels_as_text() -> None:
    key = PublicKey.from_b64(SIGNER.public.b64)
    assert key == SIGNER.public
    assert key.key_id[:16] in repr(key)
    with pytest.raises(Rejected, match="base64url"):
        PublicKey.from_b64(SIGNER.public.b64 + "=")


def test_a_passphrase_comes_from_the_credential_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = create_passphrase("signing", tmp_path)
    assert len(made) >= 43
    assert (tmp_path / "signing").stat().st_mode & 0o777 == 0o600
    assert read_passphrase("signing", tmp_path) == made
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path))
    assert read_passphrase("signing") == made
    with pytest.raises(Conflict):
        create_passphrase("signing", tmp_path)


@pytest.mark.parametrize(
    ("content", "passphrase"), [(b"x", b"x"), (b"x\n", b"x"), (b"x\r\n", b"x"), (b" x \n\n", b" x \n")]
)
def test_one_trailing_newline_is_dropped(tmp_path: Path, content: bytes, passphrase: bytes) -> None:
    write_once(tmp_path / "p", content)
    assert read_passphrase("p", tmp_path) == passphrase


def test_what_is_wrong_with_a_passphrase_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DIRECTORY_VARIABLE, raising=False)
    with pytest.raises(Misconfigured, match="no credential directory") as caught:
        read_passphrase("signing")
    assert "LoadCredential=signing" in caught.value.hint
    with pytest.raises(Misconfigured, match="cannot read"):
        read_passphrase("signing", tmp_path)
    write_once(tmp_path / "signing", b"\n")
    with pytest.raises(Misconfigured, match="is empty"):
        read_passphrase("signing", tmp_path)
    (tmp_path / "signing").chmod(0o644)
    with pytest.raises(Misconfigured, match="can be read by other users"):
        read_passphrase("signing", tmp_path)

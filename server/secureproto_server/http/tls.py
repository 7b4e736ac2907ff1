"""TLS of the server's ports: version 1.3 only, no resumption, client certificates checked where they are sent.

Invariants: no session ticket is ever issued, so that a revoked or renewed certificate is looked at again with each
connection; the ciphers are TLS 1.3's. The site port asks for a client certificate and verifies any it gets, but
does not demand one: enrolment and renewal come without. Which requests need one is the application's rule.
"""

import ssl
from dataclasses import dataclass
from pathlib import Path

from secureproto.errors import Misconfigured


@dataclass(frozen=True)
class ServerIdentity:
    """The server's certificate with its chain (PEM), and its private key (PEM, encrypted)."""

    chain: Path
    key: Path
    passphrase: bytes


def server_context(identity: ServerIdentity, *, client_ca: str | None = None) -> ssl.SSLContext:
    """The TLS context of a port. `client_ca`: PEM certificates that sign clients; None asks for no certificate.

    Raises:
        Misconfigured: a file is missing, cannot be decrypted, or certificate and key do not belong together.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    load_identity(context, identity)
    if client_ca is not None:
        context.verify_mode = ssl.CERT_OPTIONAL
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        try:
            context.load_verify_locations(cadata=client_ca)
        except ssl.SSLError:
            raise Misconfigured("the certificates that sign clients cannot be read as PEM") from None
    return context


def load_identity(context: ssl.SSLContext, identity: ServerIdentity) -> None:
    """Present this certificate from the next connection on: how a renewed one comes into use without a restart.

    Raises:
        Misconfigured: as `server_context`.
    """
    try:
        context.load_cert_chain(identity.chain, identity.key, password=identity.passphrase)
    except FileNotFoundError:
        missing = next(path for path in (identity.chain, identity.key) if not path.exists())
        raise Misconfigured(f"{missing} does not exist", hint="make it with: secureproto federation init") from None
    except OSError as error:
        reason = getattr(error, "reason", None) or error.strerror or "not PEM"
        if reason == "KEY_VALUES_MISMATCH":
            raise Misconfigured(f"{identity.chain} and {identity.key} do not belong together") from None
        raise Misconfigured(
            f"cannot use {identity.chain} with {identity.key}: {reason}",
            hint="see that both are PEM and that the passphrase is the key's",
        ) from None

"""The operator's desk: settings, key and root document, and the signed requests to the server's admin port.

Invariants: every request is signed for one server, path and body, and once; the server is believed by the CA of the
root document that lies at the desk; root documents are made and signed here, never on the server; the newest one the
server shows is taken over only when it follows from the one at the desk.
"""

import json
import secrets
import ssl
import time
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
from pydantic_settings import SettingsConfigDict

from secureproto.clock import Clock, SystemClock, seconds
from secureproto.crypto.envelope import sign, sign_threshold
from secureproto.crypto.keys import Signer, load_signer
from secureproto.crypto.passphrase import read_passphrase
from secureproto.errors import (
    Misconfigured,
    Rejected,
    SecureProtoError,
    Unavailable,
)
from secureproto.wire import base64url, canonical
from secureproto.wire.limits import LIMITS
from secureproto.wire.messages import AdminRequest, Problem, PublicKeys, RootDocument, SiteEntry
from secureproto.wire.problems import error_of
from secureproto_server import roots
from secureproto_server.layered import Layered, load_layered

PREFIX = "SECUREPROTO_OPERATOR_"
TIMEOUT = httpx.Timeout(60.0, connect=10.0)


class DeskSettings(Layered):
    """operator.toml, and `SECUREPROTO_OPERATOR_…`, which wins."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="forbid", frozen=True)
    federation: str
    admin_url: str
    server_name: str
    epoch: int = 1
    credentials: Path | None = None


class Desk:
    """An operator at work. `signer` is the operator's key; `clock` stamps the requests."""

    def __init__(self, directory: Path, *, credentials: Path | None = None, clock: Clock | None = None) -> None:
        """Open the desk in a directory.

        Raises:
            Misconfigured: settings, key, passphrase or root document are missing or do not fit.
        """
        self.directory = directory
        self.settings = _load(directory)
        secret = read_passphrase("operator", credentials or self.settings.credentials)
        self.signer: Signer = load_signer(directory / "operator.key", secret)
        self.clock = clock or SystemClock()
        self.root = self._kept_root()

    def get(self, path: str, *, meaning: str) -> Any:
        """What the server says at a path, as plain values. Raises: as `request`."""
        return json.loads(self.request("GET", path, b"", meaning=meaning))

    def post(self, path: str, value: object, *, meaning: str) -> Any:
        """Ask the server to do something; `value` is the request's body. Raises: as `request`."""
        return json.loads(self.request("POST", path, canonical.encode(value), meaning=meaning))

    def request(self, method: str, path: str, body: bytes, *, meaning: str) -> bytes:
        """Send one signed request and give the answer's body.

        Raises:
            Unavailable: the server cannot be reached. Whatever family the server's problem document names.
        """
        path = f"/v1/admin/{path}"
        headers = {"authorization": f"SecureProto {self._authorise(method, path, body, meaning)}"}
        if method == "POST":
            headers["content-type"] = "application/octet-stream"
        try:
            with httpx.Client(verify=self._tls(), timeout=TIMEOUT, trust_env=False) as client:
                answer = client.request(
                    method,
                    self.settings.admin_url.rstrip("/") + path,
                    content=body,
                    headers=headers,
                    extensions={"sni_hostname": self.settings.server_name},
                )
        except httpx.TransportError as error:
            raise Unavailable(
                f"the server's admin port {self.settings.admin_url} cannot be reached: {error}",
                hint="is it running, and is admin_url in operator.toml right?",
            ) from None
        if answer.status_code >= 400:
            raise _error(answer)
        return answer.content

    def refresh_root(self) -> RootDocument:
        """The root document in force, if it follows from the one at the desk; then kept there."""
        envelope = self.request("GET", "root", b"", meaning="fetch the root document")
        if roots.parse_unverified(envelope).digest() != self.root.digest():
            self.root = roots.follow(envelope, self.root)
            self.keep_root(envelope)
        return self.root

    def root_with_site(self, site: str, keys: PublicKeys) -> bytes:
        """The next root document, with this site on its roster, signed at the desk."""
        before = self.refresh_root()
        entry = SiteEntry(site=site, keys=keys, since=before.version + 1)
        others = tuple(known for known in before.sites if known.site != site)
        now = seconds(self.clock)
        following = before.model_copy(
            update={
                "version": before.version + 1,
                "issued": now,
                "sites": tuple(sorted((*others, entry), key=lambda known: known.site)),
            }
        )
        return sign_threshold(following, self.signer)

    def keep_root(self, envelope: bytes) -> None:
        """Keep a newer root document at the desk."""
        draft = self.directory / ".root.json.part"
        draft.write_bytes(envelope)
        draft.replace(self.directory / "root.json")

    def pause(self, seconds: float) -> None:
        """Wait before asking again."""
        time.sleep(seconds)

    def _authorise(self, method: str, path: str, body: bytes, meaning: str) -> str:
        now = seconds(self.clock)
        request = AdminRequest(
            federation=self.settings.federation,
            epoch=self.settings.epoch,
            method="POST" if method == "POST" else "GET",
            path=path,
            body_digest=sha256(body).hexdigest(),
            meaning=meaning,
            nonce=secrets.token_hex(16),
            issued=now,
            expires=now + LIMITS.admin_seconds,
        )
        return base64url.encode(sign(request, self.signer))

    def _tls(self) -> ssl.SSLContext:
        ca = ssl.DER_cert_to_PEM_cert(base64url.decode(self.root.ca))
        context = ssl.create_default_context(cadata=ca)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        return context

    def _kept_root(self) -> RootDocument:
        path = self.directory / "root.json"
        try:
            return roots.founding(path.read_bytes())
        except OSError as error:
            raise Misconfigured(f"{path}: {error.strerror}") from None
        except Rejected as error:
            raise Misconfigured(f"{path}: {error.message}") from None


def _load(directory: Path) -> DeskSettings:
    path = directory / "operator.toml"
    settings = load_layered(DeskSettings, path, hint="name the operator's directory with --operator")
    if settings.credentials is None:
        return settings
    return settings.model_copy(update={"credentials": path.resolve().parent / settings.credentials})


def _error(answer: httpx.Response) -> SecureProtoError:
    """The server's problem document as the error it stands for."""
    try:
        problem = Problem.parse(answer.content)
    except Rejected:
        return Unavailable(f"the server answered {answer.status_code} without saying why")
    return error_of(problem)

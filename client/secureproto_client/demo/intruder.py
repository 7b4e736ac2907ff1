"""What somebody would try who holds a site's TLS certificate, or even its keys: each against the running server.

Every attempt is a real request over the real line; what counts is the server's own answer. The four of the demo:
    a body changed on the way           the manifest is signed by the site, one bit of the ciphertext is not its own
    a key nobody enrolled               a well-formed upload, signed by a key that is on no roster
    a round that is not open            the site's own signature, about another round
    other bytes for an answered round   a second, different update of a site whose first one was taken
"""

import logging
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric import ec
from numpy.typing import NDArray

from secureproto.clock import Clock
from secureproto.crypto.keys import FileSigner, Signer
from secureproto.crypto.sealing import Sealer, SignedManifest, sign_manifest
from secureproto.errors import IntegrityBroken, Rejected
from secureproto.wire.layouts import upload_schema
from secureproto.wire.messages import Invitation, StudyDescriptor, UploadCore
from secureproto.wire.reasons import Reason
from secureproto.wire.tensors import TensorSchema, encode
from secureproto_client import studies
from secureproto_client.opening import open_site
from secureproto_client.paths import SitePaths
from secureproto_client.polling import poll
from secureproto_client.problems import demand
from secureproto_client.procedure import upload_core
from secureproto_client.site import Site

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Attempt:
    """One attempt and the server's answer."""

    what: str
    reason: Reason
    answer: str


@dataclass(frozen=True)
class Known:
    """What an intruder has learnt of the study and its rounds."""

    invitation: Invitation
    descriptor: StudyDescriptor


class Intruder:
    """Makes attempts with the files of `site`, which was invited to a round and has not answered it."""

    def __init__(self, site: Site, known: Known) -> None:
        self.known = known
        self._site = site
        self._invitation = known.invitation
        self._schema = upload_schema(known.descriptor.model)

    def in_the_open_round(self, scratch: Path) -> list[Attempt]:
        """The three attempts that need an open round. `scratch`: a directory for the changed body.

        Raises:
            IntegrityBroken: the server took one of them.
        """
        return [self._tampered_body(scratch / "tampered.sealed"), self._unknown_key(), self._wrong_round()]

    def answer_again(self, number: int) -> Attempt:
        """Another update for a round that the site has answered. Raises IntegrityBroken when it is taken."""
        core = self._core().model_copy(update={"round": number})
        manifest, _ = self._sealed(core, self._site.identity.signer)
        return _refused("other bytes for a round already answered", lambda: self._post(number, manifest))

    def _tampered_body(self, body: Path) -> Attempt:
        core = self._core()
        manifest, ciphertext = self._sealed(core, self._site.identity.signer)
        changed = bytearray(ciphertext)
        changed[len(changed) // 2] ^= 1
        body.write_bytes(changed)

        def send() -> None:
            self._post(core.round, manifest)
            path = f"/v1/studies/{core.study}/rounds/{core.round}/body/{manifest.digest}"
            self._site.link.ask(lambda transport: demand(transport.put(path, body, offset=0), 200))

        return _refused("a body with one bit changed on the way", send)

    def _unknown_key(self) -> Attempt:
        stranger = FileSigner(ec.generate_private_key(ec.SECP256R1()))
        core = self._core().model_copy(update={"sender_key": stranger.public.key_id})
        manifest, _ = self._sealed(core, stranger)
        return _refused("an upload signed by an unknown key", lambda: self._post(core.round, manifest))

    def _wrong_round(self) -> Attempt:
        other = self._invitation.round + 7
        core = self._core().model_copy(update={"round": other})
        manifest, _ = self._sealed(core, self._site.identity.signer)
        return _refused("an upload for a wrong round", lambda: self._post(other, manifest))

    def _core(self) -> UploadCore:
        return upload_core(self._site, self._invitation, 1)

    def _sealed(self, core: UploadCore, signer: Signer) -> tuple[SignedManifest, bytes]:
        sealer = Sealer(core.canonical(), [self._site.link.trust.recipient])
        parts = [sealer.update(chunk) for chunk in encode(self._schema, _noise(self._schema))]
        parts.append(sealer.finalize())
        return sign_manifest(sealer, signer), b"".join(parts)

    def _post(self, number: int, manifest: SignedManifest) -> None:
        path = f"/v1/studies/{self._invitation.study}/rounds/{number}/manifest"
        self._site.link.ask(lambda transport: demand(transport.post(path, manifest.encode()), 200, 201))


@contextmanager
def intruder(directory: Path, clock: Clock, *, known: Known | None = None) -> Iterator[Intruder]:
    """An intruder with the files of an enrolled site whose agent does not run. `known`: from an earlier visit.

    Raises:
        IntegrityBroken: nothing is known yet, and there is no invitation for the site.
    """
    with open_site(SitePaths(directory), clock=clock, sleep=_no_sleep, tries=1) as site:
        yield Intruder(site, known or _look(site))


def _look(site: Site) -> Known:
    reply = poll(site, (), wait=10)
    if not reply.invitations:
        raise IntegrityBroken(f"{site.identity.site} is not invited to a round")
    invitation = reply.invitations[0]
    signed = site.link.ask(lambda transport: demand(transport.get(f"/v1/studies/{invitation.study}"), 200))
    return Known(invitation, studies.verified(signed, site.link.trust, invitation.study).descriptor)


def _refused(what: str, send: Callable[[], None]) -> Attempt:
    try:
        send()
    except Rejected as error:
        return Attempt(what, Reason(error.reason), error.message.removeprefix("the server says: "))
    raise IntegrityBroken(f"the server took {what}")


def _noise(schema: TensorSchema) -> dict[str, NDArray[Any]]:
    """Arrays that fit the schema and mean nothing; bytes differ each time."""
    generator = np.random.default_rng(secrets.randbits(128))
    return {
        tensor.name: generator.integers(0, 2, tensor.shape).astype(tensor.numpy_dtype) for tensor in schema.tensors
    }


def _no_sleep(seconds: float) -> None:
    """One try is all the demo gives: there is nothing to wait for."""
    log.debug("not waiting %.1f s", seconds)

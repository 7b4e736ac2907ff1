"""The site port's uploads: manifest, body, refusal. The checks are in `receive`; the reading is here."""

import contextlib
from collections.abc import Mapping
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.routing import Route

from secureproto.errors import Conflict, Rejected
from secureproto.wire import canonical
from secureproto.wire.limits import LIMITS
from secureproto.wire.reasons import Reason
from secureproto_server import news, receive, refusals, roster
from secureproto_server.answers import JSON, Call, Gone, route
from secureproto_server.http.protocol import peer_certificate
from secureproto_server.routes.bodies import Slots
from secureproto_server.services import Services


class Uploads:
    """Handlers of what a site answers to a round."""

    def __init__(self, services: Services) -> None:
        self._services = services
        settings = services.settings
        self._slots = Slots(total=settings.global_uploads, each=settings.site_uploads)

    def routes(self) -> list[Route]:
        """What the router takes."""
        base = "/v1/studies/{study:name}/rounds/{round:number}"
        return [
            route(f"{base}/manifest", self.manifest, "POST", self._services),
            route(f"{base}/body/{{digest:digest}}", self.body, "PUT", self._services),
            route(f"{base}/refusal", self.refusal, "POST", self._services),
        ]

    async def manifest(self, call: Call) -> None:
        """POST …/manifest: where to go on with the body, or its receipt."""
        try:
            data = await call.body(LIMITS.manifest)
            admitted = await run_in_threadpool(self._accept, call, data)
        except Rejected as error:
            await self._note(call, error)
            raise
        if admitted.receipt is not None:
            await call.answer(200, admitted.receipt)
            return
        offset = await run_in_threadpool(receive.offset, self._services, admitted)
        await call.answer(201, canonical.encode({"offset": offset}), kind=JSON)

    async def body(self, call: Call) -> None:
        """PUT …/body/{digest}: the ciphertext from `Upload-Offset` on; answered with the receipt."""
        try:
            admitted = await run_in_threadpool(self._resume, call)
            if admitted.receipt is None:
                with self._slots.taken(admitted.upload.sender):
                    receipt = await self._receive(call, admitted)
            else:
                receipt = admitted.receipt
        except Rejected as error:
            await self._note(call, error)
            raise
        await call.answer(200, receipt)

    async def refusal(self, call: Call) -> None:
        """POST …/refusal: the site declines."""
        try:
            data = await call.body(LIMITS.message)
            await run_in_threadpool(self._decline, call, data)
        except Rejected as error:
            await self._note(call, error)
            raise
        await call.answer(204)

    async def _receive(self, call: Call, admitted: receive.Admitted) -> bytes:
        with contextlib.ExitStack() as stack:
            spool = stack.enter_context(self._services.blobs.spool(admitted.upload.blob))
            offset = _offset_of(call)
            if offset != spool.length:
                raise Conflict(f"{spool.length} bytes were received, the next piece is for offset {offset}")
            if offset + int(call.header("content-length")) != admitted.manifest.ciphertext_length:
                raise Rejected(Reason.MALFORMED, "the body's length is not the one that its manifest signs")
            body = await run_in_threadpool(receive.Body, self._services, admitted, spool)
            try:
                await _copy(call, body, offset)
                return await run_in_threadpool(body.finish)
            except Rejected as error:
                if body.dropped:
                    raise Noted(error) from error
                raise

    def _accept(self, call: Call, data: bytes) -> receive.Admitted:
        study, number = _round_of(call)
        certificate = peer_certificate(call.scope)
        return receive.accept_manifest(self._services, study, number, certificate=certificate, data=data)

    def _resume(self, call: Call) -> receive.Admitted:
        study, number = _round_of(call)
        return receive.resume(
            self._services,
            study,
            number,
            certificate=peer_certificate(call.scope),
            digest=call.parameters["digest"],
        )

    def _decline(self, call: Call, data: bytes) -> None:
        study, number = _round_of(call)
        news.decline(self._services, study, number, certificate=peer_certificate(call.scope), body=data)

    async def _note(self, call: Call, error: Rejected) -> None:
        if isinstance(error, Noted):
            return
        study, number = _round_of(call)
        site = tls_site(self._services, call.scope)
        await run_in_threadpool(refusals.note, self._services, error, site=site, study=study, number=number)


class Noted(Rejected):
    """A refusal that is in the log already, with the change that it made."""

    def __init__(self, error: Rejected) -> None:
        super().__init__(error.reason, error.message, hint=error.hint)


def tls_site(services: Services, scope: Mapping[str, Any]) -> str | None:
    """The site of the connection's certificate, if it names one: whom a refusal is counted for."""
    try:
        return roster.peer_of(peer_certificate(scope), services.federation).site
    except Rejected:
        return None


async def _copy(call: Call, body: receive.Body, offset: int) -> None:
    """Write the body in pieces of about a chunk: many small writes would each be a switch of threads."""
    pending = bytearray()
    more = True
    while more:
        try:
            part, more = await call.chunk()
        except Gone:
            await run_in_threadpool(body.write, offset, bytes(pending))  # kept: the site resumes behind it
            raise
        pending += part
        if len(pending) >= LIMITS.chunk or not more:
            await run_in_threadpool(body.write, offset, bytes(pending))
            offset += len(pending)
            pending.clear()


def _round_of(call: Call) -> tuple[str, int]:
    return call.parameters["study"], int(call.parameters["round"])


def _offset_of(call: Call) -> int:
    text = call.header("upload-offset")
    if not text.isascii() or not text.isdecimal() or len(text) > 15:
        raise Rejected(Reason.MALFORMED, "the header Upload-Offset says where the body goes on")
    return int(text)

"""The site port: enrolment, renewal, the long poll, and what a site fetches. Uploads are in `routes.uploads`.

Every request but enrolment and renewal needs the client certificate of an active site.
"""

import asyncio

from starlette.concurrency import run_in_threadpool
from starlette.routing import Route

from secureproto.errors import NotFound, Rejected
from secureproto.wire.limits import LIMITS
from secureproto.wire.reasons import Reason
from secureproto_server import enrolment, news, releases, roster, studies
from secureproto_server.answers import Call, Handler, route
from secureproto_server.http.protocol import peer_certificate
from secureproto_server.routes.bodies import Fetches, send_blob
from secureproto_server.services import Services
from secureproto_server.storage.records import Head, Published, Root, Site

FETCHES_EACH = 4  # a client fetches one; connections that were cut may be held until their time is over

IDENTITY = frozenset({Reason.BAD_SIGNATURE, Reason.UNKNOWN_KEY, Reason.REVOKED_KEY, Reason.SUSPENDED, Reason.STALE})


class Sites:
    """Handlers of the site port that are not uploads."""

    def __init__(self, services: Services, stopping: asyncio.Event) -> None:
        self._services = services
        self._stopping = stopping
        self._fetches = Fetches(FETCHES_EACH)

    def routes(self) -> list[Route]:
        """What the router takes."""
        version = "/v1/studies/{study:name}/versions/{version:number}"
        handlers: tuple[tuple[str, Handler, str], ...] = (
            ("/v1/enrolments", self.enrol, "POST"),
            ("/v1/renewals", self.renew, "POST"),
            ("/v1/poll", self.poll, "POST"),
            ("/v1/roots/{version:number}", self.root, "GET"),
            ("/v1/studies/{study:name}", self.study, "GET"),
            (f"{version}/shared", self.shared, "GET"),
            (f"{version}/head", self.head, "GET"),
        )
        return [route(path, self._counted(handler), method, self._services) for path, handler, method in handlers]

    def _counted(self, handler: Handler) -> Handler:
        """The handler, whose refusals for identity are counted: somebody may be trying."""

        async def counted(call: Call) -> None:
            try:
                await handler(call)
            except Rejected as error:
                if error.reason in IDENTITY:
                    self._services.metrics.auth_failed("site", Reason(error.reason))
                raise

        return counted

    async def enrol(self, call: Call) -> None:
        """POST /v1/enrolments"""
        body = await call.body(LIMITS.message)
        code, reply = await run_in_threadpool(enrolment.enrol, self._services, body)
        await call.answer(code, reply)

    async def renew(self, call: Call) -> None:
        """POST /v1/renewals"""
        body = await call.body(LIMITS.message)
        await call.answer(200, await run_in_threadpool(enrolment.renew, self._services, body))

    async def poll(self, call: Call) -> None:
        """POST /v1/poll: answered when there is news, when its time is over, or when the server stops."""
        body = await call.body(LIMITS.message)
        services, clock = self._services, self._services.clock
        poll = await run_in_threadpool(news.authenticate, services, body, peer_certificate(call.scope))
        end = clock.monotonic() + min(poll.request.wait, LIMITS.poll_seconds)
        while True:
            ticket = services.news.ticket()
            fresh, reply = await run_in_threadpool(news.reply, services, poll)
            left = end - clock.monotonic()
            if fresh or left <= 0 or self._stopping.is_set():
                await call.answer(200, reply)
                return
            await services.news.wait(ticket, left)

    async def root(self, call: Call) -> None:
        """GET /v1/roots/{version}"""
        await run_in_threadpool(self._caller, call)
        await call.answer(200, await run_in_threadpool(self._root, int(call.parameters["version"])))

    async def study(self, call: Call) -> None:
        """GET /v1/studies/{study}"""
        await run_in_threadpool(self._caller, call)
        await call.answer(200, await run_in_threadpool(self._descriptor, call.parameters["study"]))

    async def shared(self, call: Call) -> None:
        """GET /v1/studies/{study}/versions/{version}/shared"""
        site = await run_in_threadpool(self._caller, call)
        row = await run_in_threadpool(self._published, call.parameters["study"], int(call.parameters["version"]))
        with self._fetches.taken(site.site):
            await send_blob(call, self._services.blobs, row.blob)

    async def head(self, call: Call) -> None:
        """GET /v1/studies/{study}/versions/{version}/head: of the site of the certificate, and of no other."""
        site = await run_in_threadpool(self._caller, call)
        study, version = call.parameters["study"], int(call.parameters["version"])
        row = await run_in_threadpool(self._head, study, site.site, version)
        with self._fetches.taken(site.site):
            await send_blob(call, self._services.blobs, row.blob)

    def _caller(self, call: Call) -> Site:
        peer = roster.peer_of(peer_certificate(call.scope), self._services.federation)
        with self._services.store.transaction("identify site") as tx:
            return roster.connected(tx, peer)

    def _root(self, version: int) -> bytes:
        with self._services.store.transaction("read root") as tx:
            row = tx.get(Root, version)
        if row is None:
            raise NotFound(f"there is no root document of version {version}")
        return row.envelope

    def _descriptor(self, study: str) -> bytes:
        with self._services.store.transaction("read study") as tx:
            return studies.require(tx, study).descriptor

    def _published(self, study: str, version: int) -> Published:
        with self._services.store.transaction("read version") as tx:
            if version > studies.require(tx, study).version:  # its rows may be there, but it is not out yet
                raise NotFound(f"study {study} has no version {version}")
            return releases.require_published(tx, study, version)

    def _head(self, study: str, site: str, version: int) -> Head:
        with self._services.store.transaction("read head") as tx:
            if version > studies.require(tx, study).version:
                raise NotFound(f"study {study} has no version {version}")
            return releases.require_head(tx, study, site, version)

"""The server process: four ports in one event loop, the coordinator beside them, one orderly end.

    site     TLS 1.3, client certificates of the federation's CA   what sites ask
    admin    TLS 1.3, signed requests                              what operators ask
    metrics  plain, loopback by default                            Prometheus
    health   plain, loopback by default                            is it there, can it serve

Invariants: the event loop never waits for the disk, the database or a cipher; the process never imports torch; the
real ports are in `<state>/ports.json` once all of them accept connections.
"""

import asyncio
import json
import logging
import re
import socket
import ssl
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.routing import Route, Router

from secureproto.clock import Clock
from secureproto.errors import Rejected
from secureproto.wire import base64url
from secureproto.wire.reasons import Reason
from secureproto_server import coordinator, creation, refusals, roots
from secureproto_server.answers import Call, nowhere, route
from secureproto_server.http.accepting import room_for_connections
from secureproto_server.http.guard import Guard, Observer, Refusal
from secureproto_server.http.listen import Port, address_of, bind, serve, stop_on_signals
from secureproto_server.http.tls import ServerIdentity, server_context
from secureproto_server.metrics import CONTENT_TYPE
from secureproto_server.routes import paths
from secureproto_server.routes.admin import Admin
from secureproto_server.routes.health import Health
from secureproto_server.routes.sites import Sites
from secureproto_server.routes.uploads import Uploads, tls_site
from secureproto_server.services import Services
from secureproto_server.settings import Listener, Settings
from secureproto_server.startup import started

SURFACES = ("site", "admin", "metrics", "health")
LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
UPLOAD = re.compile(rf"/v1/studies/({paths.NAME})/rounds/({paths.NUMBER})/(?:manifest|body/{paths.DIGEST}|refusal)\Z")
MANY_CONNECTIONS, FEW_CONNECTIONS = 1024, 64  # of sites; of operators, and of each monitor
OTHER_FILES = 256  # the database, bodies that come and go, and what the connections over the bound take
LOG = logging.getLogger("secureproto.server")
Say = Callable[[str], None]


def run(settings: Settings, clock: Clock, *, accept_forward: bool, say: Say) -> None:
    """Serve until SIGTERM or SIGINT. `say` is called with one line for each port.

    Raises:
        Misconfigured, Conflict, IntegrityBroken: what is wrong at the start.
    """
    with ExitStack() as stack:
        sockets: dict[str, socket.socket] = {}
        for name in SURFACES:
            listener: Listener = getattr(settings, name)
            sockets[name] = stack.enter_context(bind(name, listener.host, listener.port))
        url = settings.public_url or f"https://{settings.names[0]}:{address_of(sockets['site'])[1]}"
        services = stack.enter_context(started(settings, clock, public_url=url, accept_forward=accept_forward))
        asyncio.run(_serve(services, sockets, say))


async def _serve(services: Services, sockets: Mapping[str, socket.socket], say: Say) -> None:
    stopping = asyncio.Event()

    def tell(addresses: Mapping[str, tuple[str, int]]) -> None:
        _write_ports(services.settings.state, addresses)
        for name, (host, port) in addresses.items():
            say(f"{name} port: {host}:{port}")

    with stop_on_signals(stopping):
        ports = _ports(services, sockets, stopping)
        work = asyncio.create_task(coordinator.run(services, stopping))
        # a server without its coordinator would look alive and never close a round: it ends instead, with the error
        work.add_done_callback(lambda _: stopping.set())
        waking = asyncio.create_task(_wake_at_the_end(services, stopping))
        try:
            await serve(ports, stopping=stopping, started=tell)
        finally:
            stopping.set()
            await asyncio.gather(work, waking)


def _ports(services: Services, sockets: Mapping[str, socket.socket], stopping: asyncio.Event) -> list[Port]:
    settings = services.settings
    hosts = LOOPBACK | {_host(name) for name in settings.names}
    with services.store.transaction("read root") as tx:
        ca = ssl.DER_cert_to_PEM_cert(base64url.decode(roots.in_force(tx).ca))
    identity = ServerIdentity(services.identity.tls_chain, services.identity.tls_key, services.identity.passphrase)
    observer = _observer(services, asyncio.get_running_loop())
    site = Guard(hosts, max_body=settings.upload_quota_bytes, observer=observer)
    admin = Guard(hosts, max_body=creation.MAX_BODY, observer=observer)
    plain = Guard(hosts, observer=observer)
    sites = [*Sites(services, stopping).routes(), *Uploads(services).routes()]
    few = FEW_CONNECTIONS
    many = room_for_connections(MANY_CONNECTIONS, reserved=3 * few + OTHER_FILES)
    # the same certificate on both ports; only the site port asks for a client's
    return [
        Port("site", sockets["site"], _router(sites), site, server_context(identity, client_ca=ca), many),
        Port("admin", sockets["admin"], _router(Admin(services).routes()), admin, server_context(identity), few),
        Port("metrics", sockets["metrics"], _router(_metrics(services)), plain, None, few),
        Port("health", sockets["health"], _router(Health(services).routes()), plain, None, few),
    ]


def _metrics(services: Services) -> list[Route]:
    async def metrics(call: Call) -> None:
        """GET /metrics"""
        await call.answer(200, await run_in_threadpool(services.metrics.exposition), kind=CONTENT_TYPE)

    return [route("/metrics", metrics, "GET", services)]


def _router(routes: list[Route]) -> Router:
    return Router(routes, redirect_slashes=False, default=nowhere)


def _observer(services: Services, loop: asyncio.AbstractEventLoop) -> Observer:
    """Counts what the guard refused; a slow or too long upload is a refused upload, and logged as one."""

    def observe(refusal: Refusal, scope: Mapping[str, Any] | None) -> None:
        services.metrics.request_refused(refusal.status)
        match = UPLOAD.match(str((scope or {}).get("path", "")))
        if scope is None or match is None or refusal.word not in (Reason.TOO_SLOW, Reason.TOO_LARGE):
            return
        error = Rejected(Reason(refusal.word), refusal.detail)
        site = tls_site(services, scope)
        loop.run_in_executor(None, _note, services, error, site, match).add_done_callback(_tell_failure)

    return observe


def _note(services: Services, error: Rejected, site: str | None, match: re.Match[str]) -> None:
    refusals.note(services, error, site=site, study=match[1], number=int(match[2]))


def _tell_failure(noting: asyncio.Future[None]) -> None:
    if not noting.cancelled() and (failure := noting.exception()):
        LOG.error("a refusal could not be noted: %s", failure)


async def _wake_at_the_end(services: Services, stopping: asyncio.Event) -> None:
    """Long polls are answered at once when the server stops."""
    await stopping.wait()
    services.tell_sites()


def _host(name: str) -> str:
    return f"[{name}]" if ":" in name else name.lower()


def _write_ports(state: Path, addresses: Mapping[str, tuple[str, int]]) -> None:
    """Whole or not at all: whoever reads the file finds real ports."""
    path = state / "ports.json"
    draft = path.with_suffix(".part")
    draft.write_text(json.dumps({name: port for name, (_, port) in addresses.items()}) + "\n", encoding="utf-8")
    draft.replace(path)

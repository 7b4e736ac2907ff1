"""The admin port: each request signed by an operator (`auth`), each decision in the module that owns it."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.routing import Route

from secureproto import __version__
from secureproto.audit import export
from secureproto.errors import Conflict
from secureproto.wire import base64url, canonical
from secureproto.wire.limits import LIMITS
from secureproto.wire.messages import Person
from secureproto.wire.messages.base import Message
from secureproto_server import admission, auth, creation, rounds, vault, views
from secureproto_server.answers import JSON, OCTETS, Call, route
from secureproto_server.routes.admin_bodies import Approve, Because, IssueToken, OpenRounds
from secureproto_server.services import Services

BASE = "/v1/admin"
ENTRIES = 10_000  # of the log in one answer; `audit export` asks again for more
M = TypeVar("M", bound=Message)
View = Callable[[], object]


class Admin:
    """Handlers of the admin port."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def routes(self) -> list[Route]:
        """What the router takes."""
        study, site = f"{BASE}/studies/{{study:name}}", f"{BASE}/sites/{{site:name}}"
        reads = {
            f"{BASE}/status": self.status,
            f"{BASE}/sites": self.sites,
            f"{BASE}/enrolments": self.enrolments,
            f"{BASE}/root": self.root,
            f"{BASE}/studies": self.studies,
            study: self.study,
            f"{study}/rounds/last": self.last_round,
            f"{study}/rounds/{{round:number}}": self.round,
            f"{study}/models": self.models,
            f"{study}/versions/{{version:number}}/model": self.model,
            f"{BASE}/audit/checkpoint": self.checkpoint,
            f"{BASE}/audit/{{first:number}}/{{count:number}}": self.entries,
        }
        writes = {
            f"{BASE}/tokens": self.issue_token,
            f"{BASE}/enrolments/{{site:name}}/approve": self.approve,
            f"{BASE}/enrolments/{{site:name}}/deny": self.deny,
            f"{BASE}/studies": self.create_study,
            f"{study}/rounds": self.open_rounds,
            f"{study}/rounds/{{round:number}}/abort": self.abort_round,
            f"{study}/close": self.close_study,
            f"{site}/{{verb}}": self.change_site,
        }
        return [
            *(route(path, handler, "GET", self._services) for path, handler in reads.items()),
            *(route(path, handler, "POST", self._services) for path, handler in writes.items()),
        ]

    async def status(self, call: Call) -> None:
        """GET /v1/admin/status"""
        await self._view(call, lambda: views.status(self._services, __version__))

    async def sites(self, call: Call) -> None:
        """GET /v1/admin/sites"""
        await self._view(call, lambda: views.sites(self._services))

    async def enrolments(self, call: Call) -> None:
        """GET /v1/admin/enrolments"""
        await self._view(call, lambda: views.enrolments(self._services))

    async def root(self, call: Call) -> None:
        """GET /v1/admin/root"""
        await self._person(call)
        await call.answer(200, await run_in_threadpool(views.root_document, self._services))

    async def studies(self, call: Call) -> None:
        """GET /v1/admin/studies"""
        await self._view(call, lambda: views.all_studies(self._services))

    async def study(self, call: Call) -> None:
        """GET /v1/admin/studies/{study}"""
        await self._view(call, lambda: views.study(self._services, call.parameters["study"]))

    async def last_round(self, call: Call) -> None:
        """GET /v1/admin/studies/{study}/rounds/last"""
        await self._view(call, lambda: views.round_(self._services, call.parameters["study"], None))

    async def round(self, call: Call) -> None:
        """GET /v1/admin/studies/{study}/rounds/{round}"""
        number = int(call.parameters["round"])
        await self._view(call, lambda: views.round_(self._services, call.parameters["study"], number))

    async def models(self, call: Call) -> None:
        """GET /v1/admin/studies/{study}/models"""
        await self._view(call, lambda: views.models(self._services, call.parameters["study"]))

    async def model(self, call: Call) -> None:
        """GET /v1/admin/studies/{study}/versions/{version}/model: the shared part, opened, in the wire layout."""
        await self._person(call)
        study, version = call.parameters["study"], int(call.parameters["version"])
        row = await run_in_threadpool(views.shared_part, self._services, study, version)
        body = await run_in_threadpool(_whole, vault.open_chunks(self._services, row.blob, row.manifest))
        await call.answer(200, body, kind=OCTETS)

    async def checkpoint(self, call: Call) -> None:
        """GET /v1/admin/audit/checkpoint"""
        await self._person(call)
        text = await run_in_threadpool(self._services.log.checkpoint, self._services.store)
        await call.answer(200, text.encode(), kind="text/plain; charset=utf-8")

    async def entries(self, call: Call) -> None:
        """GET /v1/admin/audit/{first}/{count}: lines of the log's export, without a checkpoint."""
        await self._person(call)
        first, count = int(call.parameters["first"]), min(int(call.parameters["count"]), ENTRIES)
        log, store = self._services.log, self._services.store
        body = await run_in_threadpool(lambda: _whole(export.lines(log.entries(store, first, count))))
        await call.answer(200, body, kind="application/jsonl")

    async def issue_token(self, call: Call) -> None:
        """POST /v1/admin/tokens: the whole invitation, which is shown once."""
        person, asked = await self._asked(call, IssueToken)
        token = await run_in_threadpool(
            lambda: admission.issue_token(self._services, person, site=asked.site, hours=asked.hours)
        )
        await call.answer(200, token.canonical(), kind=JSON)

    async def approve(self, call: Call) -> None:
        """POST /v1/admin/enrolments/{site}/approve"""
        person, asked = await self._asked(call, Approve, most=2 * LIMITS.root_document)
        site, envelope = call.parameters["site"], base64url.decode(asked.root)
        root = await run_in_threadpool(
            lambda: admission.approve(
                self._services, person, site=site, fingerprint=asked.fingerprint, envelope=envelope
            )
        )
        await _answer(call, {"site": site, "root_version": root.version})

    async def deny(self, call: Call) -> None:
        """POST /v1/admin/enrolments/{site}/deny"""
        person, asked = await self._asked(call, Because)
        site = call.parameters["site"]
        await run_in_threadpool(lambda: admission.deny(self._services, person, site=site, reason=asked.reason))
        await _answer(call, {"site": site, "state": "denied"})

    async def change_site(self, call: Call) -> None:
        """POST /v1/admin/sites/{site}/suspend|resume|revoke"""
        person, asked = await self._asked(call, Because)
        site, verb = call.parameters["site"], call.parameters["verb"]
        if verb not in admission.VERBS:
            raise Conflict(f"a site cannot be changed by {verb[:32]}")
        state = await run_in_threadpool(
            lambda: admission.set_state(self._services, person, site=site, verb=verb, reason=asked.reason)
        )
        await _answer(call, {"site": site, "state": str(state)})

    async def create_study(self, call: Call) -> None:
        """POST /v1/admin/studies"""
        person, body = await self._sender(call, creation.MAX_BODY)
        row = await run_in_threadpool(creation.create, self._services, person, body)
        await _answer(call, {"study": row.study, "digest": row.digest, "version": row.version})

    async def open_rounds(self, call: Call) -> None:
        """POST /v1/admin/studies/{study}/rounds"""
        person, asked = await self._asked(call, OpenRounds)
        study = call.parameters["study"]
        row = await run_in_threadpool(lambda: rounds.want(self._services, person, study=study, rounds=asked.rounds))
        await _answer(call, {"study": study, "round": row.next_round - 1, "rounds_wanted": row.rounds_wanted})

    async def abort_round(self, call: Call) -> None:
        """POST /v1/admin/studies/{study}/rounds/{round}/abort"""
        person, asked = await self._asked(call, Because)
        study, number = call.parameters["study"], int(call.parameters["round"])
        await run_in_threadpool(
            lambda: rounds.abort(self._services, person, study=study, number=number, reason=asked.reason)
        )
        await _answer(call, {"study": study, "round": number, "phase": "aborted"})

    async def close_study(self, call: Call) -> None:
        """POST /v1/admin/studies/{study}/close"""
        person, asked = await self._asked(call, Because)
        study = call.parameters["study"]
        await run_in_threadpool(lambda: creation.close(self._services, person, study=study, reason=asked.reason))
        await _answer(call, {"study": study, "state": "closed"})

    async def _person(self, call: Call) -> Person:
        """The operator of a request without a body."""
        return (await self._sender(call, 0))[0]

    async def _sender(self, call: Call, most: int) -> tuple[Person, bytes]:
        """The operator and the body, which is read only when its signature has been verified."""
        header, method, path = call.header("authorization"), call.method, call.path
        signed = await run_in_threadpool(
            lambda: auth.signed(self._services, authorization=header, method=method, path=path)
        )
        body = await call.body(most)
        return await run_in_threadpool(auth.confirm, self._services, signed, body), body

    async def _asked(self, call: Call, kind: type[M], *, most: int = LIMITS.message) -> tuple[Person, M]:
        person, body = await self._sender(call, most)
        return person, kind.parse(body)

    async def _view(self, call: Call, view: View) -> None:
        await self._person(call)
        await _answer(call, await run_in_threadpool(view))


async def _answer(call: Call, value: object) -> None:
    await call.answer(200, canonical.encode(value), kind=JSON)


def _whole(chunks: Iterable[bytes]) -> bytes:
    return b"".join(chunks)

"""The health port: is the process there (`/live`), can it serve (`/ready`). Says nothing else."""

from starlette.concurrency import run_in_threadpool
from starlette.routing import Route

from secureproto.wire import canonical
from secureproto_server.answers import JSON, Call, route
from secureproto_server.services import Services


class Health:
    """Handlers of the health port."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def routes(self) -> list[Route]:
        """What the router takes."""
        return [
            route("/live", self.live, "GET", self._services),
            route("/ready", self.ready, "GET", self._services),
        ]

    async def live(self, call: Call) -> None:
        """GET /live"""
        await call.answer(200, canonical.encode({"status": "ok"}), kind=JSON)

    async def ready(self, call: Call) -> None:
        """GET /ready: the clock is right and the database answers. Else the error is the answer."""
        self._services.clock.now()
        await run_in_threadpool(self._services.log.size, self._services.store)
        await call.answer(200, canonical.encode({"status": "ok"}), kind=JSON)

"""Serves the two applications until told to stop."""

from aiohttp import web

from rebalancer.api.probes import probe_app
from rebalancer.api.routes import Parts, api_app
from rebalancer.api.view import View

SHUTDOWN_SECONDS = 2.0


class Servers:
    """The API on `api`, probes on `probes`, each (host, port); port 0 takes a free one: `api_port`, `probe_port`.

    `parts`: what handlers find on their application besides the view.
    """

    def __init__(self, view: View, api: tuple[str, int], probes: tuple[str, int], parts: Parts | None = None) -> None:
        self._view = view
        self._parts = parts
        self._api_host, self.api_port = api
        self._probe_host, self.probe_port = probes
        self._runners: list[web.AppRunner] = []

    async def start(self) -> None:
        """Listen. Raises OSError when a port is taken."""
        self.probe_port = await self._serve(probe_app(self._view), self._probe_host, self.probe_port)
        self.api_port = await self._serve(api_app(self._view, self._parts), self._api_host, self.api_port)

    async def _serve(self, app: web.Application, host: str, port: int) -> int:
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=SHUTDOWN_SECONDS)
        self._runners.append(runner)
        await runner.setup()
        site = web.TCPSite(runner, host, port)
        await site.start()
        return int(runner.addresses[0][1])

    async def stop(self) -> None:
        """Close the ports."""
        for runner in self._runners:
            await runner.cleanup()
        self._runners.clear()

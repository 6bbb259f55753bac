"""Serves the two applications until told to stop."""

from aiohttp import web

from rebalancer.api.routes import probe_app, read_app
from rebalancer.api.view import View

SHUTDOWN_SECONDS = 2.0


class Servers:
    """Probes and reads on `host`; port 0 takes a free one, `probe_port` and `api_port` say which."""

    def __init__(self, view: View, host: str, api_port: int, probe_port: int) -> None:
        self._view = view
        self._host = host
        self.api_port = api_port
        self.probe_port = probe_port
        self._runners: list[web.AppRunner] = []

    async def start(self) -> None:
        """Listen. Raises OSError when a port is taken."""
        self.probe_port = await self._serve(probe_app(self._view), self.probe_port)
        self.api_port = await self._serve(read_app(self._view), self.api_port)

    async def _serve(self, app: web.Application, port: int) -> int:
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=SHUTDOWN_SECONDS)
        self._runners.append(runner)
        await runner.setup()
        site = web.TCPSite(runner, self._host, port)
        await site.start()
        return int(runner.addresses[0][1])

    async def stop(self) -> None:
        """Close the ports."""
        for runner in self._runners:
            await runner.cleanup()
        self._runners.clear()

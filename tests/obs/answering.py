"""A Prometheus that answers what the service asks of it, about pods that a test names: no PromQL, but its answers."""

import re
import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager

from aiohttp import web
from aiohttp.test_utils import TestServer
from aiohttp.typedefs import Middleware

from rebalancer.ingest.engines import DCGM, VLLM
from rebalancer.ingest.promql import STARTED
from rebalancer.loop.clock import RealClock

SCRAPE_SECONDS = 15.0
READING = re.compile(r'"reading", "([-\w]+/\w+)"')
WORKLOAD = re.compile(r'"workload", "([^"]+)"')

Pods = Callable[[], Iterable[tuple[str, str]]]  # (namespace, name) of those that are scraped
Values = Callable[[str, float], Mapping[str, float]]  # (pod's name, instant) -> by reading


def steady(pod: str, at: float) -> Mapping[str, float]:
    """Four requests in work, none waiting, one finished each second; GPUs busy for half of the time."""
    counted = {
        "startTime": 0.0,
        "requestsFinished": at - 1.6e9,
        "promptTokens": 0.0,
        "generatedTokens": 100 * (at - 1.6e9),
    }
    return {"running": 4.0, "waiting": 0.0, "kvCacheUse": 0.2, "gpuUtilisation": 0.5, "ttftP95Seconds": 0.3, **counted}


class Answering:
    """`url` names it; `asked`: the paths of the questions it had; `down`: it says 503 to all of them."""

    def __init__(self, pods: Pods, values: Values = steady) -> None:
        self.url = ""
        self.asked: list[str] = []
        self.down = False
        self._pods = pods
        self._values = values
        self._clock = RealClock()

    async def names(self, request: web.Request) -> web.Response:
        """Which metrics there are."""
        self.asked.append(request.path)
        return web.json_response({"status": "success", "data": sorted(VLLM.names | DCGM.names | {STARTED})})

    async def labels(self, request: web.Request) -> web.Response:
        """Which labels they have."""
        self.asked.append(request.path)
        return web.json_response({"status": "success", "data": ["namespace", "pod"]})

    async def now(self, request: web.Request) -> web.Response:
        """An instant query: the readings of each pod, or last week's use of each workload."""
        self.asked.append(request.path)
        query, now = request.query["query"], self._clock.now()
        if self.down:
            return web.Response(status=503)
        week = {"median": "2", "most": "2", "looks": "900"}
        result = [
            {"metric": {"workload": workload, "reading": reading}, "value": [now, value]}
            for workload in dict.fromkeys(WORKLOAD.findall(query))
            for reading, value in week.items()
        ] or [{"metric": labels, "value": [now, str(self._value(labels, now))]} for labels in self._labels(query)]
        return _answer("vector", result)

    async def then(self, request: web.Request) -> web.Response:
        """A range query: the readings of each pod at each step."""
        self.asked.append(request.path)
        if self.down:
            return web.Response(status=503)
        begin, end, step = (float(request.query[name]) for name in ("start", "end", "step"))
        steps = [begin + number * step for number in range(int((end - begin) / step) + 1)]
        assert len(steps) <= 11_000, "exceeded maximum resolution of 11,000 points per timeseries"
        result = [
            {"metric": labels, "values": [[at, str(self._value(labels, at))] for at in steps]}
            for labels in self._labels(request.query["query"])
        ]
        return _answer("matrix", result)

    def _labels(self, query: str) -> list[dict[str, str]]:
        known = {"at", *steady("", 0.0)}
        readings = [name for name in dict.fromkeys(READING.findall(query)) if name.partition("/")[2] in known]
        return [
            {"reading": reading, "namespace": namespace, "pod": pod}
            for namespace, pod in self._pods()
            for reading in readings
        ]

    def _value(self, labels: Mapping[str, str], at: float) -> float:
        scraped_at, reading = at - at % SCRAPE_SECONDS, labels["reading"].partition("/")[2]
        return scraped_at if reading == "at" else self._values(labels["pod"], scraped_at)[reading]


def _answer(kind: str, result: Sequence[Mapping[str, object]]) -> web.Response:
    return web.json_response({"status": "success", "data": {"resultType": kind, "result": result}})


@asynccontextmanager
async def answering(
    pods: Pods, values: Values = steady, doors: Iterable[Middleware] = (), tls: ssl.SSLContext | None = None
) -> AsyncIterator[Answering]:
    """On loopback, on a free port. `doors`: what a request passes first."""
    made = Answering(pods, values)
    app = web.Application(middlewares=doors)
    app.router.add_get("/api/v1/label/__name__/values", made.names)
    app.router.add_get("/api/v1/labels", made.labels)
    app.router.add_get("/api/v1/query", made.now)
    app.router.add_get("/api/v1/query_range", made.then)
    server = TestServer(app, scheme="http" if tls is None else "https")
    await server.start_server(ssl=tls)
    async with server:
        made.url = str(server.make_url("")).rstrip("/")
        yield made

"""Prometheus as a second source of readings: asked each interval, off the event loop, within a deadline.

A poll that fails, is late or finds nothing makes no sample: the source abstains, and what other sources say stands.
For one pod and one instant the highest fresh figure of all sources counts (`state.signals`), so that nothing is summed
twice and a Prometheus that lags lowers nothing. Beside Kafka it carries no counters, so that arrivals are
counted once; where it is the only source it does.
"""

import asyncio
import io
import ipaddress
import socket
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, NoReturn
from urllib.parse import urlsplit

import requests
import structlog
from prometheus_api_client import PrometheusConnect
from urllib3.util import Retry

from rebalancer.domain.events import Event
from rebalancer.ingest.gauges import IMPOSSIBLE
from rebalancer.ingest.promql import SOURCE, PodNamed, batches, question, read_answer
from rebalancer.obs.clock import Clock

DEADLINE_SECONDS = 5.0
MAX_ANSWER_BYTES = 32 * 1024 * 1024  # 10,000 pods answer with about 8 MB
CHUNK_BYTES = 64 * 1024

log = structlog.get_logger()


class LateError(Exception):
    """The answer did not come within the deadline."""


class LinkLocalError(Exception):
    """The address is one where clouds keep their secrets, and no Prometheus lives."""


class Server(NamedTuple):
    """Which Prometheus, and how it is asked. Files are read anew at each poll: tokens rotate."""

    url: str
    token_file: Path | None = None
    ca_file: Path | None = None


class PrometheusReadings:
    """Run `run()` as a task. `namespaces` and `pod_named` say which pods matter now.

    `counts`: polls by what became of them (ok, empty, failed, slow, skipped), and impossible.<gauge>. `trouble`: why
    the last one brought nothing, None when it brought readings; `since` when that is so (epoch seconds).
    """

    def __init__(  # noqa: PLR0913  # what is asked, when, and who hears of it
        self,
        server: Server,
        interval_seconds: float,
        clock: Clock,
        sink: Callable[[list[Event]], None],
        namespaces: Callable[[], Collection[str]],
        pod_named: PodNamed,
        deadline_seconds: float = DEADLINE_SECONDS,
        *,
        counted: bool = False,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self.trouble: str | None = "not asked yet"
        self.since = clock.now()
        self._server = server
        self._interval_seconds = interval_seconds
        self._clock = clock
        self._sink = sink
        self._namespaces = namespaces
        self._pod_named = pod_named
        self._deadline_seconds = min(deadline_seconds, interval_seconds)
        self._counted = counted
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="prometheus")
        self._asking: asyncio.Future[list[Any]] | None = None
        self._impossible: frozenset[str] = frozenset()

    async def run(self) -> NoReturn:
        """Poll until cancelled. Raises nothing else."""
        try:
            while True:
                await self.poll()
                await self._clock.sleep(self._interval_seconds)
        finally:
            self._thread.shutdown(wait=False, cancel_futures=True)

    async def poll(self) -> None:
        """One poll; its samples go to the sink, its failure to `trouble`."""
        if self._asking is not None and not self._asking.done():
            self._ended("skipped", "the last question is still open")
            return
        try:
            answers = await self._ask([question(names, counted=self._counted) for names in batches(self._namespaces())])
            found = [read_answer(answer, self._pod_named, self._interval_seconds) for answer in answers]
        except (LateError, TimeoutError, requests.Timeout):
            self._ended("slow", f"no answer from {self._server.url} within {self._deadline_seconds:g} s")
        except Exception as error:  # noqa: BLE001  # whatever it answered, it has no say this time
            self._ended("failed", f"{self._server.url}: {str(error)[:300] or type(error).__name__}")
        else:
            samples: list[Event] = [sample for one in found for sample in one.samples]
            self._sink(samples)
            self._left_out(sum((one.impossible for one in found), Counter()))
            unknown, unusable = sum(one.unknown for one in found), sum(one.unusable for one in found)
            nothing = f"no reading of a model's pod; of others: {unknown}, unusable: {unusable}"
            self._ended("ok" if samples else "empty", None if samples else nothing)

    async def _ask(self, questions: list[str]) -> list[Any]:
        """In the thread, which no other task waits for. Raises TimeoutError."""
        loop = asyncio.get_running_loop()
        self._asking = loop.run_in_executor(self._thread, self._ask_blocking, questions)
        self._asking.add_done_callback(looked_at)
        async with asyncio.timeout(self._deadline_seconds):
            return await asyncio.shield(self._asking)

    def _ask_blocking(self, questions: list[str]) -> list[Any]:
        return answers(self._server, questions, self._clock, self._deadline_seconds)

    def _left_out(self, gauges: Counter[str]) -> None:
        """Count them all, and tell those that were good before."""
        self.counts.update({f"{IMPOSSIBLE}{gauge}": pods for gauge, pods in gauges.items()})
        if gauges.keys() - self._impossible:
            log.warning("gauges cannot be and are left out", source=SOURCE, pods_by_gauge=dict(sorted(gauges.items())))
        self._impossible = frozenset(gauges)

    def _ended(self, word: str, trouble: str | None) -> None:
        self.counts[word] += 1
        self.since = self.since if self.trouble is not None and trouble is not None else self._clock.now()
        if (trouble is None) != (self.trouble is None):  # the first failure is told, not the five hundred after it
            log.info("prometheus", trouble=trouble)
        self.trouble = trouble


class Session(requests.Session):
    """No redirects, no proxies or logins from the environment, answers of bounded size, all within a deadline."""

    def __init__(self, clock: Clock, until_monotonic: float, read_seconds: float) -> None:
        super().__init__()
        self.trust_env = False
        self.headers["Accept-Encoding"] = "identity"
        self._clock = clock
        self._until_monotonic = until_monotonic
        self._read_seconds = read_seconds

    def send(self, request: requests.PreparedRequest, **rest: Any) -> requests.Response:  # noqa: ANN401  requests' own
        """As `requests` does it, with the whole answer read. Raises LateError, ValueError when it is too long."""
        rest |= {"allow_redirects": False, "stream": True, "timeout": self._read_seconds}
        response = super().send(request, **rest)
        with closing(response.raw) as raw:
            response.raw = io.BytesIO(self._body(raw))
        return response

    def _body(self, raw: Any) -> bytes:  # noqa: ANN401  urllib3's response
        body = bytearray()
        while chunk := raw.read1(CHUNK_BYTES):
            body += chunk
            if len(body) > MAX_ANSWER_BYTES:
                raise ValueError(f"the answer is longer than {MAX_ANSWER_BYTES} bytes")
            if self._clock.monotonic() > self._until_monotonic:
                raise LateError
        return bytes(body)


def answers(server: Server, questions: Iterable[str], clock: Clock, deadline_seconds: float) -> list[Any]:
    """`data.result` of each instant query, all within the deadline. Blocks.

    Raises LateError, LinkLocalError, requests' errors, and PrometheusApiClientException for what it refuses.
    """
    with _connected(server, clock, deadline_seconds) as client:
        return [client.custom_query(one) for one in questions]


def ranges(  # noqa: PLR0913  # what is asked of whom, and for how long
    server: Server, asked: str, begin: float, end: float, step_seconds: float, clock: Clock, deadline_seconds: float
) -> list[Any]:
    """`data.result` of a range query: a value each step from `begin` to `end`, whole epoch seconds. Blocks.

    Raises as `answers` does, and ValueError for an answer that is too long.
    """
    since, until = (datetime.fromtimestamp(instant, UTC) for instant in (begin, end))
    with _connected(server, clock, deadline_seconds) as client:
        found: list[Any] = client.custom_query_range(asked, since, until, f"{step_seconds:g}")
        return found


@contextmanager
def _connected(server: Server, clock: Clock, deadline_seconds: float) -> Iterator[PrometheusConnect]:
    refuse_link_local(server.url)
    with Session(clock, clock.monotonic() + deadline_seconds, deadline_seconds) as session:
        if server.ca_file is not None:
            session.verify = str(server.ca_file)
        if server.token_file is not None:
            session.headers["Authorization"] = f"Bearer {server.token_file.read_text().strip()}"
        yield PrometheusConnect(server.url.rstrip("/"), retry=Retry(0), session=session)


def refuse_link_local(url: str) -> None:
    """Raise LinkLocalError when the host is, or resolves to, a link-local address. Blocks."""
    parts = urlsplit(url)
    for *_, address in socket.getaddrinfo(parts.hostname, parts.port or 80, type=socket.SOCK_STREAM):
        if ipaddress.ip_address(str(address[0]).partition("%")[0]).is_link_local:
            raise LinkLocalError(f"{parts.hostname} is link-local ({address[0]})")


def looked_at(asked: "asyncio.Future[Any]") -> None:
    """What it ended with has been looked at, though nobody waits for it any more."""
    if not asked.cancelled():
        asked.exception()  # else asyncio complains about an answer that came too late to be waited for

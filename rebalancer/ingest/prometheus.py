"""Prometheus as a source of readings: asked each interval, off the event loop, within a deadline.

A poll that fails, is late or finds nothing makes no sample: the source abstains, and what other sources say stands.
For one pod and one instant the highest fresh figure of all sources counts (`state.signals`), so that nothing is summed
twice and a Prometheus that lags lowers nothing. Beside Kafka it carries no counters, so that arrivals are counted once;
where it is the only source it does.

Which metrics there are is asked now and then, and only those are asked for. One question is open at a time; a poll ends
at its deadline or its share of samples, and says which namespaces it left out.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, NoReturn

import requests
import structlog

from rebalancer.domain.events import Event, MetricSample
from rebalancer.domain.metric_maps import MetricMap
from rebalancer.ingest.counter_starts import CounterStarts
from rebalancer.ingest.gauges import IMPOSSIBLE
from rebalancer.ingest.prometheus_answer import SOURCE, PodNamed, read_answer
from rebalancer.ingest.prometheus_session import (
    LateError,
    LinkLocalError,
    QueryCost,
    Server,
    Visit,
    answers,
    refuse_link_local,
)
from rebalancer.ingest.promql import (
    COUNTED_SECONDS,
    MAPS,
    STARTED,
    MetricInventory,
    batches,
    names_of,
    question,
    scrapes_question,
    selector,
    with_own,
)
from rebalancer.obs.clock import Clock

__all__ = ["LateError", "LinkLocalError", "PrometheusReadings", "Server", "answers", "refuse_link_local"]

DEADLINE_SECONDS = 5.0
ASKED_SHARE = 0.8  # of it, after which nothing more is waited for: what did come can still be read
MOST_SAMPLES = 20_000_000  # of one poll: 10,000 pods with a histogram each take about 5 million
LOOK_SECONDS = 120.0  # between two looks at which metrics there are: the first pod of another engine waits so long
LOOK_AGAIN_SECONDS = 60.0  # where the last one could not tell how often pods are scraped; at once where it saw none
LATELY_SECONDS = 600.0  # who had no series within that time has none

log = structlog.get_logger()


class _Poll(NamedTuple):
    """What one poll brought: `data.result` of each question, and the namespaces that were not asked about."""

    results: list[Any]
    left_out: frozenset[str]


class PrometheusReadings:
    """Run `run()` as a task. `namespaces` and `pod_named` say which pods matter now, `models` which names are models'.

    `own_maps`: the user's own metric maps, which stand before ours. `counted`: whether the engines' counters are asked
    for, too, by which arrivals are known.

    `counts`: polls by what became of them (ok, partial, empty, failed, slow, skipped), and impossible.<gauge>.
    `trouble`: why the last one brought nothing or not all, None when all is well; `since` when that is so (epoch
    seconds). `cost`: what all questions cost the Prometheus. `has`: which metrics it has, None before the first look.
    `engines`: pods of the last poll by the maps that their readings are from. `left_out`: namespaces that the last poll
    did not ask about.
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
        models: Callable[[], Collection[str]] = lambda: (),
        own_maps: Callable[[], Sequence[MetricMap]] = lambda: (),
        most_samples: int = MOST_SAMPLES,
        *,
        counted: bool = False,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self.trouble: str | None = "not asked yet"
        self.since = clock.now()
        self.cost = QueryCost()
        self.has: MetricInventory | None = None
        self.engines: Counter[str] = Counter()
        self.left_out: frozenset[str] = frozenset()
        self._server = server
        self._interval_seconds = interval_seconds
        self._clock = clock
        self._sink = sink
        self._namespaces = namespaces
        self._pod_named = pod_named
        self._models = models
        self._own_maps = own_maps
        self._most_samples = most_samples
        self._counted = counted
        self._deadline_seconds = min(deadline_seconds, interval_seconds)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="prometheus")
        self._asking: asyncio.Future[_Poll] | None = None
        self._impossible: frozenset[str] = frozenset()
        self._starts = CounterStarts()
        self._looked: tuple[float, Sequence[MetricMap]] | None = None

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
        maps = with_own(self._own_maps())
        try:
            poll = await self._ask([*batches(self._namespaces())], maps)
            samples = self._read(poll, maps)
        except (LateError, TimeoutError, requests.Timeout):
            self._ended("slow", f"no answer from {self._server.url} within {self._deadline_seconds:g} s")
        except Exception as error:  # noqa: BLE001  # whatever it answered, it has no say this time
            self._ended("failed", f"{self._server.url}: {str(error)[:300] or type(error).__name__}")
        else:
            self._sink(samples)

    async def _ask(self, among: list[list[str]], maps: Sequence[MetricMap]) -> _Poll:
        """In the thread, which no other task waits for. Raises TimeoutError."""
        loop = asyncio.get_running_loop()
        self._asking = loop.run_in_executor(self._thread, self._ask_blocking, among, maps)
        self._asking.add_done_callback(looked_at)
        async with asyncio.timeout(self._deadline_seconds):
            return await asyncio.shield(self._asking)

    def _ask_blocking(self, among: list[list[str]], maps: Sequence[MetricMap]) -> _Poll:
        """Namespaces that were left out before are asked about first: each has its turn."""
        if not among:
            return _Poll([], frozenset())
        among = sorted(among, key=self.left_out.isdisjoint)
        results: list[Any] = []
        with Visit(self._server, self._clock, ASKED_SHARE * self._deadline_seconds) as visit:
            try:
                has = self._inventory(visit, among, maps)
                for names in among:
                    if visit.cost.samples > self._most_samples:
                        break
                    text = question(names, has, maps, counted=self._counted)
                    results.append(visit.query(text) if text else [])
            except (LateError, requests.Timeout):
                if not results:
                    raise
            finally:
                self.cost += visit.cost
        return _Poll(results, frozenset(name for names in among[len(results) :] for name in names))

    def _inventory(self, visit: Visit, among: list[list[str]], maps: Sequence[MetricMap]) -> MetricInventory:
        """What the Prometheus has of the maps, from the last look or a new one."""
        now, has = self._clock.monotonic(), self.has
        if has is not None and self._looked is not None and self._looked[1] == maps:
            patience = LOOK_AGAIN_SECONDS if has.scrape_seconds is None else LOOK_SECONDS
            if has.names and now - self._looked[0] < patience:
                return has
        self.has = look(visit, among, maps)
        self._looked = now, maps
        return self.has

    def _read(self, poll: _Poll, maps: Sequence[MetricMap]) -> list[Event]:
        """The samples of all answers, and what there is to say about them."""
        scrape_seconds = self.has.scrape_seconds if self.has is not None else None
        interval_seconds = max(self._interval_seconds, scrape_seconds or 0.0)
        models = frozenset(self._models())
        read = [read_answer(each, self._pod_named, interval_seconds, models, maps) for each in poll.results]
        every = [sample for each in read for sample in each.samples]
        samples: list[MetricSample] = [*{(each.pod, each.model): each for each in every}.values()]
        self._leave_out(sum((each.impossible for each in read), Counter()))
        self.engines = sum((each.engines for each in read), Counter())
        self.left_out = poll.left_out
        if not samples:
            unknown, unusable = sum(each.unknown for each in read), sum(each.unusable for each in read)
            nothing = f"no reading of a model's pod; of others: {unknown}, unusable: {unusable}"
            if self.has is not None and not self.has.names:
                which = f" with {self.has.matchers}" if self.has.matchers else ""
                nothing += f"; it has none of the metrics that docs/metrics.md names{which}"
            self._ended("empty", nothing)
        elif self.left_out:
            self._ended("partial", f"not asked for want of time or samples: namespaces {_some(self.left_out)}")
        else:
            self._ended("ok", None)
        return list(self._starts.dated(samples))

    def _leave_out(self, gauges: Counter[str]) -> None:
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


def look(visit: Visit, among: Sequence[Collection[str]], maps: Sequence[MetricMap] = MAPS) -> MetricInventory:
    """Which metrics of the maps there are, the labels they have, and how often the pods are scraped. Blocks.

    Two questions about names and one for each batch of namespaces, however many pods there are. Raises as Visit does.
    """
    wanted = names_of(maps)
    names = visit.label_values("__name__", selector(wanted, visit.matchers), LATELY_SECONDS) & wanted
    if not names - {STARTED}:
        return MetricInventory(frozenset(), frozenset(), matchers=visit.matchers)
    labels = visit.label_names(selector(names - {STARTED}, visit.matchers), LATELY_SECONDS)
    has = MetricInventory(names, labels, matchers=visit.matchers)
    questions = [counting for batch in among if (counting := scrapes_question(batch, has, maps))]
    counts = [float(series["value"][1]) for counting in questions for series in visit.query(counting)]
    return has._replace(scrape_seconds=max((COUNTED_SECONDS / count for count in counts if count > 0), default=None))


def _some(names: Collection[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(sorted(names)[:most]) + more


def looked_at(answer: "asyncio.Future[Any]") -> None:
    """Takes the exception of an answer that nobody waits for any more, of which asyncio would complain."""
    if not answer.cancelled():
        answer.exception()

"""How much a Prometheus is asked, how we prove who we are to it, and what of the policy's own maps comes out."""

import asyncio
import json
import ssl
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from msgspec.structs import replace

from rebalancer.domain.events import Counters, Event, Gauges, MetricSample
from rebalancer.domain.metric_maps import MetricMap, MetricSource
from rebalancer.ingest.counter_starts import KEPT_SECONDS, CounterStarts
from rebalancer.ingest.prometheus import LOOK_AGAIN_SECONDS, LOOK_SECONDS, PrometheusReadings, Server
from rebalancer.ingest.prometheus_answer import read_answer
from rebalancer.ingest.prometheus_session import QueryCost, answers
from rebalancer.ingest.promql import MAPS, USUAL, names_of, question, with_own
from rebalancer.loop.clock import RealClock
from tests.certificates import self_signed
from tests.ingest.expositions import Exposition, pod, rows, scraped
from tests.ingest.test_prometheus import GOOD, NOW, Answers, Handler, Serve, a_prometheus, answer, says, series, serve

__all__ = ["serve"]

OURS = MetricMap(
    name="ours",
    readings=(
        MetricSource(reading="running", series="our_requests", where=('state="running"',)),
        MetricSource(reading="kvCacheUse", series="our_cache_percent", per=100.0),
    ),
)
GATEWAY = MetricMap(
    name="gateway",
    model_label="model_name",
    readings=(MetricSource(reading="waiting", series="gateway_queue"),),
)
PRINTED = """\
our_requests{state="running"} 6
our_requests{state="queued"} 9
our_cache_percent 40
vllm:num_requests_running{engine="0"} 5
vllm:num_requests_waiting{engine="0"} 2
"""


class TurnedClock(RealClock):
    """A real clock whose hand can be turned on."""

    ahead_seconds = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead_seconds


def pod_named(namespace: str, name: str) -> tuple[str, str, float] | None:
    return ("llama-70b", f"uid-{name}", NOW - 600) if namespace.startswith("serving") else None


def a_source(url: str, heard: list[Event], **more: object) -> PrometheusReadings:
    given: dict[str, object] = {"clock": RealClock(), "namespaces": lambda: ["serving"], "deadline_seconds": 2.0}
    return PrometheusReadings(
        Server(url),
        15.0,
        sink=heard.extend,
        pod_named=pod_named,
        **(given | more),  # type: ignore[arg-type]  # as given
    )


class TestOwnMaps:
    def test_what_your_map_tells_stands_before_ours_and_the_rest_is_ours(self) -> None:
        maps = with_own([OURS])
        found = read_answer(rows([*scraped(pod(PRINTED, "llama-0"))], maps), pod_named, 15.0, maps=maps)
        (sample,) = found.samples
        assert sample.gauges == Gauges(running=6.0, waiting=2.0, kv_cache_use=0.4)
        assert found.engines == {"own/ours+vllm": 1}

    def test_a_gateway_tells_of_whole_models_by_id_or_alias_and_of_no_stranger(self) -> None:
        printed = 'gateway_queue{model_name="meta/llama"} 7\ngateway_queue{model_name="stranger"} 8\n'
        maps = with_own([GATEWAY])
        found = read_answer(rows([*scraped(Exposition(printed, {}))], maps), pod_named, 15.0, ["meta/llama"], maps)
        (sample,) = found.samples
        assert (sample.model, sample.pod, sample.gauges) == ("meta/llama", None, Gauges(waiting=7.0))
        assert found.unknown == 1

    def test_its_query_has_its_labels_and_units(self) -> None:
        has = USUAL._replace(names=OURS.names | GATEWAY.names)
        asked = question(["serving"], has, with_own([OURS, GATEWAY]))
        assert 'our_requests{namespace=~"serving",pod!="",state="running"}' in asked
        assert "/ 100" in asked
        assert '(gateway_queue{model_name!="",instance=""})), "model", "$1", "model_name"' in asked
        assert '"own/gateway/waiting"' in asked


class TestCounterStarts:
    def sample(self, finished: float, at: float = NOW) -> MetricSample:
        counters = Counters(start_time=NOW - 600, requests_finished=finished)
        return MetricSample("prometheus", "id", at, "m", 15.0, Gauges(running=1.0), "uid", counters)

    def started(self, starts: CounterStarts, finished: float, at: float) -> float:
        (sample,) = starts.dated([self.sample(finished, at)])
        assert sample.counters is not None
        return sample.counters.start_time

    def test_a_counter_that_fell_began_anew_and_stays_so(self) -> None:
        starts = CounterStarts()
        assert self.started(starts, 900.0, NOW) == NOW - 600
        assert self.started(starts, 920.0, NOW + 15) == NOW - 600
        assert self.started(starts, 3.0, NOW + 30) == NOW + 30
        assert self.started(starts, 9.0, NOW + 45) == NOW + 30

    def test_a_pod_that_polls_missed_while_it_restarted_began_anew(self) -> None:
        starts = CounterStarts()
        self.started(starts, 900.0, NOW)
        starts.dated([])
        assert self.started(starts, 3.0, NOW + 30) == NOW + 30

    @pytest.mark.parametrize("restarted_before", [False, True])
    def test_an_engine_of_a_pod_that_was_not_scraped_once_brings_back_no_past(self, *, restarted_before: bool) -> None:
        starts = CounterStarts()
        if restarted_before:
            self.started(starts, 90_000.0, NOW - 30)
        self.started(starts, 900.0, NOW)
        assert self.started(starts, 460.0, NOW + 15) == NOW + 15
        assert self.started(starts, 940.0, NOW + 30) == NOW + 30
        assert self.started(starts, 960.0, NOW + 45) == NOW + 30

    def test_a_restarted_engine_that_counts_as_far_as_before_an_hour_later_began_nothing(self) -> None:
        starts = CounterStarts()
        self.started(starts, 900.0, NOW)
        for poll in range(1, 241):
            assert self.started(starts, 4.0 * poll, NOW + 15 * poll) == NOW + 15

    def test_pods_that_are_gone_are_forgotten(self) -> None:
        starts = CounterStarts()
        self.started(starts, 900.0, NOW)
        other = replace(self.sample(1.0, NOW + KEPT_SECONDS + 15), pod="other")
        starts.dated([other])
        assert self.started(starts, 3.0, NOW + KEPT_SECONDS + 30) == NOW - 600


async def test_which_metrics_there_are_is_asked_rarely(serve: Serve) -> None:
    server, clock = serve(a_prometheus(answer(*GOOD))), TurnedClock()
    source = a_source(server.url, [], clock=clock)

    async def asked() -> int:
        before = len(server.asked)
        await source.poll()
        return len(server.asked) - before

    assert await asked() == 4  # names, labels, scrapes, readings
    assert await asked() == 1
    clock.ahead_seconds += LOOK_AGAIN_SECONDS + 1.0  # how often pods are scraped is not known yet
    assert await asked() == 4
    assert source.cost.queries == 9
    selector = parse_qs(urlsplit(server.asked[0]).query)["match[]"]
    assert selector == ['{__name__=~"' + "|".join(sorted(names_of(MAPS))) + '"}']
    assert LOOK_SECONDS > LOOK_AGAIN_SECONDS


async def test_where_it_has_nothing_of_the_maps_it_is_told_and_nothing_more_is_asked(serve: Serve) -> None:
    server = serve(a_prometheus(answer(*GOOD), names=b'{"status":"success","data":["up"]}'))
    source = a_source(server.url, [])
    await source.poll()
    assert len(server.asked) == 1
    assert source.counts == {"empty": 1}
    assert "none of the metrics that docs/metrics.md names" in str(source.trouble)


def with_samples(samples: int, *found: dict[str, object]) -> bytes:
    whole = json.loads(answer(*found))
    whole["data"]["stats"] = {"samples": {"totalQueryableSamples": samples, "peakSamples": 9}}
    return json.dumps(whole).encode()


async def test_what_it_costs_is_counted_as_prometheus_tells_it(serve: Serve) -> None:
    server = serve(a_prometheus(with_samples(1234, *GOOD)))
    source = a_source(server.url, [])
    await source.poll()
    assert (source.cost.queries, source.cost.samples) == (4, 1234)
    assert 0.0 < source.cost.seconds < 2.0
    asked = parse_qs(urlsplit(server.asked[-1]).query)
    assert (asked["stats"], asked["timeout"]) == (["all"], ["1.6s"])


async def test_beyond_its_share_of_samples_a_poll_says_what_it_left_out_and_asks_that_first_next_time(
    serve: Serve,
) -> None:
    """60 namespaces are three questions; each costs 600 samples of the 1000 that a poll may."""
    server, heard = serve(a_prometheus(with_samples(600, *GOOD))), list[Event]()
    names = [f"serving-{number:02}" for number in range(60)]
    source = a_source(server.url, heard, namespaces=lambda: names, most_samples=1000)
    await source.poll()
    assert source.left_out == set(names[40:])
    assert source.counts == {"partial": 1}
    assert source.trouble is not None
    assert source.trouble.endswith("serving-40, serving-41, serving-42, serving-43, serving-44 and 15 more")
    assert len(heard) == 1
    await source.poll()
    assert source.left_out == set(names[20:40])
    source._most_samples = 10_000  # noqa: SLF001  # the share of a bigger one
    await source.poll()
    assert not source.left_out
    assert source.counts == {"partial": 2, "ok": 1}


async def test_a_question_that_comes_too_late_costs_only_itself(serve: Serve) -> None:
    late = a_prometheus(answer(*GOOD))

    def handler(request: BaseHTTPRequestHandler) -> None:
        if "serving-20" in request.path and "count_over_time" not in request.path:
            request.server.ended.wait(10.0)  # type: ignore[attr-defined]  # our own server
        else:
            late(request)

    heard: list[Event] = []
    names = [f"serving-{number:02}" for number in range(40)]
    source = a_source(serve(handler).url, heard, namespaces=lambda: names, deadline_seconds=1.0)
    await source.poll()
    assert len(heard) == 1
    assert source.left_out == set(names[20:])
    assert source.counts == {"partial": 1}


async def test_a_user_is_proved_by_a_password_that_may_change(serve: Serve, tmp_path: Path) -> None:
    server, password = serve(says(answer())), tmp_path / "password"
    for word in ("first\n", "second"):
        await asyncio.to_thread(password.write_text, word)
        asked = Server(server.url, username="us", password_file=password)
        await asyncio.to_thread(answers, asked, ["up"], RealClock(), 2.0)
    assert [headers["Authorization"] for headers in server.headers] == ["Basic dXM6Zmlyc3Q=", "Basic dXM6c2Vjb25k"]


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """One that is its own CA, good for 127.0.0.1, for either side."""
    self_signed(tmp_path)
    return tmp_path / "tls.crt", tmp_path / "tls.key"


async def test_a_certificate_proves_us_to_who_asks_for_one(
    serve: Callable[[Handler], Answers], certificate: tuple[Path, Path]
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    context.load_verify_locations(certificate[0])
    context.verify_mode = ssl.CERT_REQUIRED
    server = serve(says(answer(series("running", "1"))))
    server.socket = context.wrap_socket(server.socket, server_side=True)
    url = server.url.replace("http:", "https:")
    known = Server(url, ca_file=certificate[0], certificate_file=certificate[0], key_file=certificate[1])
    (found,) = await asyncio.to_thread(answers, known, ["up"], RealClock(), 5.0)
    assert found == [series("running", "1")]
    with pytest.raises(OSError, match=r"(?i)certificate|reset|closed|eof|aborted"):
        await asyncio.to_thread(answers, Server(url, ca_file=certificate[0]), ["up"], RealClock(), 5.0)
    with pytest.raises(OSError, match=r"^no connection: .*certificate verify failed"):
        await asyncio.to_thread(answers, Server(url), ["up"], RealClock(), 5.0)


def test_costs_add_up() -> None:
    assert QueryCost(1, 0.5, 10) + QueryCost(2, 1.0, 5) == QueryCost(3, 1.5, 15)

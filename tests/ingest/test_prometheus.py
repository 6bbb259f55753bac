"""Prometheus as a second source: what is asked, what is made of answers, and every way in which one may fail."""

import asyncio
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.domain.events import Counters, Event, Gauges, MetricSample
from rebalancer.domain.metric_maps import READINGS
from rebalancer.ingest.engines import DCGM
from rebalancer.ingest.prometheus import LinkLocalError, PrometheusReadings, Server, refuse_link_local
from rebalancer.ingest.prometheus_answer import read_answer
from rebalancer.ingest.promql import USUAL, MetricInventory, expression, question
from rebalancer.loop.clock import RealClock
from tests.testbed.process import free_port

NOW = 1_800_000_000.0
DEADLINE_SECONDS = 1.5
PODS = {
    ("serving", "llama-0"): ("llama-70b", "uid-0", NOW - 600),
    ("serving", "sdxl-0"): ("sdxl", "uid-1", 0.0),
}

Handler = Callable[[BaseHTTPRequestHandler], None]


def series(
    reading: str, value: str, pod: str = "llama-0", namespace: str = "serving", by: str = "vllm"
) -> dict[str, Any]:
    return {"metric": {"reading": f"{by}/{reading}", "namespace": namespace, "pod": pod}, "value": [NOW, value]}


def answer(*found: dict[str, Any]) -> bytes:
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": list(found)}}).encode()


GOOD = (series("at", str(NOW - 2)), series("running", "12"), series("waiting", "3"), series("kvCacheUse", "0.61"))


def pod_named(namespace: str, name: str) -> tuple[str, str, float] | None:
    return PODS.get((namespace, name))


def samples(*found: dict[str, Any]) -> tuple[MetricSample, ...]:
    return read_answer(list(found), pod_named, 15.0).samples


class TestQuestion:
    def test_it_asks_for_the_pods_of_these_namespaces_once(self) -> None:
        asked = question(["b", "a.x"], counted=True)
        assert 'vllm:num_requests_running{namespace=~"a[.]x|b",pod!=""}' in asked
        names = re.findall(r'"reading", "([^"]*)"', asked)
        assert len(names) == len(set(names))
        assert {"vllm/at", "vllm/running", "vllm/requestsFinished", "vllm/startTime", "dcgm/fbUsedMib"} <= set(names)
        assert "requestsFinished" not in question(["b", "a.x"])

    def test_only_what_there_is_is_asked_for(self) -> None:
        asked = question(
            ["a"], MetricInventory(frozenset({"sglang:num_running_reqs"}), frozenset({"namespace", "pod"}))
        )
        assert re.findall(r'"reading", "([^"]*)"', asked) == ["sglang/at", "sglang/running"]
        assert "exported" not in asked
        assert question(["a"], MetricInventory(frozenset())) == ""

    def test_each_reading_has_the_name_of_a_gauge_or_a_counter(self) -> None:
        assert set(READINGS) <= {*Gauges.__struct_encode_fields__, *Counters.__struct_encode_fields__}

    def test_instances_of_mig_are_told_by_their_engines_and_whole_gpus_by_their_utilisation(self) -> None:
        """DCGM_FI_DEV_GPU_UTIL is of the whole GPU: an exporter that writes it for an instance says 0 or its sum."""
        whole, instances = expression(DCGM, "gpuUtilisation", USUAL, "a").split(" / 100 or ")
        assert whole.count('DCGM_FI_DEV_GPU_UTIL{namespace=~"a",pod!="",GPU_I_ID=""}') == 1
        assert whole.count('DCGM_FI_DEV_GPU_UTIL{exported_namespace=~"a",exported_pod!="",GPU_I_ID=""}') == 1
        assert 'DCGM_FI_PROF_GR_ENGINE_ACTIVE{namespace=~"a",pod!=""}' in instances

    def test_a_workload_is_found_under_its_own_labels_or_under_exported_ones(self) -> None:
        asked = question(["a"])
        assert 'DCGM_FI_DEV_FB_USED{namespace=~"a",pod!=""}' in asked
        assert 'DCGM_FI_DEV_FB_USED{exported_namespace=~"a",exported_pod!=""}' in asked

    @pytest.mark.parametrize(
        ("scrape_seconds", "window_seconds"),
        [(None, 60), (1, 60), (14.3, 60), (15, 60), (30, 120), (60, 240), (300, 300)],
    )
    def test_rates_are_taken_over_four_scrapes(self, scrape_seconds: float | None, window_seconds: int) -> None:
        has = USUAL._replace(scrape_seconds=scrape_seconds)
        assert f'_bucket{{namespace=~"a",pod!=""}}[{window_seconds}s]' in question(["a"], has)

    @pytest.mark.parametrize(
        "name", ['x"} or vector(1) #', "a|b", "a\nb", "", "-a", "A", "ä", "a" + "\x00", "a\\", ".*", "a b"]
    )
    def test_a_name_that_is_not_dns_1123_is_refused(self, name: str) -> None:
        with pytest.raises(ValueError, match="DNS-1123"):
            question(["serving", name])

    @given(st.text(max_size=20))
    def test_whatever_the_name_nothing_but_dns_1123_enters(self, name: str) -> None:
        try:
            asked = question([name])
        except ValueError:
            return
        inside = asked.split('namespace=~"')[1].split('"')[0]
        assert set(inside) <= set("abcdefghijklmnopqrstuvwxyz0123456789-[].")


class TestAnswer:
    def test_a_pods_readings_become_one_sample_of_its_model_at_the_time_of_the_scrape(self) -> None:
        (sample,) = samples(*GOOD)
        assert (sample.source, sample.model, sample.pod) == ("prometheus", "llama-70b", "uid-0")
        assert (sample.at, sample.interval_seconds, sample.counters) == (NOW - 2, 15.0, None)
        assert (sample.gauges.running, sample.gauges.waiting, sample.gauges.kv_cache_use) == (12, 3, 0.61)

    @pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf"])
    def test_what_is_not_finite_is_absent_and_the_rest_counts(self, value: str) -> None:
        (sample,) = samples(series("at", str(NOW)), series("running", "1"), series("ttftP95Seconds", value))
        assert sample.gauges.ttft_p95_seconds is None
        assert sample.gauges.running == 1

    def test_a_pod_without_any_finite_value_or_without_a_time_makes_no_sample(self) -> None:
        assert samples(series("at", str(NOW)), series("running", "NaN")) == ()
        assert samples(series("running", "1")) == ()

    def test_what_cannot_be_loses_only_its_own_pod(self) -> None:
        found = read_answer(
            [
                series("at", str(NOW)),
                series("kvCacheUse", "61"),
                *(series(r, "1", "sdxl-0") for r in ("at", "running")),
            ],
            pod_named,
            15.0,
        )
        assert [sample.model for sample in found.samples] == ["sdxl"]
        assert found.unusable == 1

    @pytest.mark.parametrize(
        ("reading", "value"),
        [
            ("fbUsedMib", "9223372036854775794"),  # DCGM's blank
            ("fbFreeMib", "2147483632"),  # the same in 32 bits
            ("gpuUtilisation", "1.02"),
            ("gpuUtilisation", "21474836.32"),  # that blank / 100
            ("waiting", "-1"),
            ("ttftP95Seconds", "+Inf"),
        ],
    )
    def test_a_gauge_that_cannot_be_is_left_out_and_counted_and_the_rest_of_the_poll_stands(
        self, reading: str, value: str
    ) -> None:
        found = read_answer([series("at", str(NOW)), series("running", "7"), series(reading, value)], pod_named, 15.0)
        (sample,) = found.samples
        assert sample.gauges == Gauges(running=7.0)
        assert (found.unusable, found.impossible) == (0, {reading: 1})

    def test_pods_of_nobodys_model_are_counted_and_left_out(self) -> None:
        found = read_answer([series("at", "1", "stranger"), series("running", "1", "stranger")], pod_named, 15.0)
        assert (found.samples, found.unknown) == ((), 1)

    def test_readings_from_before_a_pod_was_made_are_of_another_pod_of_its_name(self) -> None:
        assert samples(series("at", str(NOW - 601)), series("running", "9")) == ()


class Answers(ThreadingHTTPServer):
    """A server that answers as told; what it was asked is kept."""

    daemon_threads = True

    def __init__(self, handler: Handler) -> None:
        self.asked: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.ended = threading.Event()
        outer = self

        class Told(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append(self.path)
                outer.headers.append(dict(self.headers))
                handler(self)

            def log_message(self, *_: object) -> None:
                """Nothing to say."""

        super().__init__(("127.0.0.1", 0), Told)
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


@pytest.fixture
def serve() -> Iterator[Callable[[Handler], Answers]]:
    made: list[Answers] = []

    def start(handler: Handler) -> Answers:
        made.append(Answers(handler))
        return made[-1]

    yield start
    for one in made:
        one.ended.set()
        one.shutdown()
        one.server_close()


VLLM_AND_DCGM = json.dumps({"status": "success", "data": sorted(USUAL.names)}).encode()
LABELS = json.dumps({"status": "success", "data": sorted(USUAL.labels)}).encode()


def a_prometheus(body: bytes, names: bytes = VLLM_AND_DCGM, labels: bytes = LABELS) -> Handler:
    """One that has these metrics, knows no scrapes, and answers each question for readings alike."""

    def handler(request: BaseHTTPRequestHandler) -> None:
        path = urlsplit(request.path).path
        counting = "count_over_time" in request.path
        told = {"/api/v1/label/__name__/values": names, "/api/v1/labels": labels}
        says(told.get(path, answer() if counting else body))(request)

    return handler


def says(body: bytes, status: int = 200, headers: Mapping[str, str] = MappingProxyType({})) -> Handler:
    def handler(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        for name, value in headers.items():
            request.send_header(name, value)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    return handler


def readings(url: str, heard: list[Event], token_file: Path | None = None) -> PrometheusReadings:
    return PrometheusReadings(
        Server(url, token_file), 15.0, RealClock(), heard.extend, lambda: ["serving"], pod_named, DEADLINE_SECONDS
    )


Serve = Callable[[Handler], Answers]


async def test_a_good_answer_becomes_samples(serve: Serve) -> None:
    heard: list[Event] = []
    server = serve(a_prometheus(answer(*GOOD)))
    source = readings(server.url, heard)
    await source.poll()
    assert [type(event) for event in heard] == [MetricSample]
    assert (source.counts, source.trouble) == ({"ok": 1}, None)
    asked = urlsplit(server.asked[-1])
    assert asked.path == "/api/v1/query"
    assert parse_qs(asked.query)["query"] == [question(["serving"])]


async def test_impossible_gauges_are_counted_by_name(serve: Serve) -> None:
    source = readings(serve(a_prometheus(answer(*GOOD, series("gpuUtilisation", "1.02")))).url, [])
    await source.poll()
    await source.poll()
    assert source.counts == {"ok": 2, "impossible.gpuUtilisation": 2}


BAD = {
    "500": says(b"boom", 500),
    "html": says(b"<html>no</html>"),
    "cut": says(answer(*GOOD)[:-9]),
    "deep": says(b"[" * 100_000),
    "other shape": says(b'{"status":"success","data":{"result":[{"metric":{},"value":7}]}}'),
    "no data": says(b'{"status":"error"}'),
    "a number that is none": says(answer(series("at", "twelve"))),
    "redirect": says(b"", 302, {"Location": "http://127.0.0.1:1/elsewhere"}),
}


@pytest.mark.parametrize("place", ["the names", "the readings"])
@pytest.mark.parametrize("handler", BAD.values(), ids=BAD.keys())
async def test_a_bad_answer_makes_no_sample_and_is_told_and_the_next_good_one_counts(
    serve: Serve, handler: Handler, place: str
) -> None:
    good = a_prometheus(answer(*GOOD))
    heard: list[Event] = []
    bad = iter([handler])

    def bad_then_good(request: BaseHTTPRequestHandler) -> None:
        looking = "/label" in request.path or "count_over_time" in request.path
        next(bad, good)(request) if place == "the names" or not looking else good(request)

    server = serve(bad_then_good)
    source = readings(server.url, heard)
    await source.poll()
    assert heard == []
    assert source.counts == {"failed": 1}
    assert source.trouble is not None
    assert server.url in source.trouble
    assert len(server.asked) == (1 if place == "the names" else 4)  # neither followed nor tried again
    await source.poll()
    assert source.counts == {"failed": 1, "ok": 1}
    assert len(heard) == 1


async def test_an_empty_answer_abstains_and_says_so(serve: Serve) -> None:
    heard: list[Event] = []
    source = readings(serve(a_prometheus(answer())).url, heard)
    await source.poll()
    assert heard == []
    assert source.counts == {"empty": 1}
    assert source.trouble == "no reading of a model's pod; of others: 0, unusable: 0"


def hangs(request: BaseHTTPRequestHandler) -> None:
    request.server.ended.wait(10.0)  # type: ignore[attr-defined]  # our own server


def trickles(request: BaseHTTPRequestHandler) -> None:
    """Each byte well within any timeout of a single read."""
    request.send_response(200)
    request.end_headers()
    while not request.server.ended.wait(0.05):  # type: ignore[attr-defined]  # our own server
        try:
            request.wfile.write(b" ")
        except OSError:
            return


@pytest.mark.parametrize("handler", [hangs, trickles])
async def test_a_slow_answer_is_given_up_at_the_deadline_while_the_loop_runs_on(serve: Serve, handler: Handler) -> None:
    heard: list[Event] = []
    source = readings(serve(handler).url, heard)
    clock, lags, began = RealClock(), [], RealClock().monotonic()
    polling = asyncio.ensure_future(source.poll())
    while not polling.done():
        before = clock.monotonic()
        await clock.sleep(0.01)
        lags.append(clock.monotonic() - before)
    await polling
    assert clock.monotonic() - began < 4 * DEADLINE_SECONDS
    assert len(lags) > 5  # others had their turns meanwhile
    assert heard == []
    assert source.counts == {"slow": 1}
    assert source.trouble is not None
    assert "within 1.5 s" in source.trouble


async def test_while_a_question_is_open_no_other_is_asked(serve: Serve) -> None:
    server = serve(hangs)
    source = readings(server.url, [])
    await asyncio.gather(source.poll(), source.poll())
    assert source.counts == {"slow": 1, "skipped": 1}
    assert len(server.asked) == 1


async def test_nobody_there_is_told() -> None:
    heard: list[Event] = []
    url = f"http://127.0.0.1:{free_port()}"
    source = readings(url, heard)
    await source.poll()
    assert heard == []
    assert source.counts == {"failed": 1}
    assert source.trouble == f"{url}: no connection: Connection refused"


async def test_proxies_of_the_environment_are_not_asked_and_a_token_is_sent(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    proxy, server = serve(says(b"")), serve(a_prometheus(answer(*GOOD)))
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, proxy.url)
    monkeypatch.delenv("no_proxy", raising=False)
    token = tmp_path / "token"
    await asyncio.to_thread(token.write_text, "secret\n")
    source = readings(server.url, [], token_file=token)
    await source.poll()
    assert source.counts == {"ok": 1}
    assert proxy.asked == []
    assert server.headers[0]["Authorization"] == "Bearer secret"


@pytest.mark.parametrize("host", ["169.254.169.254", "[fe80::1]"])
async def test_a_link_local_address_is_not_asked(host: str) -> None:
    with pytest.raises(LinkLocalError):
        refuse_link_local(f"http://{host}:80")
    source = readings(f"http://{host}:80", [])
    await source.poll()
    assert source.counts == {"failed": 1}
    assert "link-local" in str(source.trouble)

"""How a Prometheus is asked for its past: two questions at a time, halved where they are too much."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

from rebalancer.ingest.past.asking import AT_ONCE, Answered, PastUnanswered, ask_past
from rebalancer.ingest.past.pieces import pieces
from rebalancer.ingest.prometheus import Server
from rebalancer.loop.clock import RealClock

NOW = 1_800_000_000
Answer = Callable[[float, float, float], tuple[int, object]]  # (begin, end, step) -> status and body

# Which metrics there are is asked before the past is: the names, their labels, how often pods are scraped.
LOOKED_UP: dict[str, object] = {
    "/api/v1/label/__name__/values": ["vllm:num_requests_running"],
    "/api/v1/labels": ["namespace", "pod"],
    "/api/v1/query": {"resultType": "vector", "result": []},
}


class Counted:
    """What was asked, and how many questions were open at once."""

    def __init__(self, answer: Answer) -> None:
        self.asked: list[tuple[float, float]] = []
        self.most = self._open = 0
        self._lock = threading.Lock()
        self._answer = answer

    def reply(self, handler: BaseHTTPRequestHandler) -> None:
        path = urlsplit(handler.path).path
        if path in LOOKED_UP:
            _send(handler, 200, {"status": "success", "data": LOOKED_UP[path]})
            return
        query = parse_qs(urlsplit(handler.path).query)
        begin, end, step = (float(query[name][0]) for name in ("start", "end", "step"))
        with self._lock:
            self.asked.append((begin, end))
            self._open += 1
            self.most = max(self.most, self._open)
        status, body = self._answer(begin, end, step)
        with self._lock:
            self._open -= 1
        _send(handler, status, body)


def _send(handler: BaseHTTPRequestHandler, status: int, body: object) -> None:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    handler.send_response(status)
    handler.send_header("Content-Length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data)


@pytest.fixture
def serve() -> Iterator[Callable[[Answer], tuple[Counted, Server]]]:
    servers: list[ThreadingHTTPServer] = []

    def start(answer: Answer) -> tuple[Counted, Server]:
        counted = Counted(answer)

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                counted.reply(self)

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return counted, Server(f"http://127.0.0.1:{server.server_address[1]}")

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def matrix(begin: float, end: float, step: float) -> tuple[int, object]:
    labels = {"namespace": "n", "pod": "p"}
    steps = [begin + number * step for number in range(int((end - begin) / step) + 1)]
    result = [
        {"metric": {"reading": "at", **labels}, "values": [[at, str(at)] for at in steps]},
        {"metric": {"reading": "running", **labels}, "values": [[at, "1"] for at in steps]},
    ]
    return 200, {"status": "success", "data": {"resultType": "matrix", "result": result}}


async def ask(server: Server, hours: float = 24.0) -> list[Answered]:
    window = pieces(NOW - hours * 3600, NOW, 15.0)
    asked = ask_past(server, {"n"}, window, lambda *_: ("chat", "p", 0.0), RealClock())
    async with asyncio.timeout(30):
        return [answered async for answered in asked]


Serve = Callable[[Answer], tuple[Counted, Server]]


async def test_pieces_come_in_the_order_of_time_and_at_most_two_are_asked_at_once(serve: Serve) -> None:
    counted, server = serve(matrix)
    answered = await ask(server)
    times = [look.step_at for one in answered for look in one.looks]
    assert times == sorted(set(times))
    assert counted.most <= AT_ONCE
    assert {one.missing for one in answered} == {None}


async def test_what_is_too_much_at_once_is_had_in_halves(serve: Serve) -> None:
    def stingy(begin: float, end: float, step: float) -> tuple[int, object]:
        if (end - begin) / step > 70:
            return 422, {"status": "error", "errorType": "execution", "error": "too many samples"}
        return matrix(begin, end, step)

    _, server = serve(stingy)
    (answered,) = await ask(server, hours=1.0)
    assert answered.missing is None
    assert [look.step_at for look in answered.looks] == [NOW - 3600 + 15 * step for step in range(240)]


async def test_what_is_too_much_in_any_case_is_missing_and_the_rest_is_there(serve: Serve) -> None:
    def moody(begin: float, end: float, step: float) -> tuple[int, object]:
        if begin <= NOW - 1800 <= end:
            return 422, {"status": "error", "errorType": "execution", "error": "too many samples"}
        return matrix(begin, end, step)

    _, server = serve(moody)
    (answered,) = await ask(server, hours=1.0)
    assert answered.missing is not None
    assert "too many samples" in answered.missing
    assert 230 < len(answered.looks) < 240


@pytest.mark.parametrize("status", [401, 404, 503])
async def test_a_door_that_is_shut_is_knocked_at_once_or_twice_and_said(serve: Serve, status: int) -> None:
    counted, server = serve(lambda *_: (status, {"error": "no"}))
    with pytest.raises(PastUnanswered, match=f"{server.url}: HTTP Status Code {status}"):
        await ask(server)
    assert len(counted.asked) <= AT_ONCE + 1


async def test_an_answer_nested_beyond_all_measure_is_no_answer_and_ends_no_reader(serve: Serve) -> None:
    _, server = serve(lambda *_: (200, b"[" * 100_000))
    with pytest.raises(PastUnanswered, match=f"{server.url}: .*(recursion|Stack overflow)"):
        await ask(server)

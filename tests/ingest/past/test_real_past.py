"""A real Prometheus asked for its past: PromQL that it understands, and learners that reach their best path by it."""

import asyncio
from pathlib import Path

import pytest

from rebalancer.app.lessons import Lessons
from rebalancer.domain.policy import Policy
from rebalancer.ingest.past.asking import PastUnanswered, ask_past
from rebalancer.ingest.past.looks import PodLook
from rebalancer.ingest.past.minutes import ModelMinute, minutes
from rebalancer.ingest.past.names import pods_then
from rebalancer.ingest.past.pieces import pieces
from rebalancer.ingest.past.use import window_use
from rebalancer.ingest.prometheus import Server
from rebalancer.loop.clock import RealClock
from rebalancer.state.checkpoint import ModelPast
from rebalancer.state.offered import ARRIVALS
from tests.builders import a_model, a_policy, a_pool, a_target_spec
from tests.obs.prometheus import prometheus
from tests.obs.vllm_past import PastPod, write_past
from tests.testbed.process import free_port

HOURS = 2
GONE, HERE = "chat-5d9f7b6c4d-aaaaa", "chat-5d9f7b6c4d-bbbbb"


@pytest.fixture
def policy() -> Policy:
    chat = a_model("chat", targets=(a_target_spec("a100", "chat"),), gpus_per_replica=2, slo={"latency_seconds": 0.4})
    return a_policy(chat, pools=(a_pool(),))


@pytest.mark.timeout(120)
async def test_two_hours_teach_what_a_service_would_have_learnt_in_them(tmp_path: Path, policy: Policy) -> None:
    clock = RealClock()
    now = clock.now()
    begin, born = now - HOURS * 3600, now - 1800
    pods = [PastPod("serving", GONE, "m", 8.0), PastPod("serving", HERE, "m", 8.0, since=born)]
    stranger = PastPod("serving", "chat-70b-5d9f7b6c4d-ccccc", "m", 8.0)
    await asyncio.to_thread(write_past, tmp_path, [*pods, stranger], begin, now, 15.0)
    window = pieces(begin, now, 15.0)
    lessons, looks, told = Lessons(policy, begin), list[PodLook](), list[ModelMinute]()

    def pod_now(_: str, name: str) -> tuple[str, str, float] | None:
        return ("chat", "uid-here", born - 60.0) if name == HERE else None

    started = prometheus(tmp_path, {})
    running = await asyncio.to_thread(started.__enter__)
    try:
        then = pods_then(policy.models, pod_now)
        async for piece, found, missing, cost in ask_past(Server(running.url), {"serving"}, window, then, clock):
            assert missing is None
            assert cost.queries == 1
            assert cost.samples > 0, "as this Prometheus tells it"
            lessons.hear(found, piece.step_seconds)
            told += minutes(found, piece.step_seconds, {"chat": 0.4})
            looks += found
    finally:
        await asyncio.to_thread(started.__exit__, None, None, None)
    assert {look.pod[1] for look in looks} == {f"serving/{GONE}", "uid-here"}, "a neighbour's name begins alike"
    past = ModelPast.from_bytes(lessons.pasts()["chat"])
    assert past.offered.path.source == ARRIVALS, past.offered.path
    assert now - past.newest_at < 30
    (start,) = past.starts
    assert start.seconds == pytest.approx(60, abs=16), "from the pod's creation to its engine's first scrape"
    (use,) = window_use(policy.models, told)
    assert use.hours == pytest.approx(HOURS, rel=0.05)
    assert use.gpus == pytest.approx(2 * 1.25, rel=0.05)
    assert use.gpus_most == 4
    assert use.late == pytest.approx(1.0, abs=0.05), "p95 is 0.49 s in the buckets, the SLO 0.4 s"
    expected = PastPod("serving", "", "", 8.0).in_work(now) / 32
    assert use.by_gpus
    assert use.busy == pytest.approx(expected, abs=0.1)


async def test_a_prometheus_that_is_away_is_said_in_a_sentence(policy: Policy) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    asked = ask_past(
        Server(url), {"serving"}, pieces(0, 60, 15), pods_then(policy.models, lambda *_: None), RealClock()
    )
    with pytest.raises(PastUnanswered, match=url):
        await anext(asked)

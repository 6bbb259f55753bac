"""The doctor's traps, looked for when somebody asks: in the kinds that are watched anyway, one look at a time."""

import asyncio
import random
from collections.abc import AsyncIterator

import pytest

from rebalancer.app.trap_looks import AGAIN_SECONDS, ELSEWHERE, FAILED_AGAIN_SECONDS, KINDS, TrapLooks
from rebalancer.domain.snapshot import Snapshot
from rebalancer.ingest.watches import RESOURCES
from rebalancer.kube.access import Access
from rebalancer.kube.client import KubeClient
from rebalancer.sandbox.api.server import EmbeddedKubernetes
from rebalancer.survey.finding import WARN
from tests.builders import NAMESPACE, NOW, a_model, a_policy
from tests.sandbox.hand_clock import HandClock
from tests.survey.manifests import a_deployment, a_scaled_object, a_trigger

POLICY = a_policy(a_model("b", 1, namespace=NAMESPACE))


class Looking:
    """The looks, the API server they look into, and the clock that a test moves."""

    def __init__(self, kubernetes: EmbeddedKubernetes, kube: KubeClient, clock: HandClock) -> None:
        self.kubernetes, self.clock = kubernetes, clock
        self.looks = TrapLooks(clock, lambda: POLICY, lambda: Snapshot(cycle=0, at=NOW))
        self.looks.kube = kube

    async def ended(self) -> None:
        """Ask, and wait until the look that this begins has ended."""
        self.looks.last()
        for _ in range(1000):
            if not any(task.get_name() == "traps" for task in asyncio.all_tasks()):
                return
            await asyncio.sleep(0)
            await asyncio.to_thread(int)


@pytest.fixture
async def looking() -> AsyncIterator[Looking]:
    clock = HandClock()
    async with EmbeddedKubernetes(clock) as kubernetes:
        access = Access(kubernetes.url, "Bearer sandbox-rebalancer")
        async with KubeClient(access, clock, random.Random(1)) as kube:
            looking = Looking(kubernetes, kube, clock)
            yield looking
            await looking.looks.stop()


async def test_a_trap_is_found_in_what_the_service_may_read_anyway(looking: Looking) -> None:
    assert set(KINDS) <= set(RESOURCES.values())
    query = a_trigger(query="sum(DCGM_FI_DEV_FB_USED / DCGM_FI_DEV_FB_FREE)")
    for each in (a_deployment(), a_scaled_object(query)):
        looking.kubernetes.store.put(each)
    assert looking.looks.last().at is None
    await looking.ended()
    look = looking.looks.last()
    assert look.at == looking.clock.now()
    assert any(each.state == WARN and each.trap == "used-over-free" for each in look.findings), look.findings
    assert any("rebalancer doctor" in each for each in look.unread)


async def test_targets_of_kinds_that_it_does_not_read_are_not_called_absent(looking: Looking) -> None:
    policy = a_policy(a_model("dep"), a_model("ss", kind="StatefulSet"), a_model("ro", kind="Rollout"))
    looking.looks = TrapLooks(looking.clock, lambda: policy, lambda: Snapshot(cycle=0, at=NOW))
    looking.looks.kube = KubeClient(
        Access(looking.kubernetes.url, "Bearer sandbox-rebalancer"), looking.clock, random.Random(1)
    )
    async with looking.looks.kube:
        await looking.ended()
    absent = [each.about for each in looking.looks.last().findings if each.trap == "absent-target"]
    assert absent == [f"deployment/{NAMESPACE}/dep"]


async def test_it_looks_again_only_when_the_last_look_is_old_and_somebody_asks(looking: Looking) -> None:
    await looking.ended()
    first = looking.looks.last().at
    looking.clock.advance(AGAIN_SECONDS - 1.0)
    await looking.ended()
    assert looking.looks.last().at == first
    looking.clock.advance(1.0)
    await looking.ended()
    assert looking.looks.last().at == looking.clock.now()


async def test_what_could_not_be_listed_for_a_moment_is_looked_at_again_soon(looking: Looking) -> None:
    looking.kubernetes.store.put(a_deployment())
    # 422, since the client asks again at once after a 5xx, and this clock stands still.
    looking.kubernetes.faults.fail_next(1, 422, method="GET", path_part="horizontalpodautoscalers")
    await looking.ended()
    assert any("cannot be read now" in each for each in looking.looks.last().unread)
    looking.clock.advance(FAILED_AGAIN_SECONDS)
    await looking.ended()
    look = looking.looks.last()
    assert (look.at, look.unread) == (looking.clock.now(), (ELSEWHERE,))


async def test_a_missing_right_is_no_reason_to_look_again_soon(looking: Looking) -> None:
    looking.kubernetes.faults.fail_next(1, 403, method="GET", path_part="horizontalpodautoscalers")
    await looking.ended()
    first = looking.looks.last()
    assert any("you may not list them" in each for each in first.unread)
    looking.clock.advance(AGAIN_SECONDS - 1.0)
    await looking.ended()
    assert looking.looks.last() == first


async def test_a_look_that_ends_in_a_defect_is_not_begun_anew_by_everybody_who_asks(looking: Looking) -> None:
    begun: list[float] = []

    def defect() -> Snapshot:
        begun.append(looking.clock.now())
        raise ZeroDivisionError

    looking.looks = TrapLooks(looking.clock, lambda: POLICY, defect)
    looking.looks.kube = KubeClient(Access(looking.kubernetes.url, ""), looking.clock, random.Random(1))
    async with looking.looks.kube:
        for _ in range(3):
            await looking.ended()
    assert len(begun) == 1

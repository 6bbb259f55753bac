"""KEDA is gone in the middle of a shift (row X05 of the fault catalogue): its HPAs go on with the bounds they had."""

import asyncio
from random import Random

import pytest

from tests.real.occupancy import failed, scaled
from tests.real.policies import pool
from tests.real.service import Service
from tests.real.test_shift_keda import (
    FLOOR,
    GPUS,
    _held_on_to_the_budget,
    _keda_world,
    _start,
    triggers,  # noqa: F401  # a fixture reaches tests by being a name in the module
)
from tests.real.traffic import Traffic
from tests.real.triggers import Triggers
from tests.testbed.audit import AuditLog
from tests.testbed.keda import Keda
from tests.testbed.kube import Kube

GONE_SECONDS = 15.0


@pytest.mark.proof
@pytest.mark.outage
@pytest.mark.timeout(240, func_only=True)
@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_while_keda_is_gone_nothing_is_granted_that_was_not_released_and_people_are_told_whom_to_look_for(
    keda: Keda, service: Service, traffic: Traffic, kube: Kube, audit: AuditLog, namespace: str,
    ours: dict[str, str], triggers: Triggers, seed: int,  # noqa: F811  # as above
) -> None:  # fmt: skip
    await _keda_world(kube, namespace, ours, triggers)
    await _start(service, traffic, namespace, pool("gpus", ours, GPUS))
    traffic.says("code", running=25)
    traffic.says("chat", running=55)
    await asyncio.sleep(Random(seed).uniform(0.0, 3.0))  # the moment: before the release, in it, or behind part of it
    await asyncio.to_thread(keda.operator.kill)
    await asyncio.to_thread(keda.adapter.kill)
    try:
        # A release that comes now reaches nobody, whatever had reached the HPA before.
        traffic.says("code", running=5)
        unheard = await kube.wait_for(lambda: _unheard(service), "the doctor's words about KEDA", 60.0)
        assert unheard["about"] in {"model/chat", "model/code"}, "who was to give, or was granted already"
        assert "KEDA passes nothing on" in unheard["said"]
        await asyncio.sleep(GONE_SECONDS)  # nothing can be waited for where nothing is to happen
        short = (await service.explain("chat"))["unmet"]
        assert short, "its owner is told, and RebalancerUnmetDemand counts it"
        taken = await _hpa_maxima(kube, namespace)
        assert sum(taken.values()) <= GPUS, "no grant went into GPUs that the HPA still holds"
    finally:
        await asyncio.to_thread(keda.operator.start)
        await asyncio.to_thread(keda.adapter.start)

    await kube.wait_ready(6, namespace, "app=chat", 90)
    await kube.wait_ready(FLOOR, namespace, "app=code")
    await kube.wait_for(lambda: _heard(service), "no word about KEDA any more", 30.0)
    writes = await service.writes(kube)
    assert failed(writes) == []
    everybody = await asyncio.to_thread(audit.writes, namespace=namespace)
    assert min(replicas for _, replicas in scaled(everybody, "code")) >= FLOOR
    _held_on_to_the_budget(writes, everybody, "scaledobjects", {name: f"keda-hpa-{name}" for name in ("chat", "code")})


async def _unheard(service: Service) -> dict[str, str] | None:
    _, checks = await service.ask("GET", "/v1/checks")
    return next((each for each in checks["findings"] if "its HPA" in each["said"]), None)


async def _heard(service: Service) -> bool:
    return await _unheard(service) is None


async def _hpa_maxima(kube: Kube, namespace: str) -> dict[str, int]:
    hpas = await kube.items("HorizontalPodAutoscaler", namespace)
    return {hpa["metadata"]["name"]: hpa["spec"]["maxReplicas"] for hpa in hpas}

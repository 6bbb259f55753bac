"""GPUs change hands between plain Deployments: release before grant, floors held, all of it by the audit log."""

import asyncio
from itertools import pairwise

from rebalancer.api.http.json_codec import instant_of
from tests.real.occupancy import Pods, failed, scaled
from tests.real.policies import SHIFT_SECONDS, model, policy, pool
from tests.real.service import Service
from tests.real.traffic import Traffic
from tests.testbed.audit import AuditLog
from tests.testbed.kube import Json, Kube
from tests.testbed.objects import deployment, gpu_node

GPUS = 8
FLOOR = 2  # of code


async def _world(kube: Kube, namespace: str, ours: dict[str, str], chat: int, code: int) -> None:
    """Two nodes of 4 GPUs, full of replicas of two models; both own 4 GPUs."""
    for name in ("a", "b"):
        await kube.create(gpu_node(f"{namespace}-{name}", gpus=GPUS // 2, labels=ours))
    for name, replicas in (("chat", chat), ("code", code)):
        await kube.apply(deployment(name, namespace, replicas, node_labels=ours, load_seconds=1, end_seconds=1))
    await kube.wait_ready(chat + code, namespace)


async def _start(
    service: Service, traffic: Traffic, namespace: str, ours: dict[str, str], chat: float, code: float
) -> None:
    """The service on that world, after a minute in which the models had these requests in flight (10 per replica)."""
    models = [model("chat", namespace, 1, 4, 8), model("code", namespace, FLOOR, 4, 8)]
    await service.policy(policy([pool("gpus", ours, GPUS)], models))
    await asyncio.gather(traffic.past("chat", running=chat), traffic.past("code", running=code))
    await service.start()


async def test_a_surge_is_met_by_an_idle_model_s_gpus_once_they_are_free_and_never_by_its_floor(
    service: Service, traffic: Traffic, kube: Kube, audit: AuditLog, namespace: str, ours: dict[str, str]
) -> None:
    await _world(kube, namespace, ours, chat=2, code=6)
    await _start(service, traffic, namespace, ours, chat=15, code=55)
    traffic.says("chat", running=75)
    traffic.says("code", running=5)
    await kube.wait_ready(GPUS - FLOOR, namespace, "app=chat", 60)

    last_release, _ = scaled(await service.writes(kube), "code")[-1]

    async def decided_anew() -> Json | None:
        plan = await service.plan()
        return plan if instant_of(plan["at"]) > last_release + SHIFT_SECONDS + 2 else None

    plan = await kube.wait_for(decided_anew, "a plan that could take the next one")
    writes = await service.writes(kube)
    assert failed(writes) == []
    everybody = await asyncio.to_thread(audit.writes, namespace=namespace)
    pods = Pods.of(everybody)

    code = [6, *(replicas for _, replicas in scaled(writes, "code"))]
    assert code == sorted(code, reverse=True)
    assert [(each["model"], each["replicas"]) for each in plan["unmet"]] == [("chat", 2)]
    assert code[-1] == FLOOR == pods.least("code", since=writes[0].received)
    first_gone = min(gone for _, gone in pods.spans.values())
    asked = 2
    for at, replicas in scaled(writes, "chat"):
        assert at > first_gone, "release before grant"
        assert pods.at(at) + replicas - asked <= GPUS, f"{replicas} asked for while {pods.at(at)} pods held GPUs"
        asked = replicas
    assert asked == GPUS - FLOOR
    assert pods.most() == GPUS, "no pod was ever asked for that had no GPU"

    # 6 -> 4 were chat's own, lent to code, and go home at once; below that code gives half of what is above its floor.
    given = [at for at, replicas in scaled(writes, "code") if replicas < 4]
    assert all(later - earlier >= SHIFT_SECONDS for earlier, later in pairwise(given))


async def test_an_owner_s_returning_demand_brings_its_gpus_home(
    service: Service, traffic: Traffic, kube: Kube, namespace: str, ours: dict[str, str]
) -> None:
    await _world(kube, namespace, ours, chat=6, code=2)
    await _start(service, traffic, namespace, ours, chat=75, code=5)
    traffic.says("code", running=75)
    await kube.wait_ready(4, namespace, "app=code")
    await kube.wait_ready(4, namespace, "app=chat")

    writes = await service.writes(kube)
    home = [replicas for _, replicas in scaled(writes, "chat")]
    assert home[-1] == 4, "neither owner takes from what is the other's own"
    borrowed_at, granted_at = scaled(writes, "chat")[0][0], scaled(writes, "code")[-1][0]
    assert granted_at - borrowed_at < SHIFT_SECONDS, "what was lent comes home without asking the guard `shift`"


async def test_in_shadow_the_same_surge_is_planned_and_nothing_is_written(
    service: Service, traffic: Traffic, kube: Kube, namespace: str, ours: dict[str, str]
) -> None:
    await _world(kube, namespace, ours, chat=2, code=6)
    service.settings["WRITE_MODE"] = "shadow"
    await _start(service, traffic, namespace, ours, chat=15, code=55)
    traffic.says("chat", running=75)
    traffic.says("code", running=5)

    async def planned() -> bool:
        changes = (await service.plan())["changes"]
        return any(each["model"] == "code" and each["kind"] == "release" for each in changes)

    await kube.wait_for(planned, "the release is planned")
    assert await service.writes(kube) == []
    assert len(await kube.ready_pods(namespace, "app=code")) == 6

"""What the cluster shows is not what is there: nodes that go, devices that vanish, others who write.

Nothing that serves is taken for it. Kubernetes' own controllers do their part: PodGC, node lifecycle, ReplicaSets, the
scheduler, the HPA.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.real.api_proxy import ApiProxy
from tests.real.occupancy import bounded, failed, scaled
from tests.real.policies import model, policy, pool
from tests.real.service import Service, refusals
from tests.real.traffic import Traffic
from tests.testbed.kube import Kube, is_ready
from tests.testbed.objects import GPU, deployment, gpu_node, hpa
from tests.testbed.stack import Stack

Json = dict[str, Any]

pytestmark = pytest.mark.usefixtures("judged")

WATCH_SECONDS = 0.5
NOTICE = "io.rebalancer.capacity.notice.v1"


async def _world(kube: Kube, namespace: str, ours: dict[str, str], nodes: dict[str, int], **replicas: int) -> None:
    """Nodes with so many GPUs, Deployments with so many replicas, all Ready."""
    for name, gpus in nodes.items():
        await kube.create(gpu_node(f"{namespace}-{name}", gpus=gpus, labels=ours))
    for name, count in replicas.items():
        await kube.apply(deployment(name, namespace, count, node_labels=ours, load_seconds=1, end_seconds=1))
    await kube.wait_ready(sum(replicas.values()), namespace)


async def _start(service: Service, gpus: int, ours: dict[str, str], *models: Json) -> None:
    """The service on a pool of that many GPUs."""
    await service.policy(policy([pool("gpus", ours, gpus)], models))
    await service.start()


async def _past(traffic: Traffic, **running: int) -> None:
    await asyncio.gather(*(traffic.past(name, running=count) for name, count in running.items()))


@asynccontextmanager
async def _serving(kube: Kube, namespace: str, name: str) -> AsyncIterator[list[int]]:
    """Ready pods of a model on nodes that exist, looked at all the time until the context ends."""
    seen: list[int] = []

    async def look() -> None:
        while True:
            nodes = {node["metadata"]["name"] for node in await kube.items("Node")}
            pods = await kube.items("Pod", namespace, f"app={name}")
            seen.append(sum(is_ready(pod) and pod["spec"].get("nodeName") in nodes for pod in pods))
            await asyncio.sleep(WATCH_SECONDS)

    task = asyncio.create_task(look())
    try:
        yield seen
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _for(seconds: float, holds: Callable[[], Awaitable[bool]], what: str) -> None:
    """Whatever happens, it holds for so long."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        assert await holds(), what
        await asyncio.sleep(WATCH_SECONDS)


async def _replicas(kube: Kube, namespace: str, name: str) -> int:
    return int((await kube.get("Deployment", name, namespace, "scale"))["spec"].get("replicas", 0))


async def test_a_node_that_is_deleted_under_ready_pods_takes_nobody_below_its_floor(
    service: Service, traffic: Traffic, kube: Kube, namespace: str, ours: dict[str, str]
) -> None:
    """Code serves with two replicas on each of two nodes, its floor is 2; one Node goes while chat asks for all."""
    await _world(kube, namespace, ours, {"a": 4, "b": 4}, code=4, chat=4)
    for pod in await kube.items("Pod", namespace):
        assert pod["spec"]["nodeName"]
    await _past(traffic, chat=35, code=15)
    models = [model("chat", namespace, 1, 6, 8), model("code", namespace, 2, 2, 8)]
    await _start(service, 8, ours, *models)
    gone = (await kube.ready_pods(namespace, "app=code"))[0]["spec"]["nodeName"]
    on_it = sum(pod["spec"]["nodeName"] == gone for pod in await kube.ready_pods(namespace, "app=code"))
    left = 4 - on_it
    async with _serving(kube, namespace, "code") as seen:
        await kube.delete("Node", gone)
        traffic.says("chat", running=75)
        await asyncio.sleep(15.0)  # PodGC ends the pods of a Node that is gone after 40 to 60 s, not before
        ghosts = [pod for pod in await kube.items("Pod", namespace) if pod["spec"].get("nodeName") == gone]
        assert ghosts, "the pods outlive their Node"
        assert min(seen[2:]) >= min(2, left), f"code serves with {seen}"
    assert failed(await service.writes(kube)) == []


async def test_devices_that_vanish_under_serving_pods_and_come_back_move_nothing(
    service: Service, traffic: Traffic, kube: Kube, namespace: str, ours: dict[str, str]
) -> None:
    await _world(kube, namespace, ours, {"a": 4, "b": 4}, code=4, chat=4)
    await _past(traffic, chat=35, code=35)
    models = [model("chat", namespace, 1, 4, 8), model("code", namespace, 1, 4, 8)]
    await _start(service, 8, ours, *models)
    before = len(scaled(await service.writes(kube), "chat")) + len(scaled(await service.writes(kube), "code"))
    for gpus in ("0", "4"):
        for node in ("a", "b") if gpus == "4" else ("a",):
            await kube.patch("Node", f"{namespace}-{node}", {"status": {"allocatable": {GPU: gpus}}}, None, "status")

        async def shown(wanted: int = 8 if gpus == "4" else 4) -> bool:
            nodes = (await service.snapshot())["pools"][0]["nodes"]
            return bool(sum(node["gpus"] for node in nodes) == wanted)

        await kube.wait_for(shown, f"the service sees {gpus} devices")

        async def stands() -> bool:
            counts = [await _replicas(kube, namespace, name) for name in ("chat", "code")]
            return counts == [4, 4]

        await _for(6.0, stands, "replicas that serve were moved")
    taken = [*scaled(await service.writes(kube), "chat"), *scaled(await service.writes(kube), "code")]
    assert len(taken) == before


async def test_a_maximum_of_100_by_hand_costs_no_bystander_a_replica_and_is_taken_back(
    service: Service, traffic: Traffic, kube: Kube, namespace: str, ours: dict[str, str]
) -> None:
    """Three models need five of the six replicas they have; somebody sets 100 on one, also while its rollout hangs."""
    await _world(kube, namespace, ours, {"a": 8, "b": 8}, theirs=3, x=6, y=4)
    await kube.apply(hpa("theirs", namespace, 1, 9))
    await _past(traffic, theirs=25, x=45, y=35)
    models = [model(name, namespace, 1, 1, 12) for name in ("theirs", "x", "y")]
    await _start(service, 16, ours, *models)
    await _bounds(kube, namespace, "theirs", lambda low, high: high <= 4)

    await kube.patch("HorizontalPodAutoscaler", "theirs", {"spec": {"maxReplicas": 100}}, namespace)
    await _bounds(kube, namespace, "theirs", lambda low, high: high <= 4)

    stuck = {"spec": {"template": {"spec": {"nodeSelector": {"no": "such-node"}}}}}
    await kube.patch("Deployment", "theirs", stuck, namespace)

    async def rolling() -> bool:
        return bool((await _of(service, "theirs"))["rolling"])

    await kube.wait_for(rolling, "a rollout that hangs is seen")
    await kube.patch("HorizontalPodAutoscaler", "theirs", {"spec": {"maxReplicas": 100}}, namespace)

    async def stands() -> bool:
        return [await _replicas(kube, namespace, name) for name in ("x", "y")] == [6, 4]

    await _for(8.0, stands, "bystanders lost a replica")
    for name in ("x", "y"):
        assert scaled(await service.writes(kube), name) == []


async def _of(service: Service, name: str) -> Json:
    models = {one["id"]: one for one in (await service.snapshot())["models"]}
    target: Json = models[name]["targets"][0]
    return target


async def _bounds(
    kube: Kube, namespace: str, name: str, right: Callable[[int, int], bool], seconds: float = 30.0
) -> None:
    async def reached() -> bool:
        spec = (await kube.get("HorizontalPodAutoscaler", name, namespace))["spec"]
        return right(spec.get("minReplicas", 1), spec["maxReplicas"])

    await kube.wait_for(reached, f"the bounds of {name}", seconds)


async def test_a_writer_that_reapplies_bounds_every_few_seconds_moves_only_its_own_model(
    service: Service, traffic: Traffic, kube: Kube, namespace: str, ours: dict[str, str]
) -> None:
    """GitOps sets 1 to 9 again and again: we yield there, and the others keep what they have."""
    await _world(kube, namespace, ours, {"a": 8}, theirs=3, x=5)
    manifest = hpa("theirs", namespace, 1, 9)
    await kube.apply(manifest)
    await _past(traffic, theirs=25, x=45)
    await _start(service, 8, ours, *(model(name, namespace, 1, 1, 8) for name in ("theirs", "x")))
    await _bounds(kube, namespace, "theirs", lambda low, high: (low, high) == (3, 3))
    for _ in range(5):
        await kube.patch("HorizontalPodAutoscaler", "theirs", {"spec": manifest["spec"]}, namespace)
        await asyncio.sleep(3.0)
    ours_after = bounded(await service.writes(kube), "theirs", "horizontalpodautoscalers")
    assert len(ours_after) <= 3, f"we fight: {ours_after}"
    await service.refused(kube, "foreign", "theirs")
    assert scaled(await service.writes(kube), "x") == []


async def test_a_notice_survives_a_restart_before_its_deadline_and_the_node_that_goes(
    service: Service, traffic: Traffic, kube: Kube, namespace: str, ours: dict[str, str]
) -> None:
    """Told, killed, started again: nothing new lands on the node, and its pods count for nobody though it is gone."""
    await _world(kube, namespace, ours, {"a": 4, "b": 4}, chat=4)
    await _past(traffic, chat=35)
    await _start(service, 8, ours, model("chat", namespace, 2, 4, 8))
    doomed = (await kube.ready_pods(namespace))[0]["spec"]["nodeName"]
    deadline = datetime.fromtimestamp(time.time() + 60.0, UTC).isoformat()
    await traffic.event("notices", NOTICE, {"kind": "spot-interruption", "node": doomed, "deadline": deadline})

    async def told() -> bool:
        return bool(doomed in {one["node"] for one in (await service.snapshot())["notices"]})

    await kube.wait_for(told, "the notice is known")
    await asyncio.sleep(3.0)  # a checkpoint comes every 2 s
    await service.kill()
    await service.start()
    assert await told(), "the notice is known after a restart"
    await kube.delete("Node", doomed)

    async def replaced() -> bool:
        pods = await kube.ready_pods(namespace)
        return bool(sum(pod["spec"]["nodeName"] != doomed for pod in pods) >= 2)

    await kube.wait_for(replaced, "the replicas of the node are replaced")
    assert await told(), "a notice ends when its pods are gone, not when its Node is"


async def test_a_model_that_leaves_the_policy_during_a_shift_gets_its_bounds_back(
    service: Service, traffic: Traffic, kube: Kube, namespace: str, ours: dict[str, str]
) -> None:
    await _world(kube, namespace, ours, {"a": 8}, chat=2, code=6)
    await kube.apply(hpa("chat", namespace, 1, 9), hpa("code", namespace, 2, 9))
    await _past(traffic, chat=15, code=55)
    models = [model("chat", namespace, 1, 4, 8), model("code", namespace, 2, 4, 8)]
    await _start(service, 8, ours, *models)
    await _bounds(kube, namespace, "code", lambda low, high: high <= 6)
    traffic.says("code", running=35)
    traffic.says("chat", running=38)
    await _bounds(kube, namespace, "code", lambda low, high: high < 6)
    await service.policy(policy([pool("gpus", ours, 8)], models[:1]))
    await _bounds(kube, namespace, "code", lambda low, high: (low, high) == (2, 9))

    async def given_back() -> bool:
        spec = (await kube.get("HorizontalPodAutoscaler", "code", namespace))["spec"]
        return bool((spec["minReplicas"], spec["maxReplicas"]) == (2, 9))

    await _for(6.0, given_back, "taken over again after it had left")
    assert failed(await service.writes(kube)) == []


async def test_a_shift_of_five_at_once_is_granted_at_once(
    service: Service, traffic: Traffic, kube: Kube, namespace: str, ours: dict[str, str], hpa_at_15_seconds: None
) -> None:
    """Code holds 7 of its 2, chat 1 of its 6: five pods end together, and one patch grants what they free."""
    await _world(kube, namespace, ours, {"a": 8}, chat=1, code=7)
    await kube.apply(hpa("chat", namespace, 1, 9), hpa("code", namespace, 2, 9))
    await _past(traffic, chat=5, code=65)
    models = [model("chat", namespace, 1, 6, 8), model("code", namespace, 2, 2, 8)]
    await _start(service, 8, ours, *models)
    await _bounds(kube, namespace, "code", lambda low, high: (low, high) == (7, 7))
    traffic.says("chat", running=55)
    await _bounds(kube, namespace, "code", lambda low, high: high == 2)
    await kube.wait_ready(6, namespace, "app=chat", 60)
    grants = [
        high for _, _, high in bounded(await service.writes(kube), "chat", "horizontalpodautoscalers") if high > 1
    ]
    assert grants[-1] == 6
    assert len(grants) <= 2, f"granted one by one: {grants}"


async def _counted(service: Service, model_id: str, changes: int) -> bool:
    """Whether so many changes by others were seen: two in a moment would count as one."""
    return (await service.metrics()).get(f'rebalancer_foreign_changes_total{{model="{model_id}"}}', 0) >= changes


async def test_a_stand_down_ends_by_a_persons_word(
    service: Service, traffic: Traffic, kube: Kube, namespace: str, ours: dict[str, str]
) -> None:
    await _world(kube, namespace, ours, {"a": 6}, theirs=2, x=4)
    await kube.apply(hpa("theirs", namespace, 1, 9))
    await _past(traffic, theirs=15, x=35)
    await _start(service, 6, ours, *(model(name, namespace, 1, 3, 6) for name in ("theirs", "x")))
    await _bounds(kube, namespace, "theirs", lambda low, high: (low, high) == (2, 2))
    for changes, high in ((1, 8), (2, 9)):
        await kube.patch("HorizontalPodAutoscaler", "theirs", {"spec": {"maxReplicas": high}}, namespace)
        await kube.wait_for(partial(_counted, service, "theirs", changes), f"change {changes} is seen")
    await service.refused(kube, "foreign", "theirs")
    people = {"kind": "standUp", "target": {"model": "theirs"}, "reason": "settled", "actor": "testbed"}
    expires = datetime.fromtimestamp(time.time() + 60.0, UTC).isoformat()
    word = {
        "apiVersion": "rebalancer.io/v1alpha1",
        "kind": "Override",
        "metadata": {"name": "stand-up", "namespace": namespace},
        "spec": {**people, "expiresAt": expires},
    }
    await kube.apply(word)
    await _bounds(kube, namespace, "theirs", lambda low, high: high <= 3)
    await service.planned(kube, "we stand up", lambda plan: not refusals(plan, "foreign", "theirs"))


@pytest.fixture
async def api(cluster: Stack, service: Service, account: str) -> AsyncIterator[ApiProxy]:
    """The service reaches the API server through a door that can refuse writes."""
    async with ApiProxy.before(cluster.access) as proxy:
        access = replace(cluster.access, server=proxy.url)
        kubeconfig = service.folder / "through-the-door"
        await asyncio.to_thread(kubeconfig.write_text, access.kubeconfig(account))
        service.settings["KUBECONFIG"] = str(kubeconfig)
        yield proxy


@pytest.mark.parametrize(
    "refused_seconds",
    [
        20.0,
        pytest.param(60.0, marks=pytest.mark.proof),
    ],  # as long as two back-offs; a whole minute, too long for every day
)
async def test_what_left_the_policy_is_given_back_however_long_the_api_server_refuses(
    service: Service,
    traffic: Traffic,
    kube: Kube,
    api: ApiProxy,
    namespace: str,
    ours: dict[str, str],
    refused_seconds: float,
) -> None:
    await _world(kube, namespace, ours, {"a": 8}, chat=3, code=5)
    await kube.apply(hpa("chat", namespace, 1, 9), hpa("code", namespace, 2, 9))
    await _past(traffic, chat=25, code=45)
    models = [model("chat", namespace, 1, 3, 8), model("code", namespace, 2, 5, 8)]
    await _start(service, 8, ours, *models)
    await _bounds(kube, namespace, "code", lambda low, high: (low, high) == (5, 5))
    api.refuses_writes = True
    await service.policy(policy([pool("gpus", ours, 8)], models[:1]))
    await asyncio.sleep(refused_seconds)
    tries = [path for path in api.refused if path.endswith("/code")]
    assert len(tries) >= 2, f"tried again and again: {tries}"
    api.refuses_writes, ended_at = False, time.monotonic()
    await _bounds(kube, namespace, "code", lambda low, high: (low, high) == (2, 9), 70)
    waited_seconds = time.monotonic() - ended_at
    print(f"{len(tries)} tries in {refused_seconds:g} s of 503, given back {waited_seconds:.1f} s after their end")
    stored = await kube.get("HorizontalPodAutoscaler", "code", namespace)
    assert "rebalancer.io/originals" not in stored["metadata"].get("annotations", {})


async def test_who_leaves_act_is_told_what_stays_pinned_and_how_to_give_it_back(
    service: Service, traffic: Traffic, kube: Kube, namespace: str, ours: dict[str, str]
) -> None:
    """act, then shadow: nothing is written, everybody is told; the command gives back; act takes over again."""
    await _world(kube, namespace, ours, {"a": 8}, chat=3, code=5)
    await kube.apply(hpa("chat", namespace, 1, 9), hpa("code", namespace, 2, 9))
    await _past(traffic, chat=25, code=45)
    models = [model("chat", namespace, 1, 3, 8), model("code", namespace, 2, 5, 8)]
    await _start(service, 8, ours, *models)
    await _bounds(kube, namespace, "code", lambda low, high: (low, high) == (5, 5))
    await service.stop()
    service.settings["WRITE_MODE"] = "shadow"
    await service.start()

    async def told() -> bool:
        return bool({one["name"] for one in (await service.status())["pinned"]} == {"chat", "code"})

    await kube.wait_for(told, "status names what stays pinned")
    await _bounds(kube, namespace, "code", lambda low, high: (low, high) == (5, 5))
    command = (
        *(str(Path(sys.executable).parent / "rebalancer"), "hand-back", "--kubeconfig", service.settings["KUBECONFIG"]),
        *("--namespace", namespace, "--installation", (await service.status())["installation"]),
    )
    done = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    said, _ = await done.communicate()
    assert done.returncode == 0, said.decode()
    await _bounds(kube, namespace, "code", lambda low, high: (low, high) == (2, 9))
    await service.stop()
    service.settings["WRITE_MODE"] = "act"
    await service.start()
    await _bounds(kube, namespace, "code", lambda low, high: (low, high) == (5, 5))

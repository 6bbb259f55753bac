"""The faults of each alert: what is broken, what Diagnosis must say of it, and what ends it."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from rebalancer.sandbox.api.resources import NODES
from rebalancer.sandbox.demo_cluster import POLICY_FILE, demo_policy
from rebalancer.sandbox.producer import spelled
from tests.runbooks import kafka, leading
from tests.runbooks.stage import Stage
from tests.testbed.process import free_port

SCALE = "/apis/apps/v1/namespaces/serving/deployments/{}/scale"
OVERRIDES = "/apis/rebalancer.io/v1alpha1/namespaces/serving/overrides"
STOPS = "/apis/rebalancer.io/v1alpha1/writestops"

Deed = Callable[[Stage], Awaitable[None]]


@dataclass(frozen=True)
class Fault:
    """`cause`: what the output of Diagnosis must match. `repair`: what ends it, None: the page's own commands do.

    `lasts`: it ends by itself after a time that no test waits for. `times`: how much shorter the alert's waits are;
    that it waits as long as its rule says is what promtool tests. `speed`: of the service's seconds. `way`: in which of
    several ways the alert comes.
    """

    alert: str
    inject: Deed
    cause: str
    repair: Deed | None = None
    lasts: bool = False
    times: float = 120.0  # 10 min are 5 s
    speed: float = 4.0
    way: str = ""

    @property
    def name(self) -> str:
        """The alert, and the way."""
        return f"{self.alert} {self.way}".strip()


async def _down(stage: Stage) -> None:
    await stage.service.stop()


async def _up(stage: Stage) -> None:
    stage.service = stage.another(stage.settings)
    await stage.service.start()


async def _pods_unlistable(stage: Stage) -> None:
    stage.sandbox.kubernetes.faults.fail_next(1_000_000, 403, path_part="/pods")
    stage.sandbox.kubernetes.close_watches()


async def _answers_again(stage: Stage) -> None:
    stage.sandbox.kubernetes.faults.clear()


async def _paused_and_shrunk(stage: Stage) -> None:
    """Somebody paused the model for a rollout, scaled it to 1 and forgot about it; its floor is 2."""
    stage.words["MODEL"] = "chat"
    stage.words["OVERRIDE"] = "rollout"
    await _override(stage, "rollout", {"kind": "pause", "target": {"model": "chat"}, "reason": "rollout"})
    await stage.request("PATCH", SCALE.format("chat"), {"spec": {"replicas": 1}}, user="builder")


async def _override(stage: Stage, name: str, decided: dict[str, object]) -> None:
    """For half an hour, by the builder."""
    spec = {**decided, "actor": "builder", "expiresAt": spelled(stage.clock.now() + 1800.0)}
    body = {"apiVersion": "rebalancer.io/v1alpha1", "kind": "Override", "metadata": {"name": name}, "spec": spec}
    await stage.request("POST", OVERRIDES, body)


async def _both_surge(stage: Stage) -> None:
    stage.words |= {"MODEL": "chat", "DONOR_FLOOR": "1", "DONOR": "code"}
    for model, rate in (("code", 31.0), ("chat", 52.0)):
        stage.cluster.dials[model].turn(rate, stage.clock.now(), 3.0)


async def _both_calm(stage: Stage) -> None:
    """A cap on one of two that both need more ends no need: fewer users do."""
    for model in ("code", "chat"):
        stage.cluster.dials[model].turn(4.0, stage.clock.now(), 3.0)


async def _no_samples(stage: Stage) -> None:
    stage.words |= {"MODEL": "chat", "HELD": "3"}
    stage.sandbox.muted.add("chat")


async def _samples_again(stage: Stage) -> None:
    stage.sandbox.muted.clear()


async def _node_goes_and_none_comes(stage: Stage) -> None:
    """A node is to be taken in ten minutes while both models need all GPUs there are."""
    await _both_surge(stage)
    stage.words["NODE"] = "a100-2"
    await stage.until(lambda: _short(stage, "chat"), "chat is short")
    said = await stage.run("rebalancer notice add a100-2 --in 2m --yes")
    assert said.code == 0, said


async def _short(stage: Stage, model: str) -> bool:
    plan = stage.service.plan
    return plan is not None and any(row.model == model for row in plan.unmet)


async def _notice_taken_back(stage: Stage) -> None:
    said = await stage.run("rebalancer notice add a100-2 --cancel --yes")
    assert said.code == 0, said


async def _gitops_fights(stage: Stage) -> None:
    stage.words["MODEL"] = "code"
    stage.cluster.dials["chat"].turn(52.0, stage.clock.now(), 3.0)
    stop = asyncio.get_running_loop().time() + 40.0
    while asyncio.get_running_loop().time() < stop and not await stage.firing("RebalancerForeignWriter"):
        await stage.request("PATCH", SCALE.format("code"), {"spec": {"replicas": 5}}, user="gitops")
        await asyncio.sleep(1.0)


async def _labels_lost(stage: Stage) -> None:
    stage.words["POLICY"] = str(stage.settings.policy_path)
    for node in ("a100-1", "a100-2"):
        stage.sandbox.kubernetes.store.patch(NODES, node, {"metadata": {"labels": {"rebalancer.io/pool": "lost"}}})


async def _labels_back(stage: Stage) -> None:
    for node in ("a100-1", "a100-2"):
        stage.sandbox.kubernetes.store.patch(NODES, node, {"metadata": {"labels": {"rebalancer.io/pool": "a100"}}})


async def _disk_full(stage: Stage) -> None:
    await stage.restart(journal=Path("/dev/full"))


async def _queue_without_a_reader(stage: Stage) -> None:
    """The queue was set, and the image has not the extra that reads it, or nobody answers there."""
    url = f"http://127.0.0.1:{free_port()}/123456789012/capacity-notices"
    await stage.restart(notices_queue_url=url, notices_queue_region="eu-west-1")


async def _no_queue(stage: Stage) -> None:
    await stage.restart(notices_queue_url="")


async def _room_again(stage: Stage) -> None:
    await stage.restart(journal=stage.folder / "journal.jsonl")


def _busiest(stage: Stage) -> dict[str, int]:
    """Pods per node."""
    counts = dict.fromkeys(stage.cluster.world.nodes, 0)
    for pod in stage.cluster.world.pods.values():
        if pod.node is not None:
            counts[pod.node.name] += 1
    return counts


async def _hot(stage: Stage) -> None:
    """A fan fails: the GPUs of one node are hot while anything runs there."""
    stage.words["NODE"] = "a100-2"
    stage.gpus.of = lambda: {
        node: (93.0 if node == "a100-2" and pods else 45.0, 0.8) for node, pods in _busiest(stage).items()
    }


def _too_few(stage: Stage) -> Callable[[], bool]:
    """Whether chat has no more replicas than now, of which it would need one more."""
    stage.words |= {"MODEL": "chat", "NODE": "a100-1", "MORE": "4"}
    chat = len(stage.cluster.world.ready_pods("chat"))
    stage.cluster.dials["code"].turn(1.0, stage.clock.now())
    return lambda: len(stage.cluster.world.ready_pods("chat")) <= chat


async def _memory_full(stage: Stage) -> None:
    """The engine's memory fills as long as the model has no more replicas than now."""
    few = _too_few(stage)
    stage.gpus.of = lambda: {
        node: (45.0, 0.99 if few() and node == "a100-1" else 0.8) for node in stage.cluster.world.nodes
    }


def _device(metric: str, value: float, node: str, pod: str) -> str:
    """A line of an exporter that knows whose GPU it is."""
    return (
        f'DCGM_FI_DEV_{metric}{{gpu="1",UUID="GPU-{node}-1",Hostname="{node}",namespace="serving",pod="{pod}"}} {value}'
    )


async def _in_full_use(stage: Stage) -> None:
    """The GPUs of a model have no time left as long as it has no more replicas than now."""
    few = _too_few(stage)
    stage.gpus.more = lambda: [_device("GPU_UTIL", 99.0 if few() else 60.0, "a100-1", "chat-0")]


async def _at_the_limit(stage: Stage) -> None:
    """A rack's power is capped: what runs on one node is held back."""
    stage.words["NODE"] = "a100-2"
    stage.gpus.more = lambda: [
        line
        for pod in stage.cluster.world.pods.values()
        if pod.node is not None and pod.node.name == "a100-2"
        for line in (
            _device("POWER_USAGE", 299.0, "a100-2", pod.name),
            _device("POWER_MGMT_LIMIT", 300.0, "a100-2", pod.name),
        )
    ]


async def _nothing_to_do(stage: Stage) -> None:
    """A model has more replicas than its users need, and nobody else needs its GPUs."""
    stage.words |= {"MODEL": "code", "LESS": "4"}
    stage.cluster.dials["code"].turn(1.0, stage.clock.now())

    def idle() -> list[str]:
        pods = [pod for pod in stage.cluster.world.pods.values() if pod.name.startswith("code")]
        return [_device("GPU_UTIL", 1.0 if len(pods) > 4 else 60.0, "a100-1", pod.name) for pod in pods]

    stage.gpus.more = idle


async def _scaled_beyond_room(stage: Stage) -> None:
    """Somebody scaled the model by hand to more than there is room for."""
    stage.words |= {"MODEL": "chat", "FITS": "3"}
    await stage.request("PATCH", SCALE.format("chat"), {"spec": {"replicas": 7}}, user="builder")

    def waiting() -> list[str]:
        lines = []
        for pod in stage.cluster.world.pods.values():
            labels = f'namespace="serving",pod="{pod.name}"'
            lines += [
                f"kube_pod_created{{{labels}}} 0",
                f'kube_pod_status_phase{{{labels},phase="Pending"}} {int(pod.node is None)}',
                f'kube_pod_container_resource_requests{{{labels},resource="nvidia_com_gpu"}} 2',
            ]
            if pod.node is None:
                lines.append(f"kube_pod_status_unschedulable{{{labels}}} 1")
        return lines

    stage.gpus.more = waiting


async def _bad_policy(stage: Stage) -> None:
    stage.words["POLICY"] = str(stage.settings.policy_path)
    bad = POLICY_FILE.read_text().replace("maxReplicas: 7", "maxReplicas: 1")
    await asyncio.to_thread(stage.settings.policy_path.write_text, bad)


async def _good_policy(stage: Stage) -> None:
    await asyncio.to_thread(stage.settings.policy_path.write_text, POLICY_FILE.read_text())


async def _stopped(stage: Stage) -> None:
    spec = {"reason": "bad rollout", "actor": "builder"}
    body = {"apiVersion": "rebalancer.io/v1alpha1", "kind": "WriteStop", "metadata": {"name": "stop"}, "spec": spec}
    await stage.request("POST", STOPS, body)


async def _unplannable(stage: Stage) -> None:
    """A defect of ours: whatever is seen, planning raises."""
    stage.words["POLICY"] = str(stage.settings.policy_path)
    ports = stage.service.cycle_ports
    assert ports is not None
    guards = ports.policy.guards.model_copy(update={"step": None})
    ports.policy = ports.policy.model_copy(update={"guards": guards})


async def _mended(stage: Stage) -> None:
    """Another build, or another policy."""
    ports = stage.service.cycle_ports
    assert ports is not None
    ports.policy = ports.policy.model_copy(update={"guards": demo_policy().guards})


async def _back_to_shadow(stage: Stage) -> None:
    """What was written stays when the service only watches again."""
    await stage.restart(write_mode="shadow")
    own = '{"min":1,"max":4,"by":"rebalancer/rebalancer"}'
    spec = {"scaleTargetRef": {"name": "image"}, "minReplicaCount": 2, "maxReplicaCount": 2}
    metadata = {"name": "image", "namespace": "serving", "annotations": {"rebalancer.io/originals": own}}
    kind = {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject"}
    stage.sandbox.kubernetes.store.put({**kind, "metadata": metadata, "spec": spec})


FAULTS = (
    Fault("RebalancerDown", _down, r"no answer from", _up),
    Fault(
        "RebalancerNotLeading",
        leading.leases_refused,
        r"no leader known(.|\n)*lease: the Lease cannot be read: Forbidden",
        _answers_again,
    ),
    Fault(
        "RebalancerNotLeading",
        leading.leader_ends_while_kafka_is_away,
        r"leading: this replica holds the Lease, and acts once .* cannot be read",
        kafka.back,
        times=30.0,
        speed=1.0,
        way="takeover without Kafka",
    ),
    Fault(
        "RebalancerNotLeading",
        leading.leader_hangs_and_nobody_can_follow,
        r"no leader known(.|\n)*lease: the Lease cannot be written: Forbidden",
        _answers_again,
        times=30.0,
        speed=1.0,
        way="frozen holder",
    ),
    Fault(
        "RebalancerTwoLead",
        leading.second_beside_the_first,
        r"leader (?!by-hand)\S+  writing(.|\n)*leader by-hand  writing",
        leading.the_second_ended,
    ),
    # At 4 seconds a second the loop, which all of the cluster shares, may hang for 1.75 s until the Lease is lost.
    Fault("RebalancerFailedOver", leading.leader_ends, r"leader rebalancer-1", lasts=True, times=30.0, speed=1.0),
    Fault(
        "RebalancerFailedOver",
        leading.leader_is_killed,
        r"leader rebalancer-1",
        lasts=True,
        times=30.0,
        speed=1.0,
        way="killed",
    ),
    Fault("RebalancerCyclesFailing", _unplannable, r"plan: \d+ cycles in a row failed.*AttributeError", _mended),
    Fault("RebalancerCheckpointOld", kafka.away, r"kafka-out", kafka.back),
    Fault(
        "RebalancerCheckpointOld",
        kafka.no_right_to_state,
        r"\A(?!(.|\n)*kafka-out)",
        kafka.state_allowed,
        way="single records refused",
    ),
    Fault("RebalancerNotSynced", _pods_unlistable, r"Silent: .*pods|Not read yet: .*pods", _answers_again),
    Fault("RebalancerFloorAtRisk", _paused_and_shrunk, r"pause.*builder|builder.*pause"),
    Fault("RebalancerUnmetDemand", _both_surge, r"short of \d+ replica.*\nlate +.*replicas of work on", _both_calm),
    Fault("RebalancerBlind", _no_samples, r"is \d+ s old, so it has no vote", _samples_again),
    Fault("RebalancerNoticeWithoutReplacement", _node_goes_and_none_comes, r"NOTICE a100-2", _notice_taken_back),
    Fault("RebalancerForeignWriter", _gitops_fights, r"foreign.*gitops", lasts=True),
    Fault("RebalancerBudgetUnknown", _labels_lost, r"a100 +\? GPUs", _labels_back),
    Fault("RebalancerJournalFailing", _disk_full, r"journal.*No space left on device", _room_again),
    Fault("RebalancerNoticeQueueUnread", _queue_without_a_reader, r"notice-queue", _no_queue),
    Fault("RebalancerConsumerStuck", kafka.away, r"kafka-in", kafka.back),
    Fault(
        "RebalancerConsumerStuck",
        kafka.no_right_to_read,
        r"kafka-in: no right to read .*metrics.*: allow the operation Read",
        kafka.read_allowed,
        way="no right to read",
    ),
    Fault("RebalancerConsumerBehind", kafka.backlog_of_a_slow_broker, r"metrics.*behind", kafka.fast_again, times=20.0),
    Fault("RebalancerGpuMemoryHigh", _memory_full, r"chat"),
    Fault("RebalancerGpuTemperatureHigh", _hot, r"a100"),
    Fault("RebalancerGpuPowerHigh", _at_the_limit, r"a100"),
    Fault("RebalancerGpuBusy", _in_full_use, r"chat"),
    Fault("RebalancerGpuIdle", _nothing_to_do, r"code +\d+ +5 +5", times=720.0),  # 2 h are 10 s
    Fault("RebalancerLatencyAboveSlo", _both_surge, r"short of \d+ replica.*\nlate +.*replicas of work on", _both_calm),
    Fault("RebalancerPodsPending", _scaled_beyond_room, r"chat +\d+ +\d+ +\d+ +[1-4] "),
    Fault("RebalancerPolicyRefused", _bad_policy, r"maxReplicas", _good_policy),
    Fault("RebalancerWritesStopped", _stopped, r"Writes stopped by builder .*bad rollout"),
    Fault("RebalancerObjectsPinned", _back_to_shadow, r"still on 1 object \(scaledobject/serving/image\)"),
)

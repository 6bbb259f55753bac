"""Idle GPUs of serving are lent to workers, and to Jobs, and come home: on the real API server and scheduler."""

import asyncio

from tests.real.occupancy import Pods, failed, scaled
from tests.real.policies import model, policy, pool
from tests.real.service import Service
from tests.real.traffic import Traffic
from tests.testbed.audit import AuditLog
from tests.testbed.kube import Json, Kube
from tests.testbed.objects import COMPLETE_DELAY, END_DELAY, GPU, deployment, gpu_node

GPUS = 6
WITH_A_JOB = GPUS + 1


def _job(name: str, namespace: str, node_labels: dict[str, str], pods: int = 1, priority_class: str = "") -> Json:
    """A Job whose pods work on a GPU each for longer than the test; who is ended for others is made again."""
    container = {"name": "work", "image": "work:test", "resources": {"limits": {GPU: "1"}}}
    priority = {"priorityClassName": priority_class} if priority_class else {}
    pod = {
        "metadata": {"annotations": {COMPLETE_DELAY: "1h", END_DELAY: "2s"}, "labels": {"app": name}},
        "spec": {"containers": [container], "nodeSelector": node_labels, "restartPolicy": "Never", **priority},
    }
    # No podFailurePolicy: with one a Job waits for the phase of who was ended, which a kubelet would set, and kwok not.
    spec = {"parallelism": pods, "completions": pods, "backoffLimit": 100}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {**spec, "template": pod},
    }


async def test_workers_of_batch_jobs_take_what_is_idle_and_give_it_back_before_a_model_is_raised(
    service: Service, traffic: Traffic, kube: Kube, audit: AuditLog, namespace: str, ours: dict[str, str]
) -> None:
    """The model chat holds four GPUs of six and its requests keep one busy: nightly's workers get the others.

    A Job's pod holds a seventh: a Job has no scale, so nothing is offered to it and nothing taken from it.
    """
    await kube.create(gpu_node(f"{namespace}-own", gpus=WITH_A_JOB, labels=ours))
    await kube.apply(_job("weekly", namespace, ours))
    (weekly,) = await kube.wait_ready(1, namespace, "app=weekly")
    await kube.apply(
        deployment("chat", namespace, 4, node_labels=ours, load_seconds=1, end_seconds=1),
        deployment("nightly", namespace, 0, node_labels=ours, load_seconds=1, end_seconds=2),
    )
    await kube.wait_ready(4, namespace, "app=chat")
    nightly = model("nightly", namespace, 0, 0, GPUS, takesIdle=True, signals={}, **{"class": "batch"})
    await service.policy(policy([pool("gpus", ours, WITH_A_JOB)], [model("chat", namespace, 1, 2, GPUS), nightly]))
    await traffic.past("chat", running=5)
    await service.start()

    await kube.wait_ready(5, namespace, "app=nightly", 90)
    (left,) = await kube.ready_pods(namespace, "app=chat")
    await service.lacks_nothing(kube, "nightly")
    print("\n".join((await service.explain("nightly"))["explanation"]))

    traffic.says("chat", running=38)
    await kube.wait_ready(4, namespace, "app=chat", 90)
    pods = {pod["metadata"]["name"] for pod in await kube.ready_pods(namespace, "app=chat")}
    assert left["metadata"]["name"] in pods, "who served before serves still"
    writes = await service.writes(kube)
    up, down = scaled(writes, "chat"), scaled(writes, "nightly")
    print("chat", up, "nightly", down)
    shrunk = min(at for at, replicas in down if replicas < 5)
    raised = [at for at, replicas in up if at > down[0][0] and replicas > 1]
    assert raised
    assert shrunk < min(raised), "released before it is granted"
    assert min(replicas for _, replicas in up) >= 1, "its floor"
    assert [to for _, to in down][-1] == GPUS - 4
    assert {write.resource for write in writes} <= {"deployments", "leases", "events"}
    assert failed(writes) == []
    made = await asyncio.to_thread(audit.writes, namespace=namespace)
    assert Pods.of(made).most() == WITH_A_JOB, "a worker has gone, by its grace, before a replica comes in its place"
    ended = [write for write in made if (write.resource, write.verb) == ("pods", "delete") and write.user != "kwok"]
    assert ended
    assert [write.request for write in ended if write.request.get("gracePeriodSeconds") == 0] == []
    assert weekly["metadata"]["name"] in {pod["metadata"]["name"] for pod in await kube.ready_pods(namespace)}


async def test_a_job_takes_what_is_idle_and_the_scheduler_ends_as_many_of_its_pods_as_a_model_wants(
    service: Service, traffic: Traffic, kube: Kube, audit: AuditLog, namespace: str, ours: dict[str, str]
) -> None:
    """The model chat holds all six GPUs and its requests keep one busy: it lets go, and the Job's pods come there.

    As its requests grow, it is raised into their places, and they are told 30 s before by their grace period.
    """
    batch = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": namespace}}
    await kube.create({**batch, "value": -10})
    await kube.create(gpu_node(f"{namespace}-own", gpus=GPUS, labels=ours))
    await kube.apply(deployment("chat", namespace, GPUS, node_labels=ours, load_seconds=1, end_seconds=1))
    try:
        await kube.wait_ready(GPUS, namespace, "app=chat")
        await kube.apply(_job("weekly", namespace, ours, 4, namespace))
        gpus = pool("gpus", ours, GPUS, preemptiblePriorityClasses=[namespace])
        await service.policy(policy([gpus], [model("chat", namespace, 1, GPUS, GPUS)]))
        await traffic.past("chat", running=8)
        await service.start()

        await kube.wait_ready(4, namespace, "app=weekly", 90)
        await service.planned(kube, "all four are seen", _all_lent)
        told = f"nodes   of pool gpus: job {namespace}/weekly 4 on idle GPUs: the scheduler preempts them for a replica"
        lines = (await service.explain("chat"))["explanation"]
        assert any(line.startswith(told) for line in lines), "\n".join(lines)
        print("\n".join(lines))

        traffic.says("chat", running=38)
        await kube.wait_ready(4, namespace, "app=chat", 60)
        writes = await service.writes(kube)
        up = scaled(writes, "chat")
        print("chat", up)
        assert min(replicas for _, replicas in up) >= 1, "its floor"
        assert {write.resource for write in writes} <= {"deployments", "leases", "events"}
        assert failed(writes) == []
        made = await asyncio.to_thread(audit.writes, namespace=namespace)
        ended = [
            write for write in made if (write.resource, write.verb) == ("pods", "delete") and "weekly" in write.name
        ]
        by = {write.user for write in ended if write.user != "kwok"}
        assert by == {"scheduler"}, "nobody else ends a job's pod"
        assert [write.request for write in ended if write.request.get("gracePeriodSeconds") == 0] == []
        await service.lacks_nothing(kube, "chat")

        traffic.says("chat", running=8)
        await kube.wait_ready(4, namespace, "app=weekly", 120)
    finally:
        await kube.delete("PriorityClass", namespace)


def _all_lent(plan: Json) -> bool:
    """Whether the plan's one pool has all its GPUs, four of them with pods of jobs that are preempted."""
    (seen,) = plan["pools"]
    return (seen["budget"], seen["preemptible"], seen["foreign"]) == (GPUS, 4, 4)

"""Idle GPUs of serving are lent to the workers of batch jobs, and come home: on the real API server and scheduler."""

from tests.real.occupancy import failed, scaled
from tests.real.policies import model, policy, pool
from tests.real.service import Service
from tests.real.traffic import Traffic
from tests.testbed.kube import Kube
from tests.testbed.objects import deployment, gpu_node

GPUS = 6


async def test_workers_of_batch_jobs_take_what_is_idle_and_give_it_back_before_a_model_is_raised(
    service: Service, traffic: Traffic, kube: Kube, namespace: str, ours: dict[str, str]
) -> None:
    """The model chat holds four GPUs of six and its requests keep one busy: nightly's workers get the others."""
    await kube.create(gpu_node(f"{namespace}-own", gpus=GPUS, labels=ours))
    await kube.apply(
        deployment("chat", namespace, 4, node_labels=ours, load_seconds=1, end_seconds=1),
        deployment("nightly", namespace, 0, node_labels=ours, load_seconds=1, end_seconds=2),
    )
    await kube.wait_ready(4, namespace)
    nightly = model("nightly", namespace, 0, 0, GPUS, takesIdle=True, signals={}, **{"class": "batch"})
    await service.policy(policy([pool("gpus", ours, GPUS)], [model("chat", namespace, 1, 2, GPUS), nightly]))
    await traffic.past("chat", running=8)
    await service.start()

    await kube.wait_ready(5, namespace, "app=nightly", 90)
    (left,) = await kube.ready_pods(namespace, "app=chat")
    lent = await service.explain("nightly")
    print("\n".join(lent["explanation"]))
    assert lent["unmet"] == []

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

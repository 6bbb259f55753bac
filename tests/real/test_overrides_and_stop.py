"""What people decide: a pin holds until its own end, a write stop until it is taken away, and both over restarts."""

import asyncio
import itertools
import time

from tests.real.occupancy import scaled
from tests.real.people import WHY, People
from tests.real.policies import model, policy, pool
from tests.real.service import Service, lacking
from tests.real.traffic import Traffic
from tests.testbed.audit import Write
from tests.testbed.kube import Kube
from tests.testbed.objects import deployment, gpu_node

GPUS = 6
STOPPED_WITHIN_SECONDS = 2.0
CHANGE_OF_MIND_SECONDS = 0.4


async def _world(kube: Kube, namespace: str, ours: dict[str, str], service: Service) -> None:
    """Two models of 2 replicas on 6 GPUs; each owns 3."""
    await kube.create(gpu_node(f"{namespace}-a", gpus=GPUS, labels=ours))
    for name in ("chat", "code"):
        await kube.apply(deployment(name, namespace, 2, node_labels=ours))
    await kube.wait_ready(4, namespace)
    models = [model(name, namespace, floor=1, entitlement=3, most=6) for name in ("chat", "code")]
    await service.policy(policy([pool("gpus", ours, GPUS)], models))


async def test_a_pin_holds_over_a_kill_and_ends_by_itself_at_its_expiry(
    service: Service, traffic: Traffic, people: People, kube: Kube, namespace: str, ours: dict[str, str]
) -> None:
    """Chat needs 2 and is pinned at 4; code comes to need 4, and gets chat's surplus only when the pin ends."""
    await _world(kube, namespace, ours, service)
    await asyncio.gather(traffic.past("chat", running=12), traffic.past("code", running=15))
    await service.start()
    pinned_at = time.time()
    ends_at = await people.pin("busy-evening", "chat", 4, seconds=35)  # half of it for a restart on a slow machine
    await kube.wait_ready(4, namespace, "app=chat")
    await people.phase("busy-evening", "InForce")
    traffic.says("code", running=35)
    await _lacks(service, kube, "code", 2)

    await service.kill()
    await service.start()
    await _lacks(service, kube, "code", 2)
    assert time.time() < ends_at - 5, "there was time to break the pin after the restart"
    await kube.wait_ready(4, namespace, "app=code", ends_at + 30 - time.time())

    writes = await service.writes(kube)
    (at, raised), *later = scaled(writes, "chat")
    assert raised == 4
    assert at - pinned_at < 2, "an override takes effect at once"
    assert [replicas for _, replicas in later] == [2], "one goes home to code, one is lent to it"
    assert ends_at <= later[0][0] < ends_at + 5
    assert min(at for at, _ in scaled(writes, "code")) > later[0][0]
    await people.phase("busy-evening", "Expired")


async def test_a_pin_that_ended_while_nobody_was_there_has_no_late_effect(
    service: Service, traffic: Traffic, people: People, kube: Kube, namespace: str, ours: dict[str, str]
) -> None:
    await _world(kube, namespace, ours, service)
    await asyncio.gather(traffic.past("chat", running=15), traffic.past("code", running=15))
    ends_at = await people.pin("too-late", "chat", 4, seconds=1)
    await asyncio.sleep(ends_at - time.time())
    await service.start()
    await people.phase("too-late", "Expired")
    assert _of_the_cluster(await service.writes(kube)) == []


async def test_a_write_stop_stops_all_writes_within_two_seconds_and_holds_over_a_kill(
    service: Service, traffic: Traffic, people: People, kube: Kube, namespace: str, ours: dict[str, str]
) -> None:
    """Somebody pins chat at 2, 3, 2, 3... all the while, so that there is something to write at every moment."""
    await _world(kube, namespace, ours, service)
    await asyncio.gather(traffic.past("chat", running=15), traffic.past("code", running=15))
    await service.start()
    pins = itertools.count()
    await _change_minds(people, pins, 8)
    assert len(scaled(await service.writes(kube), "chat")) >= 4

    stopped_at = await people.stop_writes()
    await _change_minds(people, pins, 12)
    assert (await service.status())["writesStopped"]["reason"] == WHY

    async def refused() -> bool:
        await _change_minds(people, pins, 1)
        return any(refusal["guard"] == "stop" for refusal in (await service.plan())["refusals"])

    await kube.wait_for(refused, "the plan says that a write was stopped")
    assert await service.unready() == {}, "to be told to write nothing is no trouble"

    await service.kill()
    await service.start()
    await _change_minds(people, pins, 8)
    told = [write for write in await service.writes(kube, since=stopped_at) if write.subresource == "status"]
    assert {write.what.split()[0] for write in told} == {"overrides/status"}, "people still hear what became of theirs"
    resumed_at = time.time()
    await people.resume_writes()

    async def written() -> list[Write]:
        return _of_the_cluster(await service.writes(kube, since=resumed_at))

    await _change_minds(people, pins, 4)
    await kube.wait_for(written, "writes go on when the stop is taken away")
    late = await service.writes(kube, since=stopped_at + STOPPED_WITHIN_SECONDS, until=resumed_at)
    assert [write.what for write in _of_the_cluster(late)] == []


async def _change_minds(people: People, pins: "itertools.count[int]", times: int) -> None:
    """One pin after the other, each other than the last; the last one stays."""
    for number in itertools.islice(pins, times):
        if number:
            await people.unpin(f"mind-{number - 1}")
        await people.pin(f"mind-{number}", "chat", 2 + number % 2, seconds=600)
        await asyncio.sleep(CHANGE_OF_MIND_SECONDS)


def _of_the_cluster(writes: list[Write]) -> list[Write]:
    """Without the status of overrides, which are our own objects."""
    return [write for write in writes if write.resource != "overrides"]


async def _lacks(service: Service, kube: Kube, model_id: str, replicas: int) -> None:
    await service.planned(
        kube,
        f"the service says that {model_id} lacks {replicas}",
        lambda plan: [one["replicas"] for one in lacking(plan, model_id)] == [replicas],
    )

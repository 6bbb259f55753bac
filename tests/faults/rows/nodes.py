"""7.6 Nodes and spot."""

import time
from contextlib import suppress
from datetime import UTC, datetime

from tests.faults.evidence import Notice
from tests.faults.injections import NOTICE, to_die_at
from tests.faults.row import Group, Row
from tests.faults.scene import GPUS, Scene
from tests.real.crashing import Point
from tests.testbed.kube import ApiError
from tests.testbed.objects import gpu_node


async def _notice(scene: Scene, node: str, in_seconds: float, *, cancelled: bool = False) -> None:
    deadline = datetime.fromtimestamp(time.time() + in_seconds, UTC).isoformat()
    told = {"kind": "spot-interruption", "node": node, "deadline": deadline}
    await scene.traffic.event("notices", NOTICE, told | ({"cancelled": True} if cancelled else {}))


async def _to_be_acted_on(scene: Scene, node: str, in_seconds: float) -> None:
    """A notice about a node that is there and holds pods: something is to be done about it (invariant I15)."""
    scene.now.notices.append(Notice(time.time(), node))
    await _notice(scene, node, in_seconds)


async def _taken_back(scene: Scene) -> None:
    """A notice about the node that is being filled, which is cordoned at once, and its end six seconds later.

    One whose deadline is further off than a replica's replacement takes, 67 s here, would count later.
    """
    node = f"{scene.namespace}-b"
    await _to_be_acted_on(scene, node, 60.0)
    await scene.silent(6.0)
    await _notice(scene, node, 60.0, cancelled=True)
    await _uncordoned(scene, node, 15.0)


async def _uncordoned(scene: Scene, node: str, seconds: float) -> None:
    async def so() -> bool:
        return not await _cordoned(scene, node)

    await scene.until(so, "it is uncordoned again", seconds)


async def _cordoned(scene: Scene, node: str) -> bool:
    return bool((await scene.kube.get("Node", node))["spec"].get("unschedulable"))


async def _between_cordon_and_eviction(scene: Scene) -> None:
    """The leader dies before the first eviction that it is to ask for; the notice is taken back while nobody leads."""
    node, before = f"{scene.namespace}-b", await scene.epoch()

    async def leads() -> bool:
        return await scene.epoch() != before

    async with to_die_at(scene, Point("kube/create/pods/eviction", 1, "before")) as ended:
        await scene.until(leads, "it has waited for the Lease of who was killed, and leads")
        await scene.service.wait_ready(30.0)
        await _to_be_acted_on(scene, node, 40.0)  # eviction is due 25 s before
        await ended()
        assert await _cordoned(scene, node), "it died before its time"
        await _notice(scene, node, 40.0, cancelled=True)
    await _uncordoned(scene, node, 30.0)


async def _vanished(scene: Scene) -> None:
    """A node is told to go in a minute and is gone once it is cordoned; another one of its name comes."""
    node = f"{scene.namespace}-b"

    async def cordoned() -> bool:
        return await _cordoned(scene, node)

    await _to_be_acted_on(scene, node, 60.0)
    await scene.until(cordoned, "it is cordoned")
    await scene.kube.delete("Node", node)
    await scene.silent(3.0)
    await _notice(scene, node, 60.0, cancelled=True)
    await scene.kube.create(gpu_node(node, gpus=GPUS // 2, labels=scene.labels))


async def _of_nobodys_node(scene: Scene) -> None:
    for number in range(20):
        await _notice(scene, f"nobodys-{number}", 60.0)


async def _long_ago(scene: Scene) -> None:
    """Its deadline was an hour ago, and the node is there and Ready."""
    await _notice(scene, f"{scene.namespace}-a", -3600.0)


async def _stuck(scene: Scene) -> None:
    """A pod of the donor does not end for ten seconds: a finalizer holds it, and its GPU."""
    pods = await scene.kube.items("Pod", scene.namespace, f"app={scene.needs_little}")
    names = [pod["metadata"]["name"] for pod in pods]
    held = [name for name in names if await _is_held(scene, name)]
    assert held, f"all of {names} were on their way out"
    await scene.silent(10.0)
    for name in held:
        with suppress(ApiError):  # gone by now
            await scene.kube.patch("Pod", name, {"metadata": {"finalizers": None}}, scene.namespace)


async def _is_held(scene: Scene, pod: str) -> bool:
    """Whether a finalizer could be put on it: not on one that is on its way out, which the shift has sent there."""
    try:
        await scene.kube.patch("Pod", pod, {"metadata": {"finalizers": ["test.io/stuck"]}}, scene.namespace)
    except ApiError as error:
        if error.status not in {404, 422}:
            raise
        return False
    return True


_DRAIN = "real/test_drain.py::test_budgets_are_respected_until_the_last_seconds_and_two_on_one_pod_are_asked_once"
_TWICE = "real/test_spot_notice.py::test_a_warning_told_four_times_over_is_replaced_once_out_of_free_gpus"
_TEN = "loop/test_drain_world.py::test_ten_nodes_at_once_are_cordoned_and_acted_on_within_a_second_and_none_is_late"
_NONE_COMES = (
    "real/test_node_grant.py::test_a_grant_that_brings_no_node_is_withdrawn_and_the_limit_returns_to_what_people_set"
)
_UNCORDONED = "loop/test_drain_world.py::test_a_notice_that_is_taken_back_uncordons_what_we_cordoned"

NODES = Group(
    "nodes",
    "7.6 Nodes and spot",
    (
        Row("N01", "a budget blocks evictions", "asked again, then told", elsewhere=(_DRAIN,)),
        Row("N02", "two budgets on one pod", "asked once, told", elsewhere=(_DRAIN,)),
        Row("N03", "notice of the node that is being filled", "I2 I15", _taken_back, "taken back after 6 s"),
        Row("N04", "node vanishes before its deadline", "I15, accounted for once", _vanished),
        Row("N05", "doubled notices", "one replacement", elsewhere=(_TWICE,)),
        Row("N06", "notice of an unknown node", "ignored", _of_nobodys_node, fast=True),
        Row("N07", "notice after its deadline", "a Ready node stays", _long_ago),
        Row("N08", "half of the nodes within 10 s", "acted on within 5 s", elsewhere=(_TEN,),
            as_played="ten of a hundred nodes at once, in virtual time"),
        Row("N09", "pods stuck while they end", "no capacity", _stuck),
        Row("N10", "no replacement capacity", "floors last, told", elsewhere=(_NONE_COMES,)),
        Row("N11", "notice taken back", "only our own cordon goes", elsewhere=(_UNCORDONED,)),
        Row("N12", "leader dies between cordon and eviction", "I15, finished or undone", _between_cordon_and_eviction,
            "undone: the notice is taken back meanwhile"),
    ),
)  # fmt: skip

"""What we wrote to and the policy does not name (any more) is given back until it is; in shadow it is told."""

import asyncio
from itertools import pairwise
from typing import Literal

from structlog.testing import capture_logs

from rebalancer.act.events import Events
from rebalancer.act.originals import ANNOTATION as ORIGINALS
from rebalancer.act.restoring import Restoring
from rebalancer.domain.autoscalers import Originals, ScaledObject
from rebalancer.domain.cluster import NodePool, SavedNodePool
from rebalancer.domain.events import ObjectsListed
from rebalancer.domain.pinned import DEPARTED, HELD, OTHER, UNNAMED
from rebalancer.domain.policy import Policy
from rebalancer.sandbox.api import Obj
from rebalancer.sandbox.api.resources import EVENTS, NODEPOOLS, SCALEDOBJECTS, WRITESTOPS
from rebalancer.state import ClusterState
from tests.act.rig import GPU, OURS, Rig, change, node_pool, node_pool_change, refused, scaled_object, write_stop
from tests.builders import NOW, a_model, a_policy, a_pool, an_autoscaler, an_elastic_pool
from tests.state.objects import a_karpenter_pool, a_scaled_object

THEIRS = "search/rebalancer"
A = a_policy(a_model("a"))  # b, and the NodePool spot, have left it
BOTH = a_policy(a_model("a"), a_model("b"), pools=(a_pool(), an_elastic_pool()))


def marked(by: str | None = OURS) -> Obj:
    """Metadata of a ScaledObject that had bounds 2-9."""
    name = "" if by is None else f',"by":"{by}"'
    return {"annotations": {ORIGINALS: f'{{"min":2,"max":9{name}}}'}}


def raised(by: str = OURS) -> Obj:
    """A NodePool whose limit was 4."""
    obj = node_pool(limits={GPU: "8"})
    obj["metadata"]["annotations"] = {ORIGINALS: f'{{"limits":{{"{GPU}":"4"}},"budgets":null,"by":"{by}"}}'}
    return obj


class Scene:
    """The reconciler over what a state knows of the API's objects, which `see` shows it."""

    def __init__(self, rig: Rig, policy: Policy, write_mode: Literal["shadow", "act"] = "act", **fields: bool) -> None:
        self.rig = rig
        self.state = ClusterState(policy, NOW, OURS)
        self.events = Events(rig.kube, rig.clock, "rb-0")
        self.restoring = Restoring(
            rig.kube, self.state.pinned, rig.clock, self.events, rig.right, write_mode, OURS, **fields
        )

    def see(self, *objects: ScaledObject | NodePool) -> None:
        """What the watches show of the objects."""
        for source, kind in (("scaledobjects", ScaledObject), ("nodepools", NodePool)):
            shown = tuple(each for each in objects if isinstance(each, kind))
            self.state.apply(ObjectsListed(source=source, at=NOW, objects=shown), NOW)

    async def look(self, after_seconds: float = 0.0) -> None:
        self.rig.clock.passed += after_seconds
        await self.restoring.look()

    def states(self) -> dict[str, str]:
        return {str(each): each.state for each in self.restoring.pinned}


def scaled(name: str = "b", by: str = OURS) -> ScaledObject:
    return a_scaled_object(name, name, (3, 5), originals=Originals(2, 9, by))


def spot(by: str = OURS) -> NodePool:
    return a_karpenter_pool(limit=8, saved=SavedNodePool({GPU: "4"}, None, by))


async def test_what_the_policy_does_not_name_is_given_back_and_what_it_names_stays(rig: Rig) -> None:
    scene = Scene(rig, A)
    rig.store.put(scaled_object("a", 3, 5, **marked()))
    rig.store.put(scaled_object("b", 3, 5, **marked()))
    rig.store.put(raised())
    scene.see(scaled("a"), scaled("b"), spot())

    await scene.look()

    assert scene.states() == {
        "scaledobject/serving/a": HELD,
        "scaledobject/serving/b": DEPARTED,
        "nodepool/spot": DEPARTED,
    }
    assert (rig.bounds("a"), rig.bounds("b")) == ((3, 5), (2, 9))
    assert rig.object(NODEPOOLS, "spot")["spec"]["limits"] == {GPU: "4"}
    assert ORIGINALS not in rig.object(SCALEDOBJECTS, "b")["metadata"].get("annotations", {})


async def test_an_autoscaler_whose_model_is_moved_by_scale_now_gets_its_own_bounds_back(rig: Rig) -> None:
    scene = Scene(rig, a_policy(a_model("b", actuation="scale")))
    rig.store.put(scaled_object("b", 3, 5, **marked()))
    scene.see(scaled("b"))

    await scene.look()

    assert rig.bounds("b") == (2, 9)


async def test_it_says_so_on_the_object(rig: Rig) -> None:
    scene = Scene(rig, A)
    rig.store.put(scaled_object("b", 3, 5, **marked()))
    scene.see(scaled("b"))

    await scene.look()
    await scene.events.post()

    (event,) = rig.store.list(EVENTS)
    assert (event["reason"], event["regarding"]["name"]) == ("OriginalsRestored", "b")
    assert event["note"] == "the policy moves it no more: minReplicaCount 2, maxReplicaCount 9"


async def test_an_api_server_that_answers_503_is_asked_again_ever_more_rarely_but_each_minute(rig: Rig) -> None:
    scene = Scene(rig, A)
    rig.store.put(scaled_object("b", 3, 5, **marked()))
    scene.see(scaled("b"))
    rig.server.faults.fail_next(1000, 503, method="PATCH", path_part="/scaledobjects/")
    tried: list[float] = []

    for _ in range(120):
        before = len(rig.writes)
        await scene.look(after_seconds=2.0)
        tried += [rig.clock.passed] if len(rig.writes) > before else []
    waits = [later - earlier for earlier, later in pairwise(tried)]
    rig.server.faults.clear()
    await scene.look(after_seconds=60.0)

    assert waits == [2, 4, 8, 16, 32, 60, 60]
    assert rig.bounds("b") == (2, 9)


async def test_what_nobody_may_read_for_nineteen_hours_is_still_tried_and_then_given_back(rig: Rig) -> None:
    """Ever longer waits, capped: the thousandth doubling of one is no number any more."""
    scene = Scene(rig, A)
    rig.store.put(scaled_object("b", 3, 5, **marked()))
    scene.see(scaled("b"))
    rig.server.faults.fail_next(10_000, 403, method="GET", path_part="/scaledobjects/b")

    for _ in range(19 * 60):
        await scene.look(after_seconds=60.0)
    rig.server.faults.clear()
    await scene.look(after_seconds=60.0)

    assert rig.bounds("b") == (2, 9)


async def test_a_restart_tries_at_once_what_failed_and_waits_anew_from_two_seconds_on(rig: Rig) -> None:
    rig.store.put(scaled_object("b", 3, 5, **marked()))
    rig.server.faults.fail_next(1000, 503, method="PATCH", path_part="/scaledobjects/")
    for _ in range(2):
        scene, tried = Scene(rig, A), list[float]()
        scene.see(scaled("b"))
        began = rig.clock.passed
        for _ in range(20):
            before = len(rig.writes)
            await scene.look()
            tried += [rig.clock.passed - began] if len(rig.writes) > before else []
            rig.clock.passed += 2.0
        assert tried == [0.0, 2.0, 6.0, 14.0, 30.0]


async def test_what_fails_keeps_nothing_else_from_being_given_back(rig: Rig) -> None:
    scene = Scene(rig, A)
    rig.store.put(scaled_object("b", 3, 5, **marked()))
    broken = scaled_object("c", 3, 5, annotations={ORIGINALS: '{"min":{},"max":9,"by":"rebalancer/rebalancer"}'})
    rig.store.put({**broken, "spec": None})
    scene.see(scaled("b"), scaled("c"))
    rig.server.faults.fail_next(1, 403, path_part="/scaledobjects/c")

    await scene.look()

    assert rig.bounds("b") == (2, 9)


async def test_under_a_write_stop_nothing_is_written_and_at_its_end_it_is_given_back(rig: Rig) -> None:
    scene = Scene(rig, A)
    rig.store.put(scaled_object("b", 3, 5, **marked()))
    rig.store.put(write_stop())
    scene.see(scaled("b"))

    await scene.look()
    assert rig.writes == []
    rig.store.remove(WRITESTOPS, "stop")
    await scene.look(after_seconds=2.0)
    assert rig.bounds("b") == (2, 9)


async def test_in_shadow_it_is_told_once_per_object_and_nothing_is_written(rig: Rig) -> None:
    scene = Scene(rig, A, "shadow")
    for name in ("a", "b"):
        rig.store.put(scaled_object(name, 3, 5, **marked()))
    scene.see(scaled("a"), scaled("b"))

    with capture_logs() as logs:
        await scene.look()
        await scene.look(after_seconds=2.0)

    assert [entry["object"] for entry in logs if entry["event"] == "still pinned"] == [
        "scaledobject/serving/a",
        "scaledobject/serving/b",
    ]
    assert rig.writes == []


# --- whose it is


async def test_another_installations_objects_are_none_of_ours(rig: Rig) -> None:
    scene = Scene(rig, A, unnamed=True)
    for name in ("a", "b"):
        rig.store.put(scaled_object(name, 3, 5, **marked(THEIRS)))
    rig.store.put(raised(THEIRS))
    scene.see(scaled("a", THEIRS), scaled("b", THEIRS), spot(THEIRS))

    await scene.look()

    assert scene.states() == {"scaledobject/serving/a": OTHER}
    assert rig.writes == []


async def test_the_object_has_the_last_word_on_whose_it_is(rig: Rig) -> None:
    """The watch may be late."""
    scene = Scene(rig, A)
    rig.store.put(scaled_object("b", 3, 5, **marked(THEIRS)))
    scene.see(scaled("b"))

    await scene.look()

    assert rig.writes == []


async def test_what_no_name_is_on_is_taken_over_where_the_policy_names_it_and_left_where_it_does_not(rig: Rig) -> None:
    scene = Scene(rig, A)
    for name in ("a", "b"):
        rig.store.put(scaled_object(name, 3, 5, **marked(None)))
    scene.see(scaled("a", ""), scaled("b", ""))

    await scene.look()

    assert scene.states() == {"scaledobject/serving/a": HELD, "scaledobject/serving/b": UNNAMED}
    assert rig.written_objects == ["a"]
    assert rig.bounds("a") == (3, 5)
    assert rig.object(SCALEDOBJECTS, "a")["metadata"]["annotations"] == marked()["annotations"]


async def test_what_no_name_is_on_is_given_back_when_the_settings_say_so(rig: Rig) -> None:
    scene = Scene(rig, A, unnamed=True)
    rig.store.put(scaled_object("b", 3, 5, **marked(None)))
    scene.see(scaled("b", ""))

    await scene.look()

    assert rig.bounds("b") == (2, 9)


# --- beside a plan that is being written


def hang(rig: Rig, path: str) -> None:
    """Hold the next patch of an object until `faults.release`."""
    rig.server.faults.hang_next(1, method="PATCH", path_part=path)


async def under_way(rig: Rig) -> None:
    """Until a request hangs."""
    while not rig.server.faults.hanging:
        await asyncio.sleep(0)


async def test_no_bounds_of_a_plan_under_the_old_policy_follow_what_is_given_back(rig: Rig) -> None:
    scene = Scene(rig, BOTH)
    rig.store.put(scaled_object("b", 3, 5, **marked()))
    scene.see(scaled("b"))
    target = rig.show("b", autoscaler=an_autoscaler(3, 5, originals=Originals(2, 9, OURS)))
    hang(rig, "/scaledobjects/b")
    writing = asyncio.ensure_future(rig.apply(change(target, 4, minimum=4)))
    await under_way(rig)

    scene.state.set_policy(A, NOW)
    rig.facts = rig.facts_under(A)
    await scene.look()
    assert rig.bounds("b") == (2, 9)
    rig.server.faults.release()

    (outcome,) = await writing
    assert refused(outcome, "moved")
    assert rig.bounds("b") == (2, 9)
    assert ORIGINALS not in rig.object(SCALEDOBJECTS, "b")["metadata"].get("annotations", {})


async def test_no_hold_of_a_plan_under_the_old_policy_follows_a_node_pool_that_is_given_back(rig: Rig) -> None:
    scene = Scene(rig, BOTH)
    rig.store.put(raised())
    scene.see(spot())
    hang(rig, "/nodepools/spot")
    writing = asyncio.ensure_future(rig.apply(node_pool_change("hold")))
    await under_way(rig)

    scene.state.set_policy(A, NOW)
    rig.facts = rig.facts_under(A)
    await scene.look()
    rig.server.faults.release()

    (outcome,) = await writing
    assert refused(outcome, "moved")
    assert rig.object(NODEPOOLS, "spot")["spec"]["limits"] == {GPU: "4"}
    assert ORIGINALS not in rig.object(NODEPOOLS, "spot")["metadata"].get("annotations", {})


async def test_what_comes_back_into_the_policy_meanwhile_is_not_given_back(rig: Rig) -> None:
    scene = Scene(rig, A)
    rig.store.put(scaled_object("b", 3, 5, **marked()))
    scene.see(scaled("b"))
    rig.server.faults.hang_next(1, method="GET", path_part="/scaledobjects/b")
    looking = asyncio.ensure_future(scene.look())
    await under_way(rig)

    scene.state.set_policy(BOTH, NOW)
    rig.server.faults.release()
    await looking

    assert rig.writes == []
    assert rig.bounds("b") == (3, 5)

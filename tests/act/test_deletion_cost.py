"""Victims are marked before the shrink, and only they."""

import pytest
from msgspec.structs import replace

from rebalancer.act.deletion_cost import costs
from rebalancer.domain.plan import Change
from rebalancer.sandbox.api.resources import PODS
from tests.act.rig import Rig, change, deployment, pod
from tests.builders import NAMESPACE, a_pod, a_target

COST = "controller.kubernetes.io/pod-deletion-cost"


def a_release(rig: Rig, *victims: str, to: int = 3) -> Change:
    return change(rig.target("b"), to, victims=tuple(f"uid-{name}" for name in victims), victim_names=victims)


def cost(rig: Rig, name: str) -> str | None:
    value: str | None = rig.object(PODS, name)["metadata"]["annotations"].get(COST)
    return value


async def test_victims_are_marked_before_the_shrink_first_victim_lowest(rig: Rig) -> None:
    (outcome,) = await rig.apply(a_release(rig, "b-3", "b-1"))

    assert outcome.status == "written"
    assert [cost(rig, name) for name in ("b-3", "b-1", "b-0")] == ["-1000", "-999", None]
    assert set(rig.written_objects[:2]) == {"b-3", "b-1"}
    assert rig.written_objects[2:] == ["b"]


async def test_only_the_annotation_is_patched_on_that_very_pod(rig: Rig) -> None:
    await rig.apply(a_release(rig, "b-3", to=4))

    entry = rig.writes[0]
    assert entry.body == {"metadata": {"uid": "uid-b-3", "annotations": {COST: "-1000"}}}


async def test_the_switch_turns_it_off(rig: Rig) -> None:
    rig.facts = replace(rig.facts, marks_victims=False)

    (outcome,) = await rig.apply(a_release(rig, "b-3", to=4))

    assert outcome.status == "written"
    assert rig.written_objects == ["b"]


async def test_a_failure_does_not_stop_the_release_but_is_told(rig: Rig) -> None:
    rig.server.faults.fail_next(1, 403, method="PATCH", path_part="/pods/")

    (outcome,) = await rig.apply(a_release(rig, "b-3", to=4))

    assert outcome.status == "written"
    assert outcome.detail.startswith("deletion cost not written, Kubernetes chooses the victims")
    assert rig.replicas("b") == 4


async def test_another_pod_under_a_victims_name_is_not_marked(rig: Rig) -> None:
    rig.store.remove(PODS, "b-3", NAMESPACE)
    again = pod("b-3")
    again["metadata"]["uid"] = "another"
    rig.store.put(again)

    (outcome,) = await rig.apply(a_release(rig, "b-3", to=4))

    assert outcome.status == "written"
    assert cost(rig, "b-3") is None


async def test_a_victim_that_is_gone_already_is_no_trouble(rig: Rig) -> None:
    rig.store.remove(PODS, "b-3", NAMESPACE)

    (outcome,) = await rig.apply(a_release(rig, "b-3", to=4))

    assert (outcome.status, outcome.detail) == ("written", "")


async def test_a_refused_release_marks_nobody(rig: Rig) -> None:
    rig.notebook.acknowledges = False

    await rig.apply(a_release(rig, "b-3", to=4))

    assert rig.writes == []


async def test_a_raise_marks_nobody(rig: Rig) -> None:
    target = rig.show("b", pods=rig.target("b").pods[:4], replicas=4)
    rig.store.put(deployment("b", 4))

    (outcome,) = await rig.apply(change(target, 5, victims=("uid-b-3",), victim_names=("b-3",)))

    assert outcome.status == "written"
    assert rig.written_objects == ["b"]


async def test_a_pod_marked_already_is_not_patched_again(rig: Rig) -> None:
    target = rig.target("b")
    rig.show(
        "b", pods=tuple(replace(each, deletion_cost=-1000) if each.name == "b-3" else each for each in target.pods)
    )

    await rig.apply(a_release(rig, "b-3", to=4))

    assert rig.written_objects == ["b"]


@pytest.mark.parametrize(("marked", "first"), [(None, -1000), (-5, -1000), (-1000, -1002), (-(2**31), -(2**31))])
def test_victims_cost_less_than_any_pod_that_stays(marked: int | None, first: int) -> None:
    pods = (a_pod("p-0", deletion_cost=marked), a_pod("p-1"), a_pod("p-2"))
    release = change(
        a_target("b", pods=pods, replicas=3), 1, victims=("uid-p-1", "uid-p-2"), victim_names=("p-1", "p-2")
    )

    assert costs(release) == [first, first + 1]

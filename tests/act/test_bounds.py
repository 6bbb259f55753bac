"""Minimum and maximum of autoscalers: one patch, originals saved once, KEDA not disturbed without need."""

from typing import Any

import msgspec
import pytest

from rebalancer.act.hpa import HPA
from rebalancer.domain.autoscalers import Originals
from rebalancer.domain.snapshot import TargetView
from rebalancer.sandbox.api.resources import HPAS, SCALEDOBJECTS
from tests.act.rig import OURS, Rig, change, hpa, refused, scaled_object
from tests.builders import an_autoscaler

ORIGINALS = "rebalancer.io/originals"


def owned(rig: Rig, minimum: int = 2, maximum: int = 9, **fields: object) -> TargetView:
    """The target of b, which ScaledObject b owns."""
    return rig.show("b", autoscaler=an_autoscaler(minimum, maximum, **fields))


def originals(rig: Rig) -> object:
    return msgspec.json.decode(rig.object(SCALEDOBJECTS, "b")["metadata"]["annotations"][ORIGINALS])


async def test_min_max_and_the_originals_go_in_one_patch(rig: Rig) -> None:
    rig.store.put(scaled_object("b", 2, 9))

    (outcome,) = await rig.apply(change(owned(rig), 5, kind="bounds", minimum=3))

    assert outcome.status == "written"
    assert rig.bounds("b") == (3, 5)
    assert originals(rig) == {"min": 2, "max": 9, "by": OURS}
    (entry,) = rig.writes
    assert (entry.verb, sorted(entry.body["spec"])) == ("patch", ["maxReplicaCount", "minReplicaCount"])
    assert entry.body["metadata"]["resourceVersion"]
    assert rig.written == [("b", 5)]


async def test_the_intent_tells_the_minimum_too(rig: Rig) -> None:
    rig.store.put(scaled_object("b", 2, 9))

    await rig.apply(change(owned(rig), 5, kind="bounds", minimum=3))

    (intent,) = rig.notebook.intents
    assert (intent.minimum_from, intent.minimum_to) == (2, 3)


@pytest.mark.parametrize(("own", "minimum"), [(0, 0), (1, 1), (None, 1)])
def test_an_hpa_gets_a_minimum_of_0_where_its_own_is_0_alone_and_never_a_maximum_of_0(
    own: int | None, minimum: int
) -> None:
    view = an_autoscaler(1, 1, kind="HorizontalPodAutoscaler", originals=Originals(own, 4))
    assert HPA.wanted(view, 0, 0) == (minimum, 1)


async def test_bounds_that_were_absent_are_saved_as_null(rig: Rig) -> None:
    rig.store.put(scaled_object("b", None, None))

    (outcome,) = await rig.apply(change(owned(rig, 0, 100), 5, kind="bounds", minimum=3))

    assert outcome.status == "written"
    assert originals(rig) == {"min": None, "max": None, "by": OURS}


async def test_originals_are_saved_once(rig: Rig) -> None:
    rig.store.put(scaled_object("b", 2, 9))
    gate = rig.gate()
    target = owned(rig)
    await rig.apply_by(gate, change(target, 5, kind="bounds", minimum=5))
    target = owned(rig, 5, 5, originals=Originals(2, 9))

    (outcome,) = await rig.apply_by(gate, change(target, 4, minimum=4))

    assert outcome.status == "written"
    assert rig.bounds("b") == (4, 4)
    assert originals(rig) == {"min": 2, "max": 9, "by": OURS}


async def test_another_installations_object_is_refused_and_named(rig: Rig) -> None:
    rig.store.put(scaled_object("b", 2, 9, annotations={ORIGINALS: '{"min":1,"max":20,"by":"search/rebalancer"}'}))

    (outcome,) = await rig.apply(change(owned(rig), 5, kind="bounds", minimum=3))

    assert refused(outcome, "installation")
    assert "held by installation search/rebalancer" in outcome.detail
    assert rig.writes == []


async def test_what_an_older_version_saved_without_a_name_gets_ours_with_the_next_write(rig: Rig) -> None:
    rig.store.put(scaled_object("b", 5, 5, annotations={ORIGINALS: '{"min":2,"max":9}'}))

    (outcome,) = await rig.apply(change(owned(rig, 5, 5, originals=Originals(2, 9)), 4, minimum=4))

    assert outcome.status == "written"
    assert originals(rig) == {"min": 2, "max": 9, "by": OURS}


async def test_what_is_so_already_is_neither_patched_nor_said_to_be_written(rig: Rig) -> None:
    rig.store.put(scaled_object("b", 3, 5, annotations={ORIGINALS: '{"min":2,"max":9}'}))

    (outcome,) = await rig.apply(change(owned(rig, 3, 5, originals=Originals(2, 9)), 5, kind="bounds", minimum=3))

    assert (outcome.status, outcome.detail[:5]) == ("refused", "done:")
    assert rig.writes == []


async def test_an_object_is_patched_at_most_once_in_ten_seconds(rig: Rig) -> None:
    rig.store.put(scaled_object("b", 2, 9))
    gate = rig.gate()
    await rig.apply_by(gate, change(owned(rig), 4, kind="bounds", minimum=3))
    rig.show("b", replicas=4, pods=rig.target("b").pods[:4])
    raised = change(owned(rig, 3, 4, originals=Originals(2, 9)), 5, kind="grant", minimum=3)

    rig.clock.passed += 9.9
    (soon,) = await rig.apply_by(gate, raised)
    rig.clock.passed += 0.2
    (later,) = await rig.apply_by(gate, raised)

    assert (soon.status, soon.detail[:8]) == ("refused", "too-soon")
    assert later.status == "written"
    assert len(rig.writes) == 2


async def test_what_a_shift_has_freed_is_granted_at_once_but_no_object_is_patched_twice_in_100_ms(rig: Rig) -> None:
    rig.store.put(scaled_object("b", 2, 9))
    gate = rig.gate()
    await rig.apply_by(gate, change(owned(rig), 4, kind="grant", minimum=3, shift="s6-b-a100"))
    rig.show("b", replicas=4, pods=rig.target("b").pods[:4])
    raised = change(owned(rig, 3, 4, originals=Originals(2, 9)), 5, kind="grant", minimum=3, shift="s6-b-a100")

    rig.clock.passed += 0.05
    (soon,) = await rig.apply_by(gate, raised)
    rig.clock.passed += 0.06
    (later,) = await rig.apply_by(gate, raised)

    assert soon.detail == "too-soon: patched less than 0.1 s ago, wait another 0.1 s"
    assert later.status == "written"
    assert rig.bounds("b") == (3, 5)


@pytest.mark.parametrize(
    ("to", "fields"),
    [
        (4, {"kind": "release"}),
        (5, {"kind": "bounds", "passes": "override pin-b"}),
        (4, {"kind": "settle", "passes": "drain"}),
    ],
    ids=["release", "override", "drain"],
)
async def test_a_release_an_override_and_a_drain_follow_at_once(rig: Rig, to: int, fields: dict[str, Any]) -> None:
    rig.store.put(scaled_object("b", 2, 9))
    gate = rig.gate()
    await rig.apply_by(gate, change(owned(rig), 5, kind="bounds", minimum=3))

    (outcome,) = await rig.apply_by(gate, change(owned(rig, 3, 5, originals=Originals(2, 9)), to, minimum=2, **fields))

    assert outcome.status == "written"
    assert rig.bounds("b") == (2, to)


async def test_a_conflict_does_not_count_as_a_patch(rig: Rig) -> None:
    rig.store.put(scaled_object("b", 2, 9))
    gate = rig.gate()
    rig.server.faults.fail_next(3, 409, method="PATCH")

    (conflict,) = await rig.apply_by(gate, change(owned(rig), 5, kind="bounds", minimum=3))
    (outcome,) = await rig.apply_by(gate, change(owned(rig), 5, kind="bounds", minimum=3))

    assert conflict.detail.startswith("conflict")
    assert outcome.status == "written"


async def test_our_own_bounds_that_no_watch_has_shown_yet_are_what_the_plan_saw(rig: Rig) -> None:
    rig.store.put(scaled_object("b", 2, 9))
    gate = rig.gate()
    await rig.apply_by(gate, change(owned(rig), 5, kind="bounds", minimum=3))
    rig.clock.passed += 5.0

    (outcome,) = await rig.apply_by(gate, change(owned(rig), 4, minimum=3))  # shows 2..9 still, asked 5

    assert outcome.status == "written"
    assert rig.bounds("b") == (3, 4)


async def test_bounds_that_somebody_changed_are_decided_anew(rig: Rig) -> None:
    rig.store.put(scaled_object("b", 2, 12))

    (outcome,) = await rig.apply(change(owned(rig), 5, kind="bounds", minimum=3))

    assert outcome.detail == "moved: scaledobject/serving/b has bounds 2..12, the plan saw 2..9"
    assert rig.writes == []


@pytest.mark.parametrize(
    "annotations",
    [
        {"autoscaling.keda.sh/paused": "true"},
        {"autoscaling.keda.sh/paused": "yes please"},
        {"autoscaling.keda.sh/paused-replicas": "0", "autoscaling.keda.sh/paused": "false"},
    ],
)
async def test_a_paused_scaled_object_is_not_written(rig: Rig, annotations: dict[str, str]) -> None:
    rig.store.put(scaled_object("b", 2, 9, annotations=annotations))

    (outcome,) = await rig.apply(change(owned(rig), 5, kind="bounds", minimum=3))

    assert (outcome.status, outcome.detail.split(":")[0]) == ("refused", "paused")
    assert rig.writes == []


async def test_a_scaled_object_paused_false_is_written(rig: Rig) -> None:
    rig.store.put(scaled_object("b", 2, 9, annotations={"autoscaling.keda.sh/paused": "False"}))

    (outcome,) = await rig.apply(change(owned(rig), 5, kind="bounds", minimum=3))

    assert outcome.status == "written"


async def test_bounds_of_a_target_seen_paused_are_refused_and_scale_is_not_touched(rig: Rig) -> None:
    (outcome,) = await rig.apply(change(owned(rig, paused=True), 4))

    assert (outcome.status, outcome.detail.split(":")[0]) == ("refused", "paused")
    assert rig.writes == []


async def test_a_scaled_object_made_again_is_not_written(rig: Rig) -> None:
    rig.store.put(scaled_object("b", 2, 9, uid="another"))

    (outcome,) = await rig.apply(change(owned(rig), 5, kind="bounds", minimum=3))

    assert outcome.detail.startswith("recreated")


@pytest.mark.parametrize("kind", ["", None])
async def test_a_scaled_object_that_leaves_its_kind_empty_scales_a_deployment(rig: Rig, kind: str | None) -> None:
    obj = scaled_object("b", 2, 9)
    obj["spec"]["scaleTargetRef"]["kind"] = kind
    rig.store.put(obj)
    (outcome,) = await rig.apply(change(owned(rig), 5, kind="bounds", minimum=3))
    assert outcome.status == "written", outcome.detail


@pytest.mark.parametrize("scales", ["Deployment c", "StatefulSet b"])
async def test_a_scaled_object_that_scales_something_else_now_is_not_written(rig: Rig, scales: str) -> None:
    other = scaled_object("b", 2, 9)
    other["spec"]["scaleTargetRef"] = dict(zip(("kind", "name"), scales.split(), strict=True))
    rig.store.put(other)

    (outcome,) = await rig.apply(change(owned(rig), 5, kind="bounds", minimum=3))

    assert outcome.detail == f"foreign: scaledobject/serving/b scales {scales} now, not Deployment b"


async def test_a_maximum_is_at_least_one(rig: Rig) -> None:
    rig.policy = rig.policy.model_copy(
        update={"models": tuple(model.model_copy(update={"min_replicas": 0}) for model in rig.policy.models)}
    )
    rig.store.put(scaled_object("b", 0, 5))

    (outcome,) = await rig.apply(change(owned(rig, 0, 5, originals=Originals(0, 5)), 0, minimum=0))

    assert outcome.status == "written"
    assert rig.bounds("b") == (0, 1)
    assert rig.written == [("b", 1)]


async def test_a_minimum_above_the_maximum_is_refused(rig: Rig) -> None:
    rig.store.put(scaled_object("b", 2, 9))

    (outcome,) = await rig.apply(change(owned(rig), 4, minimum=5))

    assert outcome.detail == "bounds: minimum 5 is above maximum 4"


async def test_originals_that_cannot_be_read_are_not_overwritten(rig: Rig) -> None:
    rig.store.put(scaled_object("b", 2, 9, annotations={ORIGINALS: "{min: 2}"}))

    (outcome,) = await rig.apply(change(owned(rig), 5, kind="bounds", minimum=3))

    assert (outcome.status, outcome.detail.split(":")[0]) == ("refused", "originals")
    assert rig.writes == []


async def test_a_lost_reply_to_a_patch_is_read_back(rig: Rig) -> None:
    rig.store.put(scaled_object("b", 2, 9))
    rig.server.faults.lose_next_replies(1, method="PATCH")

    (outcome,) = await rig.apply(change(owned(rig), 5, kind="bounds", minimum=3))

    assert outcome.status == "written"
    assert len(rig.writes) == 1


# --- HPAs of their own


def with_hpa(rig: Rig, low: int | None = 2, high: int = 9, **metadata: object) -> TargetView:
    rig.store.put(hpa("b", low, high, **metadata))
    return owned(rig, 1 if low is None else low, high, kind="HorizontalPodAutoscaler", uid="uid-hpa-b")


async def test_an_hpa_of_its_own_gets_bounds_and_keeps_its_originals(rig: Rig) -> None:
    (outcome,) = await rig.apply(change(with_hpa(rig, low=None), 5, kind="bounds", minimum=3))

    stored = rig.object(HPAS, "b")
    assert outcome.status == "written"
    assert (stored["spec"]["minReplicas"], stored["spec"]["maxReplicas"]) == (3, 5)
    assert msgspec.json.decode(stored["metadata"]["annotations"][ORIGINALS]) == {"min": None, "max": 9, "by": OURS}


BEHAVIOR = {
    "scaleUp": {"stabilizationWindowSeconds": 0, "tolerance": "50m", "selectPolicy": "Max"},
    "scaleDown": {"tolerance": "0.2", "policies": [{"type": "Percent", "value": 10, "periodSeconds": 60}]},
}


@pytest.mark.parametrize("kind", ["HorizontalPodAutoscaler", "ScaledObject"])
async def test_a_write_leaves_all_of_an_autoscaler_but_its_bounds_byte_equal(rig: Rig, kind: str) -> None:
    own: dict[str, Any] = {"metrics": [{"type": "Resource"}], "behavior": BEHAVIOR}
    stored, resource, keys = hpa("b", 2, 9), HPAS, ("minReplicas", "maxReplicas")
    if kind == "ScaledObject":
        advanced = {"horizontalPodAutoscalerConfig": {"name": "b", "behavior": BEHAVIOR}}
        own = {"advanced": advanced, "cooldownPeriod": 300, "fallback": {"failureThreshold": 3, "replicas": 6}}
        stored, resource, keys = scaled_object("b", 2, 9), SCALEDOBJECTS, ("minReplicaCount", "maxReplicaCount")
    stored["spec"] |= own
    rig.store.put(stored)
    before = rest_of(rig.object(resource, "b"), keys)

    target = owned(rig, 2, 9, kind=kind, uid=stored["metadata"]["uid"])
    (outcome,) = await rig.apply(change(target, 5, kind="bounds", minimum=3))

    assert outcome.status == "written"
    assert rest_of(rig.object(resource, "b"), keys) == before


def rest_of(obj: dict[str, Any], keys: tuple[str, ...]) -> bytes:
    """The spec without `keys`, in bytes."""
    return msgspec.json.encode({key: value for key, value in obj["spec"].items() if key not in keys})


async def test_an_hpas_minimum_is_at_least_one(rig: Rig) -> None:
    rig.policy = rig.policy.model_copy(
        update={"models": tuple(model.model_copy(update={"min_replicas": 0}) for model in rig.policy.models)}
    )

    (outcome,) = await rig.apply(change(with_hpa(rig), 3, minimum=0))

    assert (outcome.status, outcome.detail) == ("written", "")
    assert rig.object(HPAS, "b")["spec"]["minReplicas"] == 1


async def test_an_hpa_that_keda_owns_is_not_written(rig: Rig) -> None:
    owner = {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "name": "b", "uid": "uid-so-b"}

    (outcome,) = await rig.apply(change(with_hpa(rig, ownerReferences=[owner]), 5, kind="bounds", minimum=3))

    assert outcome.detail == "foreign: HPA b belongs to ScaledObject b"
    assert rig.writes == []


# --- floor and budget in bounds


async def test_a_release_in_bounds_counts_for_the_floor_although_the_hpa_still_shows_the_old_maximum(rig: Rig) -> None:
    rig.store.put(scaled_object("b", 5, 5))
    target = owned(rig, 5, 5, originals=Originals(1, 9))

    (outcome,) = await rig.apply(change(target, 1, minimum=1))

    assert outcome.detail.startswith("floor")


async def test_a_raised_maximum_counts_for_the_budget(rig: Rig) -> None:
    rig.store.put(scaled_object("b", 5, 5))
    target = owned(rig, 5, 5, originals=Originals(1, 9))

    (outcome,) = await rig.apply(change(target, 6, minimum=5))

    assert outcome.detail.startswith("budget")


async def test_taking_an_autoscaler_over_at_what_it_runs_asks_for_no_gpu(rig: Rig) -> None:
    rig.store.put(scaled_object("b", 1, 50))

    (outcome,) = await rig.apply(change(owned(rig, 1, 50), 5, kind="bounds", minimum=5))

    assert outcome.status == "written"

"""7.5 Other actors."""

from tests.faults.row import Group, Row
from tests.faults.scene import SIDE, Scene
from tests.real.people import WHY
from tests.testbed.objects import deployment


async def _scaled_by_hand(scene: Scene) -> None:
    """A person takes a replica of side: it comes back. Taken again within ten minutes it is theirs until they stand up.

    Their word lasts as long as the changes are remembered: no seed leaves one behind that makes the next one's a fight.
    """
    await _takes_a_replica(scene)

    async def corrected() -> bool:
        return (await scene.replicas())["side"] == SIDE

    async def left_to_them() -> bool:
        refusals = (await scene.service.plan())["refusals"]
        return any((each["guard"], each["subject"]) == ("foreign", "side") for each in refusals)

    await scene.until(corrected, "side has its replica back")
    await _takes_a_replica(scene)
    await scene.until(left_to_them, "it is said that side is left to them")
    assert not await corrected()
    word = {"kind": "standUp", "target": {"model": "side"}, "reason": WHY, "forSeconds": 600}
    status, answer = await scene.service.ask("POST", "/v1/overrides", word)
    assert status == 201, answer


async def _takes_a_replica(scene: Scene) -> None:
    await scene.kube.patch("Deployment", "side", {"spec": {"replicas": SIDE - 1}}, scene.namespace, "scale")


async def _descheduled(scene: Scene) -> None:
    """Somebody deletes a pod a second, whosever it is, for ten seconds: nobody is asked for other replicas for it."""
    for _ in range(10):
        pods = await scene.kube.ready_pods(scene.namespace)
        if pods:
            await scene.kube.delete("Pod", scene.chance.choice(pods)["metadata"]["name"], scene.namespace)
        await scene.silent(1.0)


async def _made_again(scene: Scene) -> None:
    """Who gives is deleted and made anew under its name in the middle of the shift."""
    name = scene.needs_little
    replicas = (await scene.replicas())[name]
    await scene.kube.delete("Deployment", name, scene.namespace)
    served = deployment(
        name, scene.namespace, replicas, node_labels=scene.labels, load_seconds=1, end_seconds=1, grace_seconds=5
    )
    await scene.kube.apply(served)


_HPA = "act/test_bounds.py::"
_PAUSED = (
    f"{_HPA}test_a_paused_scaled_object_is_not_written",
    f"{_HPA}test_bounds_of_a_target_seen_paused_are_refused_and_scale_is_not_touched",
    "planning/test_scenarios_bounds.py::TestTakeover::test_a_paused_one_is_not_touched",
)
_QUOTA = (
    "real/test_quotas.py::test_a_full_quota_is_named_with_who_holds_it_nothing_pends_and_what_it_frees_is_asked_for"
)
_GONE = tuple(
    "real/test_keda_gone.py::test_while_keda_is_gone_nothing_is_granted_that_was_not_released"
    f"_and_people_are_told_whom_to_look_for[{seed}]"
    for seed in (1, 2, 3)
)
_FIGHT = "real/test_true_picture.py::test_a_writer_that_reapplies_bounds_every_few_seconds_moves_only_its_own_model"
_HOLDS = "real/test_node_grant.py::test_while_gpus_change_hands_karpenter_may_not_consolidate_their_nodes"

ACTORS = Group(
    "actors",
    "7.5 Other actors",
    (
        Row("X01", "ScaledObject patched by GitOps", "at most two fights", elsewhere=(_FIGHT,)),
        Row("X02", "kubectl scale by a person", "corrected, and told", _scaled_by_hand,
            "a second time within ten minutes, too: left to them, told, and corrected after stand-up", fast=True),
        Row("X03", "HPA with a minimum above its maximum", "refused",
            elsewhere=(f"{_HPA}test_a_minimum_above_the_maximum_is_refused",)),
        Row("X04", "paused annotation appears", "neither bounds nor replicas are written, and it is told",
            elsewhere=_PAUSED),
        Row("X05", "KEDA gone, its HPA orphaned", "I9, alarm", elsewhere=_GONE,
            as_played="KEDA's operator and adapter killed within 3 s of a shift's begin, thrice; no object is deleted"),
        Row("X06", "Deployment deleted and made anew mid-shift", "shift aborted", _made_again),
        Row("X07", "NodePool limit lowered under use", "I2",
            elsewhere=("act/test_node_pool.py::test_a_limit_is_never_set_under_use",)),
        Row("X08", "Karpenter consolidates the node that is filled", "I7", elsewhere=(_HOLDS,)),
        Row("X09", "descheduler, HPA and we", "stable", _descheduled,
            "a pod deleted each second for 10 s; no HPA beside it, whose part is X01's"),
        Row("X10", "a quota forbids the raise", "what was taken for it goes back", elsewhere=(_QUOTA,)),
    ),
)  # fmt: skip

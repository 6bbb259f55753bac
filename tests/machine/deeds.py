"""All that disturbs a world, by its name.

A deed answers with the pools that it touches, or None when there is nothing that it could hit. What it breaks for a
while it gives back at an instant that it enters into the world's future; `Stage.heal` gives all of it back at once.
"""

from collections.abc import Callable

from msgspec import Struct

from tests.machine.disturbed import inputs, nodes, notices, pods, targets
from tests.machine.disturbed.picking import Touched
from tests.machine.stage import Stage


class Deed(Struct, frozen=True):
    """At which step what happens, to what and how (`x`, `y`).

    `late`: between a plan and its writes, of the first plan from that step on that writes something.
    """

    step: int
    name: str
    x: float
    y: float
    late: bool = False


DEEDS: dict[str, Callable[[Stage, float, float], Touched]] = {
    "traffic changes": inputs.traffic_changes,
    "everybody is busy": inputs.everybody_is_busy,
    "node goes before its pods": nodes.node_goes,
    "node falls silent": nodes.node_falls_silent,
    "device plugin drops": nodes.devices_drop,
    "all device plugins drop": nodes.all_devices_drop,
    "fewer devices": nodes.devices_are_fewer,
    "others take GPUs": nodes.others_take_gpus,
    "pod crashes": pods.pod_crashes,
    "several pods crash": pods.pods_crash,
    "pod fails": pods.pod_fails,
    "pod is stuck loading": pods.pod_sticks,
    "pod hangs in Terminating": pods.pod_clings,
    "rollout": targets.rollout,
    "rollout hangs": targets.rollout_hangs,
    "template changes GPUs": targets.template_changes_gpus,
    "somebody writes once": targets.somebody_writes,
    "numbers are put back": targets.numbers_are_put_back,
    "person says stand-up": targets.person_says_stand_up,
    "another installation holds": targets.another_installation_holds,
    "GitOps writes again and again": targets.gitops_writes,
    "webhook refuses": targets.webhook_refuses,
    "KEDA is paused": targets.keda_is_paused,
    "somebody scales to zero": targets.somebody_scales_to_zero,
    "target is made anew": targets.target_is_made_anew,
    "maintenance weeks ahead": notices.maintenance_weeks_ahead,
    "machine is taken": notices.machine_is_taken,
    "Karpenter drains": notices.karpenter_drains,
    "cloud has none": notices.cloud_has_none,
    "metrics are silent": inputs.metrics_are_silent,
    "sources disagree": inputs.sources_disagree,
    "clock steps": inputs.clock_steps,
    "service restarts": inputs.service_restarts,
    "Kafka is away": inputs.kafka_is_away,
    "policy is reloaded": inputs.policy_is_reloaded,
}
# What may happen between a plan and its writes.
LATE = (
    "pod crashes",
    "several pods crash",
    "pod fails",
    "pod is stuck loading",
    "node goes before its pods",
    "others take GPUs",
    "somebody writes once",
    "policy is reloaded",
)
# Of these a pool that shares nothing with what they hit must notice nothing at all.
APART = tuple(name for name in DEEDS if name not in {"clock steps", "service restarts", "Kafka is away"})

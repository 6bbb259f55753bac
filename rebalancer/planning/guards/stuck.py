"""Targets that are left alone for what they are, not for what is asked of them: each reason in a sentence.

A target whose pods ask for other numbers of GPUs than the policy says is refused with these numbers: whatever moves
there would free or take GPUs that nobody counts. One whose autoscaler sleeps is out of reach of any bounds.
"""

from collections.abc import Iterator

from rebalancer.domain.arithmetic import gpus_differ, unreachable
from rebalancer.domain.plan import Refusal
from rebalancer.planning.facts.scene import Scene, TargetFacts
from rebalancer.planning.shares.share import ModelShare

_SENTENCES = {
    "missing": "does not exist",
    "paused": "is paused by an override",
    "rollout": "is in the middle of a rollout",
    "autoscaler-paused": "has an autoscaler that is paused",
}


def sentence(target: TargetFacts, model: ModelShare) -> str:
    """Why the target is neither donor nor recipient: `deployment chat in pool a100 is in the middle of a rollout`."""
    view = target.view
    what = f"{view.kind.lower()} {view.name} in pool {target.pool}"
    if target.stuck == "gpus":
        return f"{what}: {gpus_differ(view, model.entry.gpus_per_pod, model.entry.pods_per_replica)}"
    if target.stuck == "victims" and view.victims:
        return f"{what} is only read: its pods have no numbers of their own, and the highest would go"
    if target.stuck == "victims":
        return f"{what} is only read: the policy's `victims` of the target does not say who goes at a decrease"
    if target.stuck == "idle":
        return f"{what}: {unreachable(view)}"
    if target.stuck == "foreign":
        return f"{what} is written by somebody else"
    return f"{what} {_SENTENCES.get(target.stuck or '', target.stuck)}"


def refusals(scene: Scene[ModelShare]) -> Iterator[Refusal]:
    """A refusal by the guard `gpus` for each target whose GPUs differ between policy, template and pods."""
    for model in scene.models.values():
        for target in model.targets:
            if target.stuck == "gpus":
                yield _refusal(target, model)


def _refusal(target: TargetFacts, model: ModelShare) -> Refusal:
    view = target.view
    return Refusal(
        guard="gpus",
        subject=model.entry.id,
        replicas_from=model.staying_replicas,
        replicas_to=model.staying_replicas if model.demand.unknown else model.demand.replicas,
        why=sentence(target, model),
        numbers={
            "policy": model.entry.gpus_per_pod,
            "template": view.gpus_per_pod,
            "pods": view.running_gpus,
            "counted": target.gpus,
        },
    )

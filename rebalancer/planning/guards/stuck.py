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


def sentence(part: TargetFacts, model: ModelShare) -> str:
    """Why the part is neither donor nor recipient: `deployment chat in pool a100 is in the middle of a rollout`."""
    target = part.view
    what = f"{target.kind.lower()} {target.name} in pool {part.pool}"
    if part.stuck == "gpus":
        return f"{what}: {gpus_differ(target, model.entry.gpus_per_pod)}"
    if part.stuck == "idle":
        return f"{what}: {unreachable(target)}"
    if part.stuck == "foreign":
        return f"{what} is written by somebody else"
    return f"{what} {_SENTENCES.get(part.stuck or '', part.stuck)}"


def refusals(scene: Scene[ModelShare]) -> Iterator[Refusal]:
    """One per target whose GPUs differ: guard `gpus`."""
    for model in scene.models.values():
        for target in model.targets:
            if target.stuck == "gpus":
                yield _refusal(target, model)


def _refusal(part: TargetFacts, model: ModelShare) -> Refusal:
    target = part.view
    return Refusal(
        guard="gpus",
        subject=model.entry.id,
        replicas_from=model.staying_replicas,
        replicas_to=model.staying_replicas if model.demand.unknown else model.demand.replicas,
        why=sentence(part, model),
        numbers={
            "policy": model.entry.gpus_per_pod,
            "template": target.gpus_per_pod,
            "pods": target.running_gpus,
            "counted": part.gpus,
        },
    )

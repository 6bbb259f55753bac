"""Targets that are left alone for what they are, not for what is asked of them: each reason in a sentence.

A target whose pods ask for other numbers of GPUs than the policy says is refused with these numbers: whatever moves
there would free or take GPUs that nobody counts. One whose autoscaler sleeps is out of reach of any bounds.
"""

from collections.abc import Iterator

from rebalancer.domain.arithmetic import gpus_differ, unreachable
from rebalancer.domain.owners import refusing
from rebalancer.domain.plan import Refusal
from rebalancer.domain.target_kinds import UNSAID
from rebalancer.planning.facts.scene import Scene, TargetFacts
from rebalancer.planning.shares.share import ModelShare

Numbers = dict[str, float | int | str | None]

_SENTENCES = {
    "missing": "does not exist",
    "paused": "is paused by an override",
    "foreign": "is written by somebody else",
    "rollout": "is in the middle of a rollout",
    "autoscaler-paused": "has a paused ScaledObject, for which KEDA keeps no HPA, so bounds reach nobody; remove its"
    " annotation `autoscaling.keda.sh/paused` or `paused-replicas`, or set `actuation: scale`",
}

_NUMBERLESS = "its pods have no numbers of their own, and the highest would go"


def sentence(target: TargetFacts, model: ModelShare) -> str:
    """Why the target is neither donor nor recipient: `deployment chat in pool a100 is in the middle of a rollout`."""
    view = target.view
    what = f"{view.kind.lower()} {view.name} in pool {target.pool}"
    if target.stuck == "gpus":
        return f"{what}: {gpus_differ(view, model.entry.gpus_per_pod, model.entry.pods_per_replica)}"
    if target.stuck == "victims":
        return f"{what} is only read: {_NUMBERLESS if view.victims else UNSAID}"
    if target.stuck == "owner":
        return str(refusing(view))
    if target.stuck == "idle":
        return f"{what}: {unreachable(view)}"
    return f"{what} {_SENTENCES.get(target.stuck or '', target.stuck)}"


def refusals(scene: Scene[ModelShare]) -> Iterator[Refusal]:
    """A refusal for each target whose GPUs differ between policy, template and pods, or whose number is not ours.

    By the guard `gpus`, and by the guard `owner`: that one also names a ScaledObject that somebody paused.
    """
    for model in scene.models.values():
        for target in model.targets:
            if target.stuck == "gpus":
                yield _refusal("gpus", target, model, _gpus(target, model))
            elif target.stuck == "owner":
                claim = refusing(target.view)
                yield _refusal("owner", target, model, {"by": claim.by if claim is not None else None})
            elif target.stuck == "autoscaler-paused" and target.view.autoscaler is not None:
                yield _refusal("owner", target, model, {"by": target.view.autoscaler.name})


def _refusal(guard: str, target: TargetFacts, model: ModelShare, numbers: Numbers) -> Refusal:
    replicas = model.staying_replicas
    wanted = replicas if model.demand.unknown else model.demand.replicas
    return Refusal(guard, model.entry.id, replicas, wanted, sentence(target, model), numbers)


def _gpus(target: TargetFacts, model: ModelShare) -> Numbers:
    view = target.view
    return {
        "policy": model.entry.gpus_per_pod,
        "template": view.gpus_per_pod,
        "pods": view.running_gpus,
        "counted": target.gpus,
    }

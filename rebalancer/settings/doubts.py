"""What is allowed in a policy and does less than its author may believe: no reason to refuse it."""

from collections.abc import Collection, Iterator
from typing import NamedTuple

from rebalancer.domain.placement import place_of
from rebalancer.domain.policy import Model, Policy, Pool
from rebalancer.domain.target_kinds import UNSAID
from rebalancer.domain.words import counted, replicas
from rebalancer.settings.document import Path
from rebalancer.settings.problem import Problem, show
from rebalancer.settings.problems import CheckedText


def warnings_of(checked: CheckedText, name: str, own_topics: Collection[str]) -> tuple[Problem, ...]:
    """The warnings about a good file `name` in order of its lines; none about one that has problems.

    `own_topics`: full names of the topics that are the service's own.
    """
    policy, document = checked.policy, checked.document
    if policy is None or document is None:
        return ()
    doubts = (
        *_only_read(policy),
        *_passed_over(policy, own_topics),
        *_floors_above_caps(policy),
        *_caps_on_nothing(policy),
        *_nodes_too_large(policy),
        *_pods_too_large(policy),
    )
    return tuple(
        sorted(
            Problem(document.line(at), document.spell(at), show(value), what, fix=fix, file=name, at=at)
            for at, value, what, fix in doubts
        )
    )


class _Doubt(NamedTuple):
    """A value that does less than it says.

    path: its path, as keys and places in lists.
    value: the value as given.
    what: what is so.
    fix: what to do about it.
    """

    path: Path
    value: object
    what: str
    fix: str


def _only_read(policy: Policy) -> Iterator[_Doubt]:
    """Targets of kinds for which nobody says which replicas end first when their number falls."""
    what = f"it is only read and nothing is written to it: {UNSAID}"
    fix = "add victims: replicaSet (as of a Deployment) or victims: ordinal (the highest number)"
    for place, model in enumerate(policy.models):
        for at, target in enumerate(model.targets):
            if not target.of.victims:
                yield _Doubt(("models", place, "targets", at, "kind"), target.of.kind, what, fix)


def _passed_over(policy: Policy, own_topics: Collection[str]) -> Iterator[_Doubt]:
    """Producers of topics that are the service's own."""
    what = "it is one of our own topics and is read as such, whatever decoder it is given"
    fix = "take the entry out, or let the producer write a topic of its own"
    for place, producer in enumerate(policy.producers):
        if producer.topic in own_topics:
            yield _Doubt(("producers", place, "topic"), producer.topic, what, fix)


def _floors_above_caps(policy: Policy) -> Iterator[_Doubt]:
    """Floors that the model's own caps never let it reach."""
    for place, model in enumerate(policy.models):
        most = _most(model, policy)
        floors: list[tuple[Path, int | None]] = [(("minReplicas",), model.min_replicas)]
        floors += [(("schedules", at, "minReplicas"), one.min_replicas) for at, one in enumerate(model.schedules)]
        for path, floor in floors:
            if most is not None and floor is not None and floor > most:
                what = f"its own caps leave the model {replicas(most)} at most on all its targets together"
                yield _Doubt(("models", place, *path), floor, what, "raise the cap, or add a target that it leaves out")


def _caps(model: Model, pool: Pool) -> dict[tuple[str, ...], int]:
    """What the model's caps allow it in this pool, by what each is counted over."""
    kind = place_of(pool.node_labels)
    caps = {
        ("elasticReplicas",): model.elastic_replicas if pool.kind == "elastic" else None,
        ("spotReplicas",): model.spot_replicas if pool.capacity_type == "spot" else None,
        ("placeReplicas", *kind): model.place_replicas if any(kind) else None,
    }
    return {over: most for over, most in caps.items() if most is not None}


def _capped(model: Model, policy: Policy) -> list[dict[tuple[str, ...], int]]:
    pools = {pool.name: pool for pool in policy.pools}
    return [_caps(model, pools[target.pool]) for target in model.targets]


def _most(model: Model, policy: Policy) -> int | None:
    """Replicas that the caps leave on all targets together; None where one of them has no cap."""
    caps = _capped(model, policy)
    if not all(caps):
        return None
    shared = [most for over, most in caps[0].items() if all(over in each for each in caps)]
    apart = dict(min(each.items(), key=lambda cap: cap[1]) for each in caps)
    return min(*shared, sum(apart.values())) if shared else sum(apart.values())


def _caps_on_nothing(policy: Policy) -> Iterator[_Doubt]:
    """Caps over pools of which the model has none."""
    for place, model in enumerate(policy.models):
        at_work = {over[0] for each in _capped(model, policy) for over in each}
        for key, value, pools in (
            ("elasticReplicas", model.elastic_replicas, "is elastic"),
            ("spotReplicas", model.spot_replicas, "has capacityType: spot"),
            ("placeReplicas", model.place_replicas, "names an instance type or zone in its nodeLabels"),
        ):
            if value is not None and key not in at_work:
                what = f"it caps nothing: no pool of the model's targets {pools}"
                yield _Doubt(("models", place, key), value, what, f"leave {key} out, or mend the pool")


def _nodes_too_large(policy: Policy) -> Iterator[_Doubt]:
    """Pools that may not have the GPUs of one node."""
    for place, pool in enumerate(policy.pools):
        if pool.brings_nodes and 0 < pool.gpu_limit < pool.gpus_per_node:
            what = f"no node is ever asked for: one has more GPUs than gpuLimit, which is {pool.gpu_limit}"
            yield _Doubt(("pools", place, "gpusPerNode"), pool.gpus_per_node, what, "raise gpuLimit, or correct it")


def _pods_too_large(policy: Policy) -> Iterator[_Doubt]:
    """Models for which no node is asked in a pool of theirs, since a pod of theirs would not fit on it."""
    nodes = {pool.name: pool.gpus_per_node for pool in policy.pools if pool.brings_nodes}
    for place, model in enumerate(policy.models):
        for pool in dict.fromkeys(target.pool for target in model.targets):
            if pool in nodes and model.gpus_per_pod > nodes[pool]:
                pod = f"a pod of {counted(model.gpus_per_pod, 'GPU')}"
                what = f"{pod} fits on no node that is added to pool {pool}: they have {nodes[pool]}"
                fix = f"correct pools.{pool}.gpusPerNode (1 where none is said), or gpusPerReplica"
                yield _Doubt(("models", place, "gpusPerReplica"), model.gpus_per_replica, what, fix)

"""Sums of replicas and GPUs on which planning and the gate must agree: asked, doomed, promised, budget.

The formulas are those of the design's section 1. All are whole numbers over one snapshot's views. Nothing here decides.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from math import inf
from typing import NamedTuple

from msgspec import UNSET

from rebalancer.domain.memory import NodeGrant
from rebalancer.domain.node_rules import NodeRules
from rebalancer.domain.part import MOST_REPLICAS
from rebalancer.domain.policy import Pool
from rebalancer.domain.pool_view import NodeView, PoolView
from rebalancer.domain.snapshot import AutoscalerView, ModelView, NoticeView, PodView, Snapshot, TargetView
from rebalancer.domain.words import counted, gpus


def converging(target: TargetView) -> int:
    """Replicas that the target will come to without another write: the last number of ours, shown by the HPA or not.

    A maximum that somebody else wrote is no promise of ours: 100 of it are not 100 replicas, so the replicas in the
    target's spec count instead, and a minimum above them, whoever wrote it: an autoscaler that acts raises to that for
    certain, within 15 s. Of one that is asleep at 0 replicas no bound reaches anybody. One that follows our answer
    comes to that, within its own bounds. No more than a policy could allow: of a minimum of 2,147,483,647, which
    Kubernetes takes, a plan that looks at each replica would ask for 16 GiB.
    """
    return min(_heading_for(target), MOST_REPLICAS)


def _heading_for(target: TargetView) -> int:
    autoscaler = target.autoscaler
    if target.unconfirmed_replicas is not None:
        return target.unconfirmed_replicas
    if autoscaler is not None and target.metric is not UNSET and target.by_metric:
        wanted = target.replicas if target.metric.desired is None else target.metric.desired
        return min(max(wanted, autoscaler.minimum), autoscaler.maximum)
    if autoscaler is None or autoscaler.paused or asleep(target) is not None:
        return target.replicas
    if autoscaler.originals is None or target.by_others:
        return max(target.replicas, autoscaler.minimum)
    return autoscaler.maximum


def asleep(target: TargetView) -> str | None:
    """Why the target's autoscaler does nothing at the replicas there are, None where it acts.

    KEDA keeps a ScaledObject at its idleReplicaCount while no trigger is active, and one with a minimum of 0 at 0. An
    HPA is disabled while its target has 0 replicas. From Kubernetes 1.37 on one that took it there itself acts: by its
    metric, or by a minimum above 0. Before that one whose minimum is 0 does (HPAScaleToZero), for as long as it is 0.
    One that follows our answer wakes by any number above 0.
    """
    autoscaler = target.autoscaler
    if autoscaler is None or autoscaler.paused or target.missing or target.by_metric:
        return None
    what = f"{autoscaler.kind} {autoscaler.name}"
    if autoscaler.idle is not None and target.replicas <= autoscaler.idle < autoscaler.minimum:
        return f"KEDA holds {what} at its idleReplicaCount {autoscaler.idle} until a trigger is active"
    if target.replicas > 0:
        return None
    if autoscaler.kind == "HorizontalPodAutoscaler":
        return _asleep_by_hpa(target.name, autoscaler)
    return f"KEDA keeps {what} at 0 until a trigger is active" if autoscaler.minimum == 0 else None


def _asleep_by_hpa(target: str, hpa: AutoscalerView) -> str | None:
    what = f"{hpa.kind} {hpa.name}"
    if hpa.wakes:
        return f"{what} took {target} to 0 and keeps it there by its own metric" if hpa.minimum == 0 else None
    if hpa.minimum == 0 and hpa.wakes is None:
        return f"{what} keeps {target} at 0 by its own metric; a minimum above 0 would disable it there"
    return f"{what} is disabled while {target} has 0 replicas; scale it to 1 by hand"


def unreachable(target: TargetView) -> str | None:
    """Why no bounds of ours reach the target, None where they do.

    A minimum above 0 wakes KEDA, and an HPA that took its target to 0 itself (Kubernetes 1.37).
    """
    autoscaler = target.autoscaler
    if autoscaler is None:
        return None
    by_minimum = autoscaler.idle is None if autoscaler.kind == "ScaledObject" else autoscaler.wakes is True
    return None if by_minimum else asleep(target)


def peak_replicas(target: TargetView) -> int:
    """The most replicas that the target may have on its way to `converging`: this many a budget must count.

    A write under way counts at once. While the HPA still shows the bounds from before, it may take what runs to them.
    """
    autoscaler = target.autoscaler
    if autoscaler is None or autoscaler.paused or asleep(target) is not None:
        return converging(target)
    by_hpa = min(max(target.replicas, autoscaler.effective_minimum), autoscaler.effective_maximum)
    return max(converging(target), by_hpa)


def assured(target: TargetView) -> int:
    """Replicas below which nobody but us takes the target.

    Where an autoscaler chooses: its minimum, as far as it has come. A raise of ours is there once KEDA has passed it to
    the HPA and the HPA, which acts every 15 s, has asked for as many. One that follows our answer chooses nothing.
    """
    autoscaler = target.autoscaler
    if autoscaler is None or autoscaler.paused:
        return converging(target)
    if target.by_metric:
        return min(target.replicas, converging(target))
    return min(autoscaler.minimum, autoscaler.effective_minimum, target.replicas, converging(target))


def bounding(target: TargetView) -> AutoscalerView | None:
    """The autoscaler that chooses the number between bounds; a paused one, or one that follows us, chooses nothing."""
    autoscaler = target.autoscaler
    return autoscaler if autoscaler is not None and not autoscaler.paused and not target.by_metric else None


def least_grant(target: TargetView) -> int:
    """Smallest grant possible: an autoscaler's maximum cannot be 0, and one that follows us stops at its minimum."""
    if target.autoscaler is not None and target.by_metric:
        return target.autoscaler.minimum
    return 0 if bounding(target) is None else 1


def noticed_nodes(notices: Iterable[NoticeView]) -> frozenset[str]:
    """Nodes under notice: nothing new is granted there from the notice on, unless it is not believed."""
    return frozenset(notice.node for notice in notices if not notice.doubted)


def doomed_nodes(
    notices: Iterable[NoticeView], pools: Iterable[PoolView], rules: NodeRules, at: float
) -> frozenset[str]:
    """Nodes whose pods do not count at `at`: their notice has come to its time, or they are out of the budget.

    A notice counts from its `doomed_at` on. A node that has been NotReady for longer than the grace period is out of
    the budget, so what hangs on it, terminating pods included, is out of what is promised as well.
    """
    noticed = (notice.node for notice in notices if notice.counts(at))
    dead = (node.name for view in pools for node in view.nodes if not node_counts(node, at, rules))
    return frozenset((*noticed, *dead))


def doomed_pods(target: TargetView, doomed: Collection[str]) -> tuple[PodView, ...]:
    """Pods on doomed nodes that nobody has deleted yet; a ReplicaSet replaces the deleted ones by itself."""
    if not doomed:
        return ()
    return tuple(pod for pod in target.pods if pod.on(doomed) and pod.phase != "terminating")


def promised_replicas(target: TargetView, doomed: Collection[str], stranded: int = 0) -> int:
    """max(asked - doomed, undoomed non-terminal pods): surge pods and raises not yet seen as pods are both in it.

    `stranded`: surge pods that no node has room for; they can take nothing from anybody.
    """
    on_doomed = len(doomed_pods(target, doomed))
    undoomed = sum(1 for pod in target.pods if not pod.on(doomed)) if doomed else len(target.pods)
    return max(peak_replicas(target) - on_doomed, undoomed - stranded)


def stranded_pods(target: TargetView, doomed: Collection[str], by_policy: int, most_free: int) -> int:
    """Pods beyond its replicas that a rollout asks for and that fit on no node: while they wait others may be promised.

    In a full pool the new pod of a replica of 8 GPUs may wait for ever, and a GPU that comes free is none for it.
    `most_free`: the most GPUs that a node has free. A replica of several pods is not looked at.
    """
    if not target.rolling or target.pods_per_replica > 1 or pod_gpus(target, by_policy) <= most_free:
        return 0
    surge = promised_replicas(target, doomed) - (peak_replicas(target) - len(doomed_pods(target, doomed)))
    return min(surge, sum(1 for pod in target.pods if pod.node is None and pod.phase == "pending"))


def most_free_gpus(view: PoolView, held: Mapping[str, int], noticed: Collection[str]) -> int:
    """The most GPUs that one node which may receive pods has free now. `held`: by our pods, by node."""
    receiving = (node for node in view.nodes if node_receives(node, noticed))
    return max((node.gpus - node.unpreemptible_gpus - held.get(node.name, 0) for node in receiving), default=0)


def pod_gpus(target: TargetView, by_policy: int) -> int:
    """GPUs that one pod of the target counts for in every sum: the most of policy, template and running pods."""
    return max(by_policy, target.gpus_per_pod, target.running_gpus or 0)


def certain_pod_gpus(target: TargetView, by_policy: int) -> int:
    """GPUs that one pod of the target holds for certain, where policy, template and pods differ: what releases rest on.

    A template without any says nothing of pods that run.
    """
    return min(by_policy, target.gpus_per_pod or by_policy, target.running_gpus or by_policy)


def gpus_differ(target: TargetView, by_policy: int, pods: int = 1) -> str | None:
    """How policy, template and pods disagree about the GPUs of a pod, None where they do not.

    `by_policy`: GPUs of a pod, of which one replica has `pods`. A target without a template says nothing of its own.
    """
    shape = target.shape
    if shape is not UNSET and not target.missing:
        if shape.pods != pods:
            return f"{counted(pods, 'pod')} per replica in the policy, {shape.pods} in the template of {target.name}"
        if shape.gpus is not None and shape.gpus != target.gpus_per_pod * shape.pods:
            return f"the {pods} pods of one replica of {target.name} ask for {gpus(shape.gpus)}, not each for as many"
    template = None if shape is not UNSET and shape.gpus is None else target.gpus_per_pod
    figures = {by_policy, template, target.running_gpus} - {None}
    if target.missing or len(figures) == 1:
        return None
    if template is None:
        return f"{gpus(by_policy)} per pod in the policy, the pods of {target.name} hold up to {target.running_gpus}"
    pods_hold = "" if target.running_gpus is None else f", its pods hold up to {target.running_gpus}"
    return f"{gpus(by_policy)} per pod in the policy, {target.gpus_per_pod} in the template of {target.name}{pods_hold}"


def ready_by(pod: PodView, load_seconds: float) -> float:
    """The instant at which a replica should be Ready, if it loads for `load_seconds` once it has its node."""
    return (pod.created_at if pod.placed_at is UNSET else pod.placed_at) + load_seconds


def promised_gpus(
    models: Iterable[ModelView], pool: str, by_policy: Mapping[str, int], doomed: Collection[str], most_free: int
) -> int:
    """GPUs of the pool that our targets already ask for.

    `by_policy`: model id -> GPUs of one of its pods. `most_free`: as `stranded_pods` has it.
    """
    total = 0
    for model in models:
        for target in model.targets:
            if not target.missing and target.pool == pool:
                each = pod_gpus(target, by_policy.get(model.id, 0)) * target.pods_per_replica
                stranded = stranded_pods(target, doomed, by_policy.get(model.id, 0), most_free)
                total += promised_replicas(target, doomed, stranded) * each
    return total


def bound_gpus(
    snapshot: Snapshot,
    by_policy: Mapping[str, int],
    pools: Collection[str],
    of_pod: Callable[[TargetView, int], int] = pod_gpus,
) -> dict[str, int]:
    """GPUs per node that our pods hold there, terminating ones included. `by_policy` as in `promised_gpus`.

    pools: names of those whose targets count: pools of one resource have one stock on a node.
    of_pod: GPUs of one pod, `pod_gpus` or `certain_pod_gpus`, from its target and the policy's figure.
    """
    bound: dict[str, int] = {}
    for model in snapshot.models:
        for target in (each for each in model.targets if each.pool in pools):
            each = of_pod(target, by_policy.get(model.id, 0))
            for pod in target.pods:
                for node in pod.nodes:
                    bound[node] = bound.get(node, 0) + each
    return bound


def node_counts(node: NodeView, at: float, rules: NodeRules) -> bool:
    """Whether a node's GPUs are in the budget: Ready, or NotReady for less than the grace period."""
    if node.ready:
        return True
    return node.ready_changed_at is not None and at - node.ready_changed_at < rules.not_ready_grace_seconds


def node_receives(node: NodeView, noticed: Collection[str]) -> bool:
    """Whether new pods may land on the node at all (taints are the target's business)."""
    return node.ready and node.schedulable and node.name not in noticed


class PoolGpus(NamedTuple):
    """GPUs of one pool.

    budget: GPUs that may be promised.
    most: GPUs that may still be there for all that is known; None where nodes give no certain bound, so that only the
        policy's limit less `foreign` holds.
    foreign: GPUs that pods of no model request, without preemptible ones.
    """

    budget: int
    most: int | None
    foreign: int

    @property
    def certain(self) -> bool:
        """Whether it is known how many GPUs the nodes have."""
        return self.most is not None


def pool_gpus(  # noqa: PLR0913  # each argument is one term of the formula in the design
    pool: Pool,
    view: PoolView,
    grants: Iterable[NodeGrant],
    doomed: Collection[str],
    rules: NodeRules,
    at: float,
    held: Mapping[str, int],
    watched_since: float | None,
) -> PoolGpus:
    """min(policy limit, GPUs of counted, undoomed nodes + grants still without a node) - `PoolGpus.foreign`.

    `held`: GPUs by node that our pods hold for certain (`certain_pod_gpus`). A Ready node has at least the GPUs that
    pods hold there, whatever it says of itself: device plugins restart, and allocatable goes from 8 to 0 under eight
    pods that serve. By the larger of two figures a template of 2 GPUs would double the nodes on which pods of 1 still
    run. What a node says is certain once it has stood for the grace period of a NotReady node, and once we have watched
    for so long.
    """
    nodes = [node for node in view.nodes if node.name not in doomed and node_counts(node, at, rules)]
    there = sum(node_gpus(node, held.get(node.name, 0)) for node in nodes)
    coming = sum(grant.gpus for grant in grants if grant.pool == pool.name)
    foreign = sum(node.unpreemptible_gpus for node in nodes)
    budget = min(pool.gpu_limit, there + coming) - foreign
    fell_at = max((node.fell_at or 0.0 for node in nodes), default=0.0)
    return PoolGpus(budget, budget if fell_at <= certain_until(rules, at, watched_since) else None, foreign)


def certain_until(rules: NodeRules, at: float, watched_since: float | None) -> float:
    """The instant until which a node's figure must have fallen to be certain at `at`, in seconds since the epoch.

    That is the grace period of a NotReady node ago; -inf, so that no figure is, where we have not watched for so long.
    """
    since = at - rules.not_ready_grace_seconds
    return since if (at if watched_since is None else watched_since) <= since else -inf


def node_gpus(node: NodeView, held: int) -> int:
    """GPUs that a node has: on a Ready one at least as many as its pods hold. `held`: by our models' pods there."""
    return max(node.gpus, held + node.foreign_gpus) if node.ready else node.gpus


def uncounted(view: PoolView) -> tuple[str, ...]:
    """Why devices that the pool's nodes offer do not count: `node n1 and 3 more: offers 16 shares ...`, by reason."""
    nodes: dict[str, list[str]] = {}
    for node in view.nodes:
        if node.refused:
            nodes.setdefault(node.refused, []).append(node.name)
    return tuple(
        f"node {names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''}: {why}"
        for why, names in nodes.items()
    )


def unknown_gpus(pool: Pool, view: PoolView) -> str | None:
    """Why the GPUs of a pool in which pods of ours run are unknown, None where they are known."""
    if not view.nodes:
        return f"no node of pool {pool.name} is seen while pods run there"
    if any(node.gpus for node in view.nodes):
        return None
    refused = uncounted(view)
    if refused:
        return f"no node of pool {pool.name} counts while pods run there: {'; '.join(refused)}"
    return (
        f"{len(view.nodes)} nodes of pool {pool.name} offer no {pool.resource} while pods run there: a device plugin"
        " that is away, a renamed resource, or pods that hold GPUs by claims, for which the pool needs a `deviceClass`"
    )

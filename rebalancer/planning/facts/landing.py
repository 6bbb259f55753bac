"""On which nodes the scheduler may put a target's pods, and the reason that it would give where it may put none.

Node selector, tolerations, required affinity and GPU memory, which the scheduler does not know, depend on the node
alone. Host ports, anti-affinity of pods to their own kind, spread constraints and the topology of a group depend on
where the target's other pods stand. Rules about other workloads' pods are left to the scheduler.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import UNSET
from msgspec.structs import replace

from rebalancer.domain.cluster import Taint, Toleration
from rebalancer.domain.placement import HOSTNAME, Placement, Spread
from rebalancer.domain.pool_view import NodeView, PoolView
from rebalancer.domain.words import counted, gpus, listed
from rebalancer.planning.facts.scene import PodPlacement, PoolFacts, TargetFacts

_OF_KUBERNETES = "node.kubernetes.io/"  # as `node.kubernetes.io/unschedulable` on a cordoned node
UNBOUND = 1_000_000_000  # replicas that no distance bounds


def may_land(landing: PodPlacement, node: NodeView) -> bool:
    """Whether such pods may be scheduled on the node, whatever else stands there."""
    return _bar(landing, node) is None


def may_land_once_open(landing: PodPlacement, node: NodeView) -> bool:
    """The same once the node takes pods again: without taints that Kubernetes puts on who is cordoned or broken."""
    taints = tuple(taint for taint in node.taints if not taint.key.startswith(_OF_KUBERNETES))
    return _bar(landing, replace(node, taints=taints)) is None


def fits_nowhere(target: TargetFacts, state: PoolFacts) -> bool:
    """Whether a replica fits into the GPU memory of no node of the pool: then no share there is of use to it."""
    if target.placement.memory is None or not state.view.nodes or state.grows:
        return False
    return not any(may_land(target.placement, node) for node in state.view.nodes)


def apart_in(target: TargetFacts, state: PoolFacts) -> int:
    """Replicas that the nodes of the pool can take as far apart as the template asks; UNBOUND where it asks nothing."""
    placement = target.view.placement
    if state.grows or not (placement.apart or placement.alone):
        return UNBOUND
    nodes = [node for node in state.view.nodes if may_land(target.placement, node)]
    return max(target.staying_replicas, most_apart(placement, nodes))


def eligible(landing: PodPlacement, nodes: Iterable[NodeView]) -> frozenset[str]:
    """Names of the nodes that such a pod may land on by itself."""
    return frozenset(node.name for node in nodes if may_land(landing, node))


def bars(landing: PodPlacement, nodes: Iterable[NodeView]) -> str:
    """Why nodes take no such pods, as the scheduler counts it: `2 by node selector zone=a, 1 by taint batch=true`."""
    counts = Counter(bar for node in nodes if (bar := _bar(landing, node)) is not None)
    return listed([f"{count} by {bar}" for bar, count in sorted(counts.items(), key=lambda each: (-each[1], each[0]))])


def _bar(landing: PodPlacement, node: NodeView) -> str | None:
    """What keeps the pods from the node; None: nothing does."""
    for key, value in landing.selector:
        if node.labels.get(key) != value:
            return f"node selector {key}={value}"
    for taint in node.taints:
        if not _tolerated(taint, landing.tolerations):
            return f"taint {taint.key}={taint.value}" if taint.value else f"taint {taint.key}"
    if landing.terms and not any(term.holds(node.name, node.labels) for term in landing.terms):
        return f"node affinity ({' or '.join(str(term) for term in landing.terms)})"
    if landing.memory is not None and node.memory_gib is not None:
        return landing.memory.lacks(landing.gpus, node.memory_gib) or None
    return None


def _tolerated(taint: Taint, tolerations: tuple[Toleration, ...]) -> bool:
    return taint.effect == "PreferNoSchedule" or any(one.tolerates(taint) for one in tolerations)


def by_a_guess(target: TargetFacts, nodes: Iterable[NodeView]) -> bool:
    """Whether one of these nodes takes its pods only if admission adds what its target is taken to get."""
    guessed = () if target.view.guessed is UNSET else target.view.guessed
    sure = tuple(one for one in target.view.tolerations if one not in guessed)
    return bool(guessed) and not all(_tolerated(taint, sure) for node in nodes for taint in node.taints)


def crowded(
    target: TargetFacts, nodes: Sequence[NodeView], others: Mapping[str, int], beside: Sequence[str] = ()
) -> frozenset[str]:
    """Nodes that one more pod of the target may not join because of its own kind.

    nodes: all of its pool: pods on a node that takes none now keep their distance as well.
    others: how many pods of other replicas are on a node, by its name; names of other nodes count nowhere.
    beside: names of the nodes that pods of the same replica have.
    """
    placement, standing = target.view.placement, Counter(others) + Counter(beside)
    shut: set[str] = set()
    for topology in placement.apart:
        full = _by_domain(topology, nodes, standing)
        shut.update(node.name for node in nodes if full.get(domain_of(topology, node) or "", 0) > 0)
    for spread in placement.spreads:
        inside = [node for node in nodes if _in_spread(spread, target.placement, node)]
        shut.update(_beyond(spread, inside, standing))
    if placement.alone:
        shut.update(_beside_others(placement.alone, nodes, others, beside))
    return frozenset(shut)


def _in_spread(spread: Spread, landing: PodPlacement, node: NodeView) -> bool:
    """Whether the scheduler counts the node's domain: the template chooses it, and taints matter where it says so."""
    chosen = all(node.labels.get(key) == value for key, value in landing.selector)
    chosen = chosen and (not landing.terms or any(term.holds(node.name, node.labels) for term in landing.terms))
    if not spread.heeds_taints:
        return chosen
    bears = all(_tolerated(taint, landing.tolerations) for taint in node.taints)
    return chosen and bears and node.ready and node.schedulable


def needs_words(target: TargetFacts) -> str:
    """`a replica needs 8 GPUs`, or `each of the 2 pods of a replica needs 8 GPUs`."""
    who = "a replica needs" if target.pods == 1 else f"each of the {target.pods} pods of a replica needs"
    return f"{who} {gpus(target.pod_gpus)}"


def distance(placement: Placement) -> str:
    """The distance that the pods keep from their own kind, as words."""
    rules = [f"one pod in each {topology}" for topology in placement.apart]
    rules += [
        f"at most {counted(spread.most_more, 'pod')} more in one {spread.topology} than in another"
        for spread in placement.spreads
    ]
    if placement.alone:
        rules.append(f"one whole replica in each {placement.alone}")
    return f"its template asks for {listed(rules)}"


def _beyond(spread: Spread, nodes: Sequence[NodeView], standing: Mapping[str, int]) -> Iterable[str]:
    counts = _by_domain(spread.topology, nodes, standing)
    fewest = min(counts.values(), default=0)
    for node in nodes:
        domain = domain_of(spread.topology, node)
        if domain is None or counts[domain] + 1 - fewest > spread.most_more:
            yield node.name


def _beside_others(
    topology: str, nodes: Sequence[NodeView], others: Mapping[str, int], beside: Sequence[str]
) -> Iterable[str]:
    """Nodes in a domain that another replica has, or in no domain; once the replica has one, all others, too."""
    taken = _by_domain(topology, nodes, others)
    own = {domain_of(topology, node) for node in nodes if node.name in beside}
    for node in nodes:
        domain = domain_of(topology, node)
        if domain is None or taken[domain] or (own and domain not in own):
            yield node.name


def _by_domain(topology: str, nodes: Iterable[NodeView], standing: Mapping[str, int]) -> Counter[str]:
    """Pods by domain, of every domain that one of the nodes is in."""
    counts: Counter[str] = Counter()
    for node in nodes:
        domain = domain_of(topology, node)
        if domain is not None:
            counts[domain] += standing.get(node.name, 0)
    return counts


def domain_of(topology: str, node: NodeView) -> str | None:
    """The domain of a node: the value of its label; a node's own name where it has no host name label."""
    return node.labels.get(topology, node.name if topology == HOSTNAME else None)


def domains(topology: str, nodes: Iterable[NodeView]) -> dict[str, frozenset[str]]:
    """Names of the nodes in each domain."""
    names: dict[str, set[str]] = {}
    for node in nodes:
        domain = domain_of(topology, node)
        if domain is not None:
            names.setdefault(domain, set()).add(node.name)
    return {domain: frozenset(inside) for domain, inside in names.items()}


def most_apart(placement: Placement, nodes: Collection[NodeView]) -> int:
    """The most replicas that these nodes can have at once by `apart` and `alone`; UNBOUND where both are empty."""
    bounds = [_places(topology, nodes) for topology in placement.apart]
    if placement.alone:
        bounds.append(len(domains(placement.alone, nodes)))
    return min(bounds, default=UNBOUND)


def _places(topology: str, nodes: Collection[NodeView]) -> int:
    """A node without the label is in no domain: nothing keeps pods apart there."""
    domains = [domain_of(topology, node) for node in nodes]
    return UNBOUND if None in domains else len(set(domains))


def silent_nodes(pools: Iterable[PoolView]) -> frozenset[str]:
    """Names of nodes that are there and are not Ready."""
    return frozenset(node.name for pool in pools for node in pool.nodes if not node.ready)

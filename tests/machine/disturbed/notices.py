"""Capacity whose end is announced."""

from rebalancer.domain.events import CapacityNotice
from rebalancer.world import WorldNode
from tests.machine.disturbed.nodes import another, nodes_of, pool_of
from tests.machine.disturbed.picking import Touched, lasting, pick
from tests.machine.scene import Scene

WEEKS = 14 * 86_400.0


def _notice(stage: Scene, node: WorldNode, kind: str, seconds: float, *, cancelled: bool = False) -> None:
    now = stage.world.now
    name = f"{kind}-{node.uid}"
    stage.world.announce(
        CapacityNotice("aws.health", name, now, kind, now + seconds, node=node.name, cancelled=cancelled)
    )


def maintenance_weeks_ahead(stage: Scene, x: float, y: float) -> Touched:
    node = pick(nodes_of(stage), x)
    if node is None:
        return None
    _notice(stage, node, "scheduled-change", WEEKS)
    stage.later(lasting(y, 60.0, 1200.0), lambda: _notice(stage, node, "scheduled-change", WEEKS, cancelled=True))
    return pool_of(node)


def machine_is_taken(stage: Scene, x: float, y: float) -> Touched:
    """A notice, and at its deadline the machine goes; now and then it is taken back before."""
    node = pick(nodes_of(stage), x)
    if node is None or stage.going(node):
        return None
    seconds = 60.0 + 240.0 * y
    if node.node_pool is not None and not stage.world.node_claims[node.name].deleted_at:
        stage.world.interrupt(node.name, stage.world.now + seconds)
        stage.noticed(node, stage.world.now + seconds)
    elif node.node_pool is None:
        _taken(stage, node, seconds, y)
        stage.world.faults.cordon(node)
    return pool_of(node)


def machine_is_taken_undrained(stage: Scene, x: float, y: float) -> Touched:
    """The same where nobody but the service cordons the node, and nobody else takes that back."""
    node = pick([one for one in nodes_of(stage) if one.node_pool is None and not stage.going(one)], x)
    if node is None:
        return None
    _taken(stage, node, 60.0 + 240.0 * y, y, by_us=True)
    return pool_of(node)


def _taken(stage: Scene, node: WorldNode, seconds: float, y: float, *, by_us: bool = False) -> None:
    """`by_us`: the service cordons it, if anybody does."""
    _notice(stage, node, "reservation-interruption", seconds)
    stage.noticed(node, stage.world.now + seconds)
    if y < 0.3:
        stage.later(20.0 + 40.0 * y, lambda: _take_back(stage, node, seconds, by_us=by_us))
    else:
        stage.world.at(stage.world.now + seconds, lambda: stage.world.faults.remove(node))
        stage.world.at(stage.world.now + seconds + 60.0, lambda: another(stage, node))


def _take_back(stage: Scene, node: WorldNode, seconds: float, *, by_us: bool) -> None:
    _notice(stage, node, "reservation-interruption", seconds, cancelled=True)
    if not by_us:
        stage.world.faults.cordon(node, off=True)
    stage.spared(node)


def karpenter_drains(stage: Scene, x: float, y: float) -> Touched:
    """Consolidation or drift: it empties a node, voluntarily."""
    claim = pick([one for one in stage.world.node_claims.values() if one.node is not None and not one.deleted_at], x)
    if claim is None or claim.node is None or claim.node_pool.name not in stage.hit:
        return None
    stage.world.drain(claim.name)
    stage.noticed(claim.node, stage.world.now)
    return pool_of(claim.node)


def cloud_has_none(stage: Scene, x: float, y: float) -> Touched:
    pool = pick(list(stage.world.node_pools.values()), x)
    if pool is None or pool.name not in stage.hit:
        return None
    for name in stage.world.offer(pool.name, 0 if y < 0.5 else len(pool.claims), 120.0):
        stage.noticed(stage.world.nodes[name], stage.world.now + 120.0)
    stage.later(lasting(y, 60.0, 600.0), lambda: stage.world.offer(pool.name, None) and None)
    return frozenset((pool.name,))

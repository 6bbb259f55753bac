"""What is written on Karpenter's NodePools: a limit that lets nodes come, its way back, and the consolidation hold."""

from collections.abc import Collection, Iterable, Iterator

from rebalancer.domain.plan import NodePoolChange
from rebalancer.domain.pool_view import NodePoolView
from rebalancer.domain.quantities import devices
from rebalancer.domain.words import gpus
from rebalancer.planning.facts.limits import needed_limit
from rebalancer.planning.facts.scene import PoolFacts, Scene
from rebalancer.planning.shares.share import ModelShare


def raised_limit(
    scene: Scene[ModelShare], state: PoolFacts, view: NodePoolView, nodes: int, reason: str
) -> NodePoolChange | None:
    """The limit that lets `nodes` more come; None when it is there already, or there is none."""
    wanted = needed_limit(scene.memory.node_grants, state, view, nodes)
    if view.gpu_limit is None or view.gpu_limit >= wanted:
        return None
    return _change(scene, state, view, "limit", wanted, reason)


def restored_limits(scene: Scene[ModelShare], needed: Collection[str]) -> Iterator[NodePoolChange]:
    """Changes of limits that no grant needs back to their saved value, never under use. `needed`: names to leave."""
    for state in scene.pools.values():
        for view in state.view.node_pools:
            saved = _saved_limit(view, state.pool.resource)
            if view.name in needed or saved is None or view.gpu_limit is None or view.gpu_limit <= saved:
                continue
            back = max(saved, view.gpus_used, 0)
            if back < view.gpu_limit:
                own = f"its own {saved}" if back == saved else f"the {gpus(back)} in use, its own is {saved}"
                reason = f"the limit returns to {own}: no node is awaited"
                yield _change(scene, state, view, "restore-limit", back, reason)


def _change(  # noqa: PLR0913  # one thing each
    scene: Scene[ModelShare], state: PoolFacts, view: NodePoolView, kind: str, limit: int, reason: str
) -> NodePoolChange:
    return NodePoolChange(
        id=f"{scene.snapshot.cycle}-{view.name}-{kind.removesuffix('-limit')}",
        kind=kind,
        name=view.name,
        uid=view.uid,
        pool=state.pool.name,
        resource=state.pool.resource,
        reason=reason,
        limit_from=view.gpu_limit,
        limit_to=limit,
    )


def _saved_limit(view: NodePoolView, resource: str) -> int | None:
    own = None if view.saved is None or view.saved.limits is None else view.saved.limits.get(resource)
    try:
        return None if own is None else devices(own)
    except ValueError:
        return None


def holds(scene: Scene[ModelShare], releasing: Iterable[str]) -> Iterator[NodePoolChange]:
    """Changes that keep Karpenter from consolidating nodes from a release to the last granted replica, or let it again.

    `releasing`: pools where this plan releases for somebody.
    """
    moving = {*releasing, *(shift.pool for shift in scene.memory.shifts)}
    for state in scene.pools.values():
        for view in state.view.node_pools:
            wanted = state.pool.name in moving
            if wanted == view.held or view.other or (wanted and view.fixed is not None):
                continue
            yield NodePoolChange(
                id=f"{scene.snapshot.cycle}-{view.name}-{'hold' if wanted else 'end-hold'}",
                kind="hold" if wanted else "end-hold",
                name=view.name,
                uid=view.uid,
                pool=state.pool.name,
                resource=state.pool.resource,
                reason="a shift is under way" if wanted else "no shift is under way",
            )

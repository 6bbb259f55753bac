"""The first page: is it alive and writing, who lacks what, who holds which GPU, what did it do, what comes by itself.

Pure and made in a thread; at 1,000 models and 10,000 GPUs it takes 45 ms to make and spell, and 11 KB packed.
"""

from collections.abc import Iterable
from itertools import islice

from msgspec.structs import replace

from rebalancer.api.pages.attention import attention_items
from rebalancer.api.pages.badges import Badge, badges_of
from rebalancer.api.pages.blockers import Blockers
from rebalancer.api.pages.gpu_tiles import GpuTiles, Seats, counted_states, known_gpus, on_loan
from rebalancer.api.pages.models_table import ModelsQuery, models_table
from rebalancer.api.pages.values.overview import Overview, PoolRow
from rebalancer.api.pages.values.tiles import NodeTiles, Seated
from rebalancer.api.ports.page_data import PageData
from rebalancer.api.ports.status import Status
from rebalancer.api.ports.timeline import TimelineEvent
from rebalancer.api.text.printed import printed
from rebalancer.domain.people import Override
from rebalancer.domain.plan import Plan
from rebalancer.domain.policy import Policy
from rebalancer.domain.pool_view import PoolView
from rebalancer.domain.sync import Sync

MOST_SEATED = 256  # GPUs of a pool; above, tiles stand for nodes and name nobody
MOST_NODES = 512  # of a pool; above, its bar says more than its tiles
MOST_EVENTS = 500  # newest; 30 minutes of a whole fleet in trouble are thousands, and /v1/decisions pages them


def overview(data: PageData, query: ModelsQuery, seats: Seats) -> Overview:
    """The page of `data`; `seats`: who sits on which device (`gpu_tiles.seat`)."""
    status = data.status
    decided = status.plan or Plan(cycle=0, at=0.0)
    blockers = Blockers.of(decided, data.snapshot)
    rows, total = models_table(decided, data.policy, blockers, query, on_loan(data.snapshot, data.loans))
    pools = pool_rows(data, seats)
    return Overview(
        epoch=data.epoch,
        cluster=printed(status.cluster),
        instance=status.instance,
        leader=status.leader,
        write_mode=status.write_mode,
        at=status.at,
        cycle=decided.cycle,
        plan_at=status.plan.at if status.plan else None,
        sync=status.sync,
        writes_stopped=printed(status.writes_stopped),
        policy_problems=printed(status.policy_problems),
        attention=attention_items(data, blockers),
        pools=pools,
        models=rows,
        models_total=total,
        timeline=newest(data.timeline),
        overrides=running_overrides(status),
        policy_refused=printed(status.policy_refused),
        badges=badges_seated(data.policy, (each for pool in pools for node in pool.nodes for each in node.seated)),
        plan_every_seconds=status.plan_every_seconds,
        namespace=status.namespace,
        leader_known=status.leader_known,
    )


def badges_seated(policy: Policy, seated: Iterable[Seated]) -> dict[str, Badge]:
    """The badges of those who sit, and of the models that lent to them."""
    names = {name for each in seated for name in (each.model, each.lender)}
    return {name: badge for name, badge in badges_of(policy).items() if name in names}


def pool_rows(data: PageData, seats: Seats) -> tuple[PoolRow, ...]:
    """Pools in the policy's order."""
    tiles = GpuTiles.of(data.snapshot, data.loans, seats)
    order = {pool.name: place for place, pool in enumerate(data.policy.pools)}
    views = sorted(data.snapshot.pools, key=lambda view: (order.get(view.name, len(order)), view.name))
    return tuple(_pool(view, tiles, data.policy, data.status.sync) for view in views)


def _pool(view: PoolView, tiles: GpuTiles, policy: Policy, sync: Sync) -> PoolRow:
    drawn = [tiles.draw(node, view.name) for node in view.nodes]
    few = sum(len(gpus) for gpus in drawn) <= MOST_SEATED
    nodes: tuple[NodeTiles, ...] = ()
    if len(view.nodes) <= MOST_NODES:
        nodes = tuple(
            NodeTiles(
                printed(node.name),
                gpus,
                node.ready,
                tiles.deadline(node.name),
                tiles.seated(node, view.name) if few else (),
            )
            for node, gpus in zip(view.nodes, drawn, strict=True)
        )
    return PoolRow(
        name=view.name,
        kind=next((pool.kind for pool in policy.pools if pool.name == view.name), ""),
        gpus=known_gpus(view, sync.missing),
        counts=counted_states(drawn),
        nodes=nodes,
        nodes_total=len(view.nodes),
    )


def newest(timeline: tuple[TimelineEvent, ...], model: str | None = None) -> tuple[TimelineEvent, ...]:
    """The newest few (of one model: a shift to another that it gave to, too), oldest first."""
    wanted = (
        each
        for each in reversed(timeline)
        if model is None or model in {each.model, *(step.model for step in each.steps)}
    )
    return tuple(reversed(tuple(islice(wanted, MOST_EVENTS))))


def running_overrides(status: Status, model: str | None = None) -> tuple[Override, ...]:
    """Overrides that have not expired (of one model), the soonest to end first, with what the last cycle said."""
    states = {state.uid: state for state in status.plan.overrides} if status.plan else {}
    running = [one for one in status.overrides if one.expires_at > status.at]
    wanted: Iterable[Override] = (one for one in running if model is None or model == one.named_model)
    shown = [
        replace(one, phase=states[one.uid].phase, message=states[one.uid].message) if one.uid in states else one
        for one in wanted
    ]
    return tuple(printed(one) for one in sorted(shown, key=lambda one: (one.expires_at, one.name, one.uid)))

"""One pool's page: its nodes with who holds which GPU, and who lent to whom."""

from collections import Counter, defaultdict

from msgspec import Struct

from rebalancer.api.pages.gpu_tiles import GpuTiles, Seats, counted_states, known_gpus, pod_state, pods_of
from rebalancer.api.pages.overview import badges_seated, newest
from rebalancer.api.pages.values.paging import PageNumber
from rebalancer.api.pages.values.pool import LoanRow, NodeRow, PodRow, PoolPage
from rebalancer.api.ports.page_data import PageData
from rebalancer.api.text.printed import printed
from rebalancer.domain.policy import Pool
from rebalancer.domain.pool_view import NodeView, PoolView

PAGE = 64


class PoolQuery(Struct, frozen=True):
    """Which page of the pool's nodes."""

    page: PageNumber = 1


def pool_page(data: PageData, pool: Pool, seats: Seats, page: int = 1) -> PoolPage:
    """The page of `pool` with the `page`-th 64 nodes."""
    view = next((each for each in data.snapshot.pools if each.name == pool.name), PoolView(name=pool.name))
    plan = data.status.plan
    decision = next((each for each in plan.pools if each.pool == pool.name), None) if plan else None
    tiles = GpuTiles.of(data.snapshot, data.loans, seats)
    first = (max(1, page) - 1) * PAGE
    own = {node.name for node in view.nodes}
    nodes = _nodes(data, pool.name, view.nodes[first : first + PAGE], tiles)
    return PoolPage(
        at=data.status.at,
        cycle=plan.cycle if plan else 0,
        name=pool.name,
        kind=pool.kind,
        resource=pool.resource,
        capacity_type=pool.capacity_type,
        price_per_gpu_hour=pool.price_per_gpu_hour,
        gpu_limit=pool.gpu_limit,
        node_pools=pool.node_pools,
        gpus=known_gpus(view, data.status.sync.missing),
        counts=counted_states(tiles.draw(node, pool.name) for node in view.nodes),
        budget=decision.budget if decision else None,
        promised=decision.promised if decision else None,
        nodes=nodes,
        nodes_total=len(view.nodes),
        loans=tuple(
            LoanRow(loan.borrower, loan.owner or loan.pool, loan.gpus, loan.at)
            for loan in data.loans
            if loan.pool == pool.name
        ),
        notices=printed(tuple(notice for notice in data.snapshot.notices if notice.node in own)),
        timeline=newest(tuple(each for each in data.timeline if each.pool == pool.name)),
        badges=badges_seated(data.policy, (each for node in nodes for each in node.seated)),
    )


def _nodes(data: PageData, pool: str, nodes: tuple[NodeView, ...], tiles: GpuTiles) -> tuple[NodeRow, ...]:
    shown = {node.name for node in nodes}
    pods: dict[str, list[PodRow]] = defaultdict(list)
    for model, target, pod in pods_of(data.snapshot.models):
        state, lender = pod_state(pod, tiles.doomed), tiles.lenders.get(pod.uid, "")
        for node, count in Counter(pod.nodes).items():
            if node in shown:
                gpus = target.gpus_per_pod * count
                pods[node].append(PodRow(printed(pod.name), model.id, gpus, state, pod.since, lender))
    return tuple(
        NodeRow(
            name=printed(node.name),
            gpus=tiles.draw(node, pool),
            ready=node.ready,
            schedulable=node.schedulable,
            foreign_gpus=node.foreign_gpus,
            doomed_at=tiles.deadline(node.name),
            pods=tuple(sorted(pods[node.name], key=lambda row: (row.model, row.name))),
            refused=printed(node.refused),
            seated=tiles.seated(node, pool),
        )
        for node in nodes
    )

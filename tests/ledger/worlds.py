"""Looks at a little cluster in which anything may happen between two of them."""

from hypothesis import strategies as st

from rebalancer.domain.pool_view import PoolView
from rebalancer.domain.snapshot import ModelView, Snapshot
from rebalancer.domain.sync import Sync
from tests.builders import NOW, a_load, a_model, a_model_view, a_node, a_notice, a_pod, a_policy, a_target

POLICY = a_policy(a_model("a", entitlement=3), a_model("b", entitlement=2, gpus_per_replica=2))

phases = st.sampled_from(["ready", "ready", "loading", "terminating", "pending", "lost"])
gpus = st.sampled_from([8, 8, 4, 0])
pods = st.lists(st.tuples(phases, st.integers(1, 4), st.floats(0, 1e4)), max_size=6)


def a_view(model: str, gpus: int, drawn: list[tuple[str, int, float]]) -> ModelView:
    placed = tuple(
        a_pod(f"{model}-{n}", None if phase == "pending" else f"n{node}", phase=phase, created_at=NOW - age)
        for n, (phase, node, age) in enumerate(drawn)
    )
    return a_model_view(model, a_target(model, pods=placed, gpus_per_pod=gpus))


@st.composite
def looks(draw: st.DrawFn) -> list[Snapshot]:
    """Looks at a cluster in which anything may happen between two of them; clocks step, lists are torn."""
    now, found = NOW, []
    for cycle in range(draw(st.integers(2, 7))):
        nodes = tuple(
            a_node(f"n{n}", draw(gpus), ready=draw(st.booleans()), foreign_gpus=draw(st.integers(0, 3)))
            for n in draw(st.sets(st.integers(1, 3)))
        )
        found.append(
            Snapshot(
                cycle=cycle,
                at=now,
                sync=draw(st.sampled_from([Sync(), Sync(), Sync(stale=("nodes",))])),
                notices=tuple(a_notice(f"n{n}") for n in draw(st.sets(st.integers(1, 3), max_size=1))),
                pools=(PoolView("a100", tuple(sorted(nodes, key=lambda node: node.name))),),
                models=(a_view("a", 1, draw(pods)), a_view("b", 2, draw(pods))),
                loads=tuple(a_load(name, work=draw(st.floats(0, 9))) for name in draw(st.sets(st.sampled_from("ab")))),
            )
        )
        now += draw(st.sampled_from([0.25, 3.1, 10.0, 29.9, 61.0, 4000.0, -5.0]))
    return found

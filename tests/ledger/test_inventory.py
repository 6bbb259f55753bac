"""Who holds what at one instant: each GPU once, by the words of the ledger."""

import pytest
from msgspec.structs import replace

from rebalancer.domain.placement import INSTANCE_TYPE
from rebalancer.domain.snapshot import NoticeView, PodView, Snapshot
from rebalancer.domain.sync import Sync
from rebalancer.ledger.inventory import OWNED, Hold, Inventory, Shelf, inventory
from rebalancer.ledger.states import BORROWED, DOOMED, FOREIGN, FREE, LOADING, TERMINATING, UNKNOWN, WARM
from tests.builders import (
    NOW,
    a_load,
    a_model,
    a_model_view,
    a_node,
    a_notice,
    a_pod,
    a_policy,
    a_pool,
    a_snapshot,
    a_target,
    an_elastic_pool,
    some_work,
)

A, B = a_model("a", entitlement=4), a_model("b", entitlement=2)
POLICY = a_policy(A, B)
SHELF = Shelf("a100", "")


def held(seen: Inventory) -> dict[tuple[str, str], int]:
    return {(hold.model, hold.state): gpus for hold, gpus in seen.held.items()}


def a_look(*pods_of_b: PodView, notices: tuple[NoticeView, ...] = ()) -> Snapshot:
    snapshot = a_snapshot(POLICY, {"a": 0})
    b = a_model_view("b", a_target("b", pods=pods_of_b))
    return replace(snapshot, models=(snapshot.models[0], b), notices=notices)


def test_replicas_beyond_the_entitlement_are_borrowed_and_the_owner_who_uses_least_lends_them() -> None:
    seen = inventory(a_snapshot(POLICY, {"a": 1, "b": 5}), POLICY)
    assert held(seen) == {("a", OWNED): 1, ("b", OWNED): 2, ("b", BORROWED): 3, ("", FREE): 2}
    assert seen.lent == {("a100", "a"): 3}


def test_what_is_lent_is_at_most_what_owners_leave_unused() -> None:
    seen = inventory(a_snapshot(POLICY, {"a": 3, "b": 5}), POLICY)
    assert held(seen)["b", BORROWED] == 3
    assert seen.lent == {("a100", "a"): 1}


@pytest.mark.parametrize(
    ("ready", "loading", "states"),
    [(2, 2, {OWNED: 2, LOADING: 2}), (3, 1, {OWNED: 2, BORROWED: 1, LOADING: 1}), (1, 1, {OWNED: 1, LOADING: 1})],
)
def test_while_loans_load_a_model_s_own_replicas_stay_its_own(ready: int, loading: int, states: dict[str, int]) -> None:
    own = [a_pod(f"b-{number}", "a100-1", created_at=NOW - 9000.0) for number in range(ready)]
    new = [a_pod(f"b-new-{number}", "a100-1", phase="loading", created_at=NOW) for number in range(loading)]
    seen = inventory(a_look(*own, *new), POLICY)
    assert {state: gpus for (model, state), gpus in held(seen).items() if model} == states
    assert sum(seen.lent.values()) == states.get(BORROWED, 0)


def test_on_an_elastic_pool_what_is_borrowed_is_lent_by_nobody() -> None:
    policy = a_policy(a_model("a", 0, pools=("a100", "spot"), entitlement=1), pools=(a_pool(), an_elastic_pool()))
    seen = inventory(a_snapshot(policy, {"a": {"a100": 1, "spot": 2}}, nodes={"spot": 1}), policy)
    assert {(hold.shelf.pool, hold.state): gpus for hold, gpus in seen.held.items() if hold.model} == {
        ("a100", OWNED): 1,
        ("spot", BORROWED): 2,
    }
    assert seen.lent == {}


@pytest.mark.parametrize(("phase", "state"), [("loading", LOADING), ("terminating", TERMINATING), ("ready", OWNED)])
def test_a_pod_with_a_node_holds_its_gpus_whatever_it_does_there(phase: str, state: str) -> None:
    seen = inventory(a_look(a_pod("b-1", "a100-1", phase=phase)), POLICY)
    assert held(seen) == {("b", state): 1, ("", FREE): 7}


def test_a_pod_without_a_node_holds_nothing() -> None:
    assert held(inventory(a_look(a_pod("b-1", None, phase="pending")), POLICY)) == {("", FREE): 8}


def test_on_a_node_under_notice_everything_that_models_hold_or_could_hold_is_doomed() -> None:
    seen = inventory(a_look(a_pod("b-1", "a100-1"), notices=(a_notice("a100-1"),)), POLICY)
    assert held(seen) == {("b", DOOMED): 1, ("", DOOMED): 7}


@pytest.mark.parametrize("there", [{"foreign_gpus": 3}, {"foreign_gpus": 3, "preemptible_gpus": 2}])
def test_pods_of_no_model_are_foreign_also_preemptible_ones(there: dict[str, int]) -> None:
    snapshot = a_snapshot(POLICY, {"a": 2})
    nodes = (a_node("a100-1", **there),)
    pools = (type(snapshot.pools[0])("a100", nodes),)
    seen = inventory(a_snapshot(POLICY, {"a": 2}, pools=pools), POLICY)
    assert held(seen) == {("a", OWNED): 2, ("", FOREIGN): 3, ("", FREE): 3}


def test_gpus_that_placeholders_hold_are_warm_until_their_node_goes() -> None:
    snapshot = a_snapshot(POLICY, {"a": 2})
    pools = (type(snapshot.pools[0])("a100", (a_node("a100-1", warm_gpus=4),)),)
    seen = a_snapshot(POLICY, {"a": 2}, pools=pools)
    assert held(inventory(seen, POLICY)) == {("a", OWNED): 2, ("", WARM): 4, ("", FREE): 2}
    gone = inventory(replace(seen, notices=(a_notice("a100-1"),)), POLICY)
    assert held(gone) == {("a", DOOMED): 2, ("", DOOMED): 6}


def test_a_node_that_offers_nothing_under_pods_that_hold_gpus_has_as_many_and_their_use_is_unknown() -> None:
    snapshot = a_snapshot(POLICY, {"a": 2})
    pools = (type(snapshot.pools[0])("a100", (a_node("a100-1", 0),)),)
    seen = inventory(a_snapshot(POLICY, {"a": 2}, pools=pools), POLICY)
    assert seen.capacity == {SHELF: 2}
    assert held(seen) == {("a", UNKNOWN): 2}


def test_gpus_cost_by_the_instance_type_of_their_node() -> None:
    nodes = (a_node("a100-1", 4, labels={INSTANCE_TYPE: "p5"}), a_node("a100-2", 4))
    pools = (type(a_snapshot(POLICY).pools[0])("a100", nodes),)
    seen = inventory(a_snapshot(POLICY, {"a": 1}, pools=pools), POLICY)
    assert seen.capacity == {Shelf("a100", "p5"): 4, Shelf("a100", ""): 4}
    assert Hold(Shelf("a100", "p5"), "a", OWNED) in seen.held


@pytest.mark.parametrize(("work", "share"), [(1.0, 0.25), (9.0, 1.0), (0.0, 0.0)])
def test_busy_is_offered_work_over_ready_replicas(work: float, share: float) -> None:
    assert inventory(a_snapshot(POLICY, {"a": 4}, work={"a": work}), POLICY).busy["a"] == share


def test_work_that_nobody_told_lately_is_no_word_on_how_busy_a_model_is() -> None:
    load = a_load("a", work=some_work(1.0), known_until=NOW - 120.0)
    assert "a" not in inventory(a_snapshot(POLICY, {"a": 4}, loads=(load,)), POLICY).busy
    assert "a" in inventory(a_snapshot(POLICY, {"a": 4}, loads=(a_load("a", work=1.0, known_until=NOW),)), POLICY).busy


@pytest.mark.parametrize("sync", [Sync(missing=("nodes",)), Sync(stale=("pods",))])
def test_lists_that_are_not_whole_make_a_look_worthless(sync: Sync) -> None:
    assert "were not whole" in inventory(a_snapshot(POLICY, {"a": 1}, sync=sync), POLICY).unknown
    assert inventory(a_snapshot(POLICY, {"a": 1}, sync=Sync(stale=("resourcequotas",))), POLICY).unknown == ""

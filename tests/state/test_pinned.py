"""What carries values of a rebalancer's: whose by name, and whether the policy in force names it."""

import pytest
from msgspec.structs import replace

from rebalancer.domain.autoscalers import Originals
from rebalancer.domain.cluster import ClusterObject, DisruptionBudget, NodePool, SavedNodePool
from rebalancer.domain.pinned import DEPARTED, HELD, OTHER, UNNAMED
from rebalancer.state import ClusterState
from tests.builders import NOW, a_model, a_policy, a_pool, an_elastic_pool
from tests.state.objects import GPU, a_karpenter_pool, a_scaled_object, a_workload, an_hpa, changed, feed

OURS, THEIRS = "ml/rebalancer", "search/rebalancer"
POLICY = a_policy(a_model("b"), pools=(a_pool(), an_elastic_pool()))
HOLD = DisruptionBudget(nodes="0", reasons=("Empty", "Underutilized"))


def a_known(*objects: ClusterObject) -> ClusterState:
    return feed(ClusterState(POLICY, NOW - 600.0, OURS), *(changed(each) for each in objects))


def states(state: ClusterState) -> dict[str, str]:
    return {str(each): each.state for each in state.pinned()}


def saved(by: str) -> Originals:
    return Originals(1, 4, by)


@pytest.mark.parametrize(
    ("by", "named", "left_out"),
    [(OURS, HELD, DEPARTED), ("", HELD, UNNAMED), (THEIRS, OTHER, None)],
    ids=["ours", "nobody's by name", "another installation's"],
)
def test_each_object_is_judged_by_its_name_and_by_the_policy(by: str, named: str, left_out: str | None) -> None:
    state = a_known(
        a_scaled_object("b", "b", originals=saved(by)),
        a_scaled_object("c", "c", originals=saved(by)),
        an_hpa("h", "c", originals=saved(by)),
        a_karpenter_pool("spot", saved=SavedNodePool(None, None, by)),
        a_karpenter_pool("old", saved=SavedNodePool(None, None, by)),
    )
    left = ("scaledobject/serving/c", "horizontalpodautoscaler/serving/h", "nodepool/old")
    expected = {"scaledobject/serving/b": named, "nodepool/spot": named}
    assert states(state) == expected | ({} if left_out is None else dict.fromkeys(left, left_out))


def test_what_nobody_wrote_to_and_kedas_copy_on_its_own_hpa_are_none() -> None:
    keda = an_hpa("keda-hpa-c", "c", originals=saved(OURS), owner_scaled_object="c")
    assert states(a_known(a_scaled_object(originals=None), keda, a_karpenter_pool())) == {}


def test_a_model_that_leaves_the_policy_leaves_its_autoscaler_behind() -> None:
    state = a_known(a_scaled_object("b", "b", originals=saved(OURS)))
    state.set_policy(a_policy(a_model("a")), NOW)
    assert states(state) == {"scaledobject/serving/b": DEPARTED}


@pytest.mark.parametrize("actuation", ["scale", "metric"])
def test_a_model_that_is_not_moved_by_bounds_any_more_leaves_its_autoscaler_behind(actuation: str) -> None:
    state = a_known(a_scaled_object("b", "b", originals=saved(OURS)), an_hpa("h", "b", originals=saved(OURS)))
    state.set_policy(a_policy(a_model("b", actuation=actuation)), NOW)
    assert states(state) == dict.fromkeys(("horizontalpodautoscaler/serving/h", "scaledobject/serving/b"), DEPARTED)


def test_what_another_installation_holds_is_not_shown_as_ours() -> None:
    held = a_karpenter_pool("spot", budgets=(HOLD,), saved=SavedNodePool({GPU: "4"}, None, THEIRS))
    state = a_known(a_workload(), a_scaled_object("b", "b", originals=saved(THEIRS)), held)
    snapshot = state.peek(NOW)
    (target,) = snapshot.models[0].targets
    (node_pool,) = next(pool for pool in snapshot.pools if pool.name == "spot").node_pools
    assert target.autoscaler is not None
    assert (target.autoscaler.originals, target.autoscaler.other) == (None, THEIRS)
    assert (node_pool.saved, node_pool.held, node_pool.other) == (None, False, THEIRS)


@pytest.mark.parametrize("by", [OURS, ""], ids=["ours", "nobody's by name"])
def test_what_is_ours_or_nobodys_by_name_is_shown_as_ours(by: str) -> None:
    pool: NodePool = replace(a_karpenter_pool("spot", saved=SavedNodePool({GPU: "4"}, None, by)), budgets=(HOLD,))
    snapshot = a_known(a_workload(), a_scaled_object("b", "b", originals=saved(by)), pool).peek(NOW)
    (target,) = snapshot.models[0].targets
    (node_pool,) = next(each for each in snapshot.pools if each.name == "spot").node_pools
    assert target.autoscaler is not None
    assert (target.autoscaler.originals, target.autoscaler.other) == (saved(by), "")
    assert (node_pool.held, node_pool.other) == (True, "")

"""What cannot be looked at costs its own model or pool the view; all others are seen as always."""

from msgspec.structs import replace

from rebalancer.domain.sync import Unseen
from rebalancer.state import ClusterState
from rebalancer.state.kept_views import KeptViews
from tests.builders import NOW, a_model, a_policy, a_pool
from tests.state.objects import GPU, a_cluster_node, a_ready_pod, a_state, a_workload, changed, feed, gone

POLICY = a_policy(a_model("b"), a_model("x", pools=("h100",)), pools=(a_pool(), a_pool("h100")))
SPOILT = {"gpus": None}
"""No decoder makes such a workload; it stands for whatever nobody foresaw."""


def a_world() -> ClusterState:
    """A model of 2 replicas in each of two pools, and a node of each pool."""
    nodes = a_cluster_node("n1"), a_cluster_node("n2", "h100")
    return a_state(POLICY, *nodes, a_workload("b", 2), a_workload("x", 2))


def asked(state: ClusterState) -> dict[str, int]:
    return {view.id: target.replicas for view in state.peek(NOW).models for target in view.targets}


def gpus(state: ClusterState) -> dict[str, list[int]]:
    return {view.name: [node.gpus for node in view.nodes] for view in state.peek(NOW).pools}


def test_a_model_that_cannot_be_looked_at_keeps_its_view_and_says_why_until_it_can() -> None:
    state = a_world()
    assert asked(state) == {"b": 2, "x": 2}
    feed(state, changed(a_workload("b", 3, resource_version="2", **SPOILT)))
    feed(state, changed(a_workload("x", 4, resource_version="2")))
    assert asked(state) == {"b": 2, "x": 4}
    (told,) = state.peek(NOW).unseen
    assert (told.kind, told.name, told.pools) == ("model", "b", ("a100",))
    assert told.why.startswith("AttributeError: ")
    assert told.why.endswith(")")
    assert ".py, line " in told.why
    feed(state, changed(a_workload("b", 3, resource_version="3")))
    assert asked(state) == {"b": 3, "x": 4}
    assert state.peek(NOW).unseen == ()


def test_a_model_that_could_never_be_looked_at_has_no_view() -> None:
    state = a_state(POLICY, a_workload("b", 2, **SPOILT), a_workload("x", 2))
    assert asked(state) == {"x": 2}
    assert [(one.kind, one.name) for one in state.peek(NOW).unseen] == [("model", "b")]


def test_a_model_that_leaves_the_policy_is_not_told_any_more() -> None:
    state = a_state(POLICY, a_workload("b", 2, **SPOILT), a_workload("x", 2))
    state.peek(NOW)
    state.set_policy(a_policy(a_model("x", pools=("h100",)), pools=(a_pool(), a_pool("h100"))), NOW)
    assert state.peek(NOW).unseen == ()


def test_a_pool_with_a_node_that_cannot_be_looked_at_keeps_its_view_and_says_why_until_it_can() -> None:
    state = a_world()
    assert gpus(state) == {"a100": [8], "h100": [8]}
    stranger = a_ready_pod("s-1", "nobody", "n1", gpus={GPU: "two"})
    feed(state, changed(a_cluster_node("n1", gpus=6, resource_version="2")), changed(stranger))
    feed(state, changed(a_cluster_node("n2", "h100", gpus=4, resource_version="2")))
    assert gpus(state) == {"a100": [8], "h100": [4]}
    (told,) = state.peek(NOW).unseen
    assert (told.kind, told.name, told.pools) == ("pool", "a100", ("a100",))
    feed(state, gone(stranger))
    assert gpus(state) == {"a100": [6], "h100": [4]}
    assert state.peek(NOW).unseen == ()


# --- the views by themselves


def views_of(numbers: dict[str, int]) -> tuple[KeptViews[int], list[str]]:
    """A hundred divided by each number, and the names in the order in which they were made."""
    made = list[str]()

    def make(name: str) -> int:
        made.append(name)
        return 100 // numbers[name]

    views = KeptViews("model", make, lambda _: ["a100"])
    views.follow(numbers)
    return views, made


def test_only_what_changed_or_could_not_be_made_is_made_again() -> None:
    numbers = {"a": 1, "b": 0, "c": 2}
    views, made = views_of(numbers)
    assert views.all() == (100, 50)
    made.clear()
    assert views.all() == (100, 50)
    assert made == ["b"]
    numbers["b"] = 4
    views.dirty.add("c")
    assert views.all() == (100, 25, 50)
    assert sorted(made) == ["b", "b", "c"]
    made.clear()
    assert views.all() is views.all()
    assert made == []


def test_what_is_told_of_a_view_names_the_line_that_raised() -> None:
    views, _ = views_of({"a": 0})
    assert views.all() == ()
    (told,) = views.unseen()
    assert told == Unseen("model", "a", ("a100",), told.why)
    assert told.why.startswith("ZeroDivisionError: ")
    assert "(test_unseen.py, line " in told.why


def test_a_view_whose_value_is_the_same_stays_the_same_value() -> None:
    value = Unseen("model", "a", (), "")
    views = KeptViews("model", lambda _: replace(value), lambda _: ())
    views.follow(["a"])
    (first,) = views.all()
    views.dirty.add("a")
    (second,) = views.all()
    assert second is first

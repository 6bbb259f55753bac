"""Where the scheduler would put no pod, nothing is granted, and the reason is the scheduler's."""

import pytest

from rebalancer.domain.cluster import Taint
from rebalancer.domain.placement import HOSTNAME, NodeTerm, Placement, Requirement, Spread
from rebalancer.domain.pool_view import NodeView
from tests.builders import a_model, a_node, a_pod, a_policy, a_pool, a_snapshot
from tests.planning.story import Story, moves, unmet_of

IN_A = Placement(terms=(NodeTerm((Requirement("zone", "In", ("a",)),)),))
ONE_PER_NODE = Placement(apart=(HOSTNAME,))


def node(name: str, gpus: int = 4, zone: str = "a", **more: object) -> NodeView:
    return a_node(name, gpus, labels={"pool": "a100", "zone": zone}, **more)


def a_story(*nodes: NodeView, held: int = 0, wanted: int = 8, placement: Placement) -> Story:
    policy = a_policy(a_model("b", 0, entitlement=8), pools=(a_pool(gpus=64),))
    story = Story(policy, a_snapshot(policy, {"b": held}, {"b": {"concurrency": 4.0 * wanted}}))
    story.pool("a100", nodes=nodes)
    story.target("b", placement=placement)
    return story


def why(story: Story) -> str:
    plan = story.plan()
    assert plan.empty
    unmet = unmet_of(plan, "b")
    assert unmet is not None
    assert unmet.constraint == "fit"
    return unmet.why


class TestNodeAffinity:
    def test_only_nodes_that_meet_a_term_receive(self) -> None:
        assert moves(a_story(node("n1"), node("n2", zone="b"), placement=IN_A).plan()) == {"b": (0, 4)}

    def test_one_of_several_terms_is_enough(self) -> None:
        either = Placement(terms=(*IN_A.terms, NodeTerm(names=(Requirement("metadata.name", "In", ("n2",)),))))
        assert moves(a_story(node("n1"), node("n2", zone="b"), placement=either).plan()) == {"b": (0, 8)}

    def test_a_term_without_conditions_is_met_by_no_node(self) -> None:
        assert a_story(node("n1"), placement=Placement(terms=(NodeTerm(),))).plan().empty

    def test_where_no_node_may_take_a_pod_each_reason_is_counted(self) -> None:
        taint = Taint(key="team", value="chat", effect="NoSchedule")
        nodes = node("n1", zone="b"), node("n2", zone="c"), node("n3", taints=(taint,))
        assert why(a_story(*nodes, placement=IN_A)) == (
            "0 of 3 nodes of pool a100 may take its pods: 2 by node affinity (zone In a) and 1 by taint team=chat"
        )


class TestApart:
    """Host ports, or anti-affinity of a template to itself."""

    def test_one_pod_on_each_node_and_not_where_one_stands(self) -> None:
        story = a_story(node("n1"), node("n2"), node("n3"), held=1, placement=ONE_PER_NODE)
        story.target("b", pods=(a_pod("b-0", "n2"),))
        plan = story.plan()
        assert moves(plan) == {"b": (1, 3)}
        story.write(plan)
        story.settle()
        assert sorted(pod.node or "" for pod in story.of("b").pods) == ["n1", "n2", "n3"]
        assert why(story) == (
            f"its template asks for one pod in each {HOSTNAME}, by which 3 nodes of pool a100 are full"
        )

    def test_a_zone_has_one(self) -> None:
        nodes = node("n1"), node("n2"), node("n3", zone="b")
        assert moves(a_story(*nodes, placement=Placement(apart=("zone",))).plan()) == {"b": (0, 2)}

    @pytest.mark.parametrize("placement", [Placement(apart=("zone",)), Placement(spreads=(Spread("zone", 1),))])
    @pytest.mark.parametrize("warned", [True, False])
    def test_a_pod_on_a_node_that_takes_no_more_counts_in_its_zone(self, placement: Placement, *, warned: bool) -> None:
        # zone a has one pod, on a node that is cordoned or under notice; b has one, and c one GPU of somebody else.
        nodes = node("a1", 1, schedulable=warned), node("a2"), node("b1", 1, "b"), node("c1", 1, "c", foreign_gpus=1)
        story = a_story(*nodes, held=2, wanted=4, placement=placement)
        story.target("b", pods=(a_pod("b-0", "a1"), a_pod("b-1", "b1")))
        if warned:
            story.notice("a1")
        assert moves(story.plan()) == {}

    def test_a_pod_on_its_way_out_keeps_its_place_until_it_has_gone(self) -> None:
        story = a_story(node("n1"), placement=ONE_PER_NODE)
        story.target("b", pods=(a_pod("b-0", "n1", phase="terminating"),))
        grant = story.plan()
        assert {change.replicas_to for change in grant.changes} <= {1}
        story.settle()
        assert not [pod for pod in story.of("b").pods if pod.phase == "terminating"]

    def test_nobody_gives_a_replica_for_one_that_no_node_would_take(self) -> None:
        models = a_model("a", 0, entitlement=0), a_model("b", 0, entitlement=4)
        policy = a_policy(*models, pools=(a_pool(gpus=4),))
        load = {"a": {"concurrency": 0.0}, "b": {"concurrency": 16.0}}
        story = Story(policy, a_snapshot(policy, {"a": 3, "b": 1}, load))
        story.target("b", placement=ONE_PER_NODE)
        assert moves(story.plan()) == {}


class TestSpread:
    def test_no_zone_gets_more_than_its_skew_beyond_the_fewest(self) -> None:
        # zone a has 8 GPUs, zone b one: one pod there, two here.
        nodes = node("n1", 8), node("n2", 1, zone="b")
        assert moves(a_story(*nodes, placement=Placement(spreads=(Spread("zone", 1),))).plan()) == {"b": (0, 3)}

    def test_a_node_without_the_label_takes_none(self) -> None:
        bare = a_node("n1", 8, labels={"pool": "a100"})
        assert a_story(bare, placement=Placement(spreads=(Spread("zone", 1),))).plan().empty

    @pytest.mark.parametrize(("heeds_taints", "granted"), [(False, 1), (True, 4)])
    def test_a_zone_whose_only_node_is_cordoned_is_the_emptiest_unless_it_heeds_taints(
        self, granted: int, *, heeds_taints: bool
    ) -> None:
        nodes = node("n1"), node("n2", zone="b", schedulable=False)
        placement = Placement(spreads=(Spread("zone", 1, heeds_taints),))
        assert moves(a_story(*nodes, placement=placement).plan()) == {"b": (0, granted)}


@pytest.mark.parametrize(
    ("operator", "values", "labels", "holds"),
    [
        ("In", ("a", "b"), {"k": "b"}, True),
        ("In", ("a",), {}, False),
        ("NotIn", ("a",), {"k": "a"}, False),
        ("NotIn", ("a",), {}, True),
        ("Exists", (), {"k": ""}, True),
        ("DoesNotExist", (), {"k": ""}, False),
        ("DoesNotExist", (), {}, True),
        ("Gt", ("5",), {"k": "6"}, True),
        ("Gt", ("5",), {"k": "5"}, False),
        ("Lt", ("5",), {"k": "four"}, False),
        ("Lt", (), {"k": "4"}, False),
        ("Near", ("5",), {"k": "5"}, False),
    ],
)
def test_a_requirement_holds_as_kubernetes_has_it(
    operator: str, values: tuple[str, ...], labels: dict[str, str], *, holds: bool
) -> None:
    assert Requirement("k", operator, values).holds(labels) is holds

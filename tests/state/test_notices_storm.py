"""What notices cost where Karpenter disrupts many nodes at once, in lines: times lie on a busy machine."""

from rebalancer.state import ClusterState
from tests.builders import NOW, a_policy, a_pool, an_elastic_pool
from tests.lines import lines
from tests.state.objects import DISRUPTED, a_claim, a_karpenter_node, a_state

FEW, MANY = 50, 200
MOST_FOLD = 6.0  # four times as many nodes take 4 times the lines; who looks at all NodeClaims for each takes 14


def _storm(nodes: int) -> ClusterState:
    """All nodes of a NodePool with Karpenter's taint, each with its NodeClaim."""
    names = [f"s{number}" for number in range(nodes)]
    policy = a_policy(pools=(a_pool(), an_elastic_pool(gpus=8 * nodes)))
    tainted = (a_karpenter_node(name, taints=(DISRUPTED,)) for name in names)
    claims = (a_claim(f"spot-{name}", node=name, disruption_reason="Drifted") for name in names)
    return a_state(policy, *tainted, *claims)


def _lines(nodes: int) -> int:
    state = _storm(nodes)
    return lines(lambda: state.peek(NOW))


def test_notices_of_four_times_as_many_disrupted_nodes_run_about_four_times_as_many_lines() -> None:
    few, many = _lines(FEW), _lines(MANY)
    assert many < MOST_FOLD * few, f"{few} lines for {FEW} nodes, {many} for {MANY}"


def test_each_of_many_disrupted_nodes_is_known_by_its_own_claim() -> None:
    assert all(notice.voluntary for notice in _storm(FEW).peek(NOW).notices)

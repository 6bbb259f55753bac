"""One cycle's facts, gathered: what stands from the cycle before is not looked at again."""

from collections.abc import Mapping

from rebalancer.domain.arithmetic import certain_until, doomed_nodes, noticed_nodes
from rebalancer.domain.memory import Memory
from rebalancer.domain.policy import Policy
from rebalancer.domain.snapshot import Snapshot
from rebalancer.planning.facts.holdings import holdings_of
from rebalancer.planning.facts.models import models_of
from rebalancer.planning.facts.pools import LeavingNodes, pool_facts
from rebalancer.planning.facts.scene import ModelFacts, Scene, by_id_and_pool
from rebalancer.planning.memo import Memo
from rebalancer.planning.overrides.rulings import Ruling


def build(
    snapshot: Snapshot, policy: Policy, memory: Memory, rulings: Mapping[str, Ruling], memo: Memo
) -> Scene[ModelFacts]:
    """The scene of one cycle. Nothing of the snapshot is changed."""
    at, rules, synced_at = snapshot.at, policy.nodes, snapshot.sync.synced_at
    doomed = doomed_nodes(snapshot.notices, snapshot.pools, rules, at)
    leaving = LeavingNodes(doomed, noticed_nodes(snapshot.notices), certain_until(rules, at, synced_at))
    holdings = holdings_of(snapshot, policy, memory, rulings, doomed, memo)
    states = pool_facts(snapshot, policy, memory, holdings, leaving, memo)
    models = models_of(snapshot, policy, memory, rulings, holdings)
    by_id, of_pool = by_id_and_pool(models)
    return Scene(snapshot, policy, memory, at, doomed, states, memo, by_id, of_pool)

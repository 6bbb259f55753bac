"""The bench of guards prices all that have a rule in the policy, each by taking its own rule away."""

from rebalancer.domain.policy import Guards, Policy
from rebalancer.sim.suite.cases import cases
from tests.bench.guards import ALL, NONE, WITHOUT, Run

NEVER_MET = {"foreign"}  # nobody else writes in the simulator


def test_every_guard_with_a_rule_is_priced_and_only_its_own_rule_goes() -> None:
    assert set(WITHOUT) | NEVER_MET == set(Guards.model_fields)
    policy = Policy.model_construct(
        api_version="rebalancer.io/v1alpha1", kind="Policy", pools=(), models=(), guards=Guards()
    )
    for guard in WITHOUT:
        off = Run(cases()[0], guard).policy(policy).guards
        assert [name for name in Guards.model_fields if getattr(off, name) != getattr(policy.guards, name)] == [guard]
    assert Run(cases()[0], ALL).policy(policy).guards == policy.guards
    none = Run(cases()[0], NONE).policy(policy).guards
    assert all(getattr(none, name) == rule for name, rule in WITHOUT.items())

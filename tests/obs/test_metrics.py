from prometheus_client.parser import text_string_to_metric_families

from rebalancer.domain.memory import Memory
from rebalancer.domain.plan import Plan
from rebalancer.obs.metrics import Metrics
from rebalancer.planning import plan
from tests.builders import a_model, a_policy, a_snapshot


def a_plan(*models: str) -> Plan:
    """Of models that hold two replicas each, of whose load nobody told."""
    policy = a_policy(*(a_model(model, min_replicas=1) for model in models))
    return plan(a_snapshot(policy, dict.fromkeys(models, 2)), policy, Memory()).plan


def shown(metrics: Metrics, name: str) -> dict[tuple[str, ...], float]:
    """Values of a metric by its labels' values."""
    families = text_string_to_metric_families(metrics.text().decode())
    return {tuple(one.labels.values()): one.value for each in families if each.name == name for one in each.samples}


def test_before_the_first_plan_no_model_is_shown() -> None:
    assert shown(Metrics(), "rebalancer_model_replicas") == {}


def test_the_last_plan_is_shown_and_what_left_it_leaves_the_metrics() -> None:
    metrics = Metrics()
    metrics.plan(a_plan("a", "b"))
    assert shown(metrics, "rebalancer_model_replicas")["b", "ready"] == 2
    assert shown(metrics, "rebalancer_pool_gpus")["a100", "promised"] == 4
    metrics.plan(a_plan("a"))
    assert {model for model, _ in shown(metrics, "rebalancer_model_replicas")} == {"a"}
    assert shown(metrics, "rebalancer_pool_gpus")["a100", "promised"] == 2


def test_what_the_plan_does_not_know_is_absent_and_not_zero() -> None:
    metrics = Metrics()
    decided = a_plan("a")
    unknown = [model.model for model in decided.models if model.demand is None]
    metrics.plan(decided)
    states = {state for model, state in shown(metrics, "rebalancer_model_replicas") if model in unknown}
    assert unknown == ["a"]
    assert "demand" not in states
    assert "ready" in states

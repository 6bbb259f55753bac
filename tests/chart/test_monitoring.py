"""What Prometheus is told of one installation beside another."""

from tests.chart.helm import Json, render
from tests.chart.test_rendered import rules

WATCHED: Json = {"prometheusRule.enabled": True, "serviceMonitor.enabled": True}


def down(given: Json, namespace: str) -> str:
    """The expression of the alert that says that nobody rebalances."""
    rendered = rules(render(given, namespace).one("PrometheusRule")["spec"])
    (expression,) = [rule["expr"] for rule in rendered if rule["alert"] == "RebalancerDown"]
    return str(expression)


def test_another_installation_that_lives_does_not_hide_that_this_one_is_gone() -> None:
    assert 'absent(rebalancer_build_info{namespace="gpu-b"})' in down(WATCHED, "gpu-b")


def test_where_something_else_scrapes_no_label_of_its_is_counted_on() -> None:
    assert "absent(rebalancer_build_info)" in down(WATCHED | {"serviceMonitor.enabled": False}, "gpu-b")

"""The list of side effects is whole: it is what the chart lets our account write, right by right."""

from rebalancer.kube.effects import EFFECTS
from tests.chart.helm import EVERY_ACTUATION, render

READS = {"get", "list", "watch"}


def test_the_effects_on_the_api_server_are_what_the_chart_lets_our_account_write() -> None:
    drain = {"enabled": True, "nodeLabels": [{"pool": "a100"}]}
    kinds = ["statefulsets.apps", "rollouts.argoproj.io"]
    rendered = render({**EVERY_ACTUATION, "writeMode": "act", "drain": drain, "targetKinds": kinds})
    writes = [right for right in rendered.rights if right.verb not in READS]
    named = {
        f"kube/{right.verb}/{'scale' if right.resource.endswith('/scale') else right.resource}" for right in writes
    }
    assert named == EFFECTS.keys()

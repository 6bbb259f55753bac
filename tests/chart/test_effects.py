"""The list of side effects is whole, and so is that of a thief's deeds: what the chart lets our account write."""

from rebalancer.kube.effects import EFFECTS
from tests.chart.deeds import ALLOWED, deeds, every_right, with_keda
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


def test_a_thief_of_our_token_tries_each_right_beyond_reading_that_the_chart_can_grant() -> None:
    granted = {right[1:] for right in render(every_right("gpu", {"pool": "a100"})).rights if right.verb not in READS}
    tried = [*deeds("gpu", "a", "b", "uid"), *with_keda("gpu")]
    writes = {(deed.right[1], deed.right[2], deed.right[0]) for deed in tried if deed.answer == ALLOWED}
    assert {right for right in writes if right[2] not in READS} == granted

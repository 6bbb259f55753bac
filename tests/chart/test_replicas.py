"""How many replicas the chart runs, where they stand, and what they need to agree who acts."""

from typing import Any

import pytest

from tests.chart.helm import Refused, render
from tests.chart.test_rendered import environment


def test_where_it_writes_a_second_replica_stands_by_apart_from_the_first() -> None:
    rendered = render({"writeMode": "act", "actuation.keda": True})
    deployment: Any = rendered.one("Deployment")["spec"]
    budget = rendered.one("PodDisruptionBudget")["spec"]
    assert deployment["replicas"] == 2
    assert (budget["selector"], budget["maxUnavailable"]) == (deployment["selector"], 1)
    spread = deployment["template"]["spec"]["topologySpreadConstraints"]
    assert [each["topologyKey"] for each in spread] == ["kubernetes.io/hostname", "topology.kubernetes.io/zone"]
    assert all(each["labelSelector"] == deployment["selector"] for each in spread)
    assert deployment["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}


def test_one_replica_has_no_disruption_budget_which_would_stand_in_the_way_of_a_drain() -> None:
    assert "PodDisruptionBudget" not in render().kinds
    assert "PodDisruptionBudget" not in render({"writeMode": "act", "actuation.keda": True, "replicas": 1}).kinds


def test_a_journal_that_outlives_its_pod_is_one_pods() -> None:
    kept = {"writeMode": "act", "actuation.keda": True, "journal.persistence.enabled": True}
    deployment = render(kept).one("Deployment")["spec"]
    assert (deployment["replicas"], deployment["strategy"]) == (1, {"type": "Recreate"})
    with pytest.raises(Refused, match="one pod writes: set replicas to 1"):
        render({**kept, "replicas": 2})


def test_every_replica_knows_the_lease_and_may_write_that_one_alone() -> None:
    rendered = render({"writeMode": "act", "actuation.keda": True})
    name = environment(rendered)["LEASE_NAME"]
    role = next(each for each in rendered.of("Role") if each["metadata"]["name"].endswith("-lease"))
    assert role["rules"] == [
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
        {
            "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"],
            "resourceNames": [name],
            "verbs": ["get", "patch"],
        },
    ]

"""Placeholders of pools that keep GPUs warm, and the one ConfigMap that tells of node groups."""

import json

import pytest
import yaml

from rebalancer.cli.remote.client import LABEL, SERVICE
from tests.chart.helm import EVERY_ACTUATION, Json, Refused, Right, render

SPOT: Json = {"name": "spot", "nodeLabels": {"pool": "spot"}, "nodePools": ["spot"], "gpusPerNode": 8, "warmGpus": 8}


def policy(*pools: Json) -> Json:
    return {"apiVersion": "rebalancer.io/v1alpha1", "kind": "Policy", "pools": list(pools), "models": []}


def test_a_pool_with_warm_gpus_gets_placeholders_that_hold_as_many_and_give_way_to_everybody() -> None:
    pools = policy(SPOT, {"name": "a100", "nodeLabels": {"pool": "a100"}})
    rendered = render({"policy": pools, "warm.gpusPerPod": 2})
    lowest = rendered.one("PriorityClass")
    assert (lowest["value"], lowest["preemptionPolicy"]) == (-10, "Never")
    made = rendered.one("Deployment", "rebalancer-warm-spot")
    pod = made["spec"]["template"]
    assert made["spec"]["replicas"] == 4
    assert pod["metadata"]["labels"]["rebalancer.io/placeholder"] == "spot"
    assert pod["spec"]["priorityClassName"] == lowest["metadata"]["name"]
    assert pod["spec"]["nodeSelector"] == {"pool": "spot"}
    assert pod["spec"]["terminationGracePeriodSeconds"] == 0
    assert pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == 2
    assert made["spec"]["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    service = rendered.one("Deployment", "rebalancer")["spec"]["selector"]["matchLabels"]
    assert not service.items() <= pod["metadata"]["labels"].items(), "none is taken for the service"


def test_a_new_version_never_has_more_placeholders_than_before_and_the_chart_s_alone_replaces_none() -> None:
    made = render({"policy": policy(SPOT)}).one("Deployment", "rebalancer-warm-spot")
    assert made["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}
    version = {"app.kubernetes.io/version", "helm.sh/chart"}
    assert version <= made["metadata"]["labels"].keys()
    assert not version & made["spec"]["template"]["metadata"]["labels"].keys()


@pytest.mark.parametrize("name", ["", "gpu-rebalancer"])
def test_the_command_line_takes_the_services_pods_for_it_and_no_others_whatever_their_name(name: str) -> None:
    given = {"policy": policy(SPOT), "nameOverride": name, "aggregate.enabled": True}
    makers = render(EVERY_ACTUATION | given).of("Deployment", "StatefulSet", "Job")
    assert {each["kind"] for each in makers} == {"Deployment", "StatefulSet", "Job"}
    assert sum("-warm-" in each["metadata"]["name"] for each in makers) == 1
    for each in makers:
        is_service = each["spec"]["template"]["spec"]["containers"][0].get("args") == ["run"]
        for labels in (each["metadata"]["labels"], each["spec"]["template"]["metadata"]["labels"]):
            assert (labels.get(LABEL) == SERVICE) is is_service, each["metadata"]["name"]


def test_the_service_gets_no_right_for_them() -> None:
    warm, cold = (render(EVERY_ACTUATION | {"policy": policy(SPOT | {"warmGpus": gpus})}) for gpus in (8, 0))
    assert warm.rights == cold.rights
    assert set(warm.kinds) - set(cold.kinds) == {"PriorityClass"}


def test_a_policy_given_as_text_is_read_too_and_one_in_a_config_map_of_yours_is_not() -> None:
    text = yaml.safe_dump(policy(SPOT))
    assert [each["metadata"]["name"] for each in render({"policy": text}).of("Deployment")] == [
        "rebalancer",
        "rebalancer-warm-spot",
    ]
    assert len(render({"policyConfigMap": "ours"}).of("Deployment", "PriorityClass")) == 1


@pytest.mark.parametrize(
    ("pool", "more", "why"),
    [
        ({"warmGpus": 7}, {"warm.gpusPerPod": 2}, "is 7, no multiple of warm.gpusPerPod, 2"),
        ({"deviceClass": "gpu.nvidia.com"}, {}, "placeholders ask for GPUs by resource"),
        ({}, {"warm.priority": 0}, "/warm/priority"),
    ],
)
def test_what_would_hold_other_gpus_than_wanted_is_refused(pool: Json, more: Json, why: str) -> None:
    with pytest.raises(Refused, match=why):
        render({"policy": policy(SPOT | pool)} | more)


def test_of_kube_system_one_config_map_may_be_read_and_only_where_that_is_wanted() -> None:
    off, on = render(), render({"clusterAutoscaler": True})
    assert on.rights - off.rights == {Right("kube-system", "", "configmaps", verb) for verb in ("list", "watch")}
    (rule,) = on.one("Role", "rebalancer.gpu.node-groups")["rules"]
    assert rule["resourceNames"] == ["cluster-autoscaler-status"], json.dumps(rule)

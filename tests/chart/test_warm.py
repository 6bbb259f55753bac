"""Placeholders of pools that keep GPUs warm, and the one ConfigMap that tells of node groups."""

import json
import re

import pytest
import yaml

from rebalancer.cli.remote.client import LABEL, SERVICE
from tests.chart.helm import EVERY_ACTUATION, Json, Refused, Rendered, Right, render

SPOT: Json = {"name": "spot", "nodeLabels": {"pool": "spot"}, "nodePools": ["spot"], "gpusPerNode": 8, "warmGpus": 8}


def policy(*pools: Json) -> Json:
    return {"apiVersion": "rebalancer.io/v1alpha1", "kind": "Policy", "pools": list(pools), "models": []}


def acting(given: Json) -> Rendered:
    return render({"writeMode": "act", **given})


def test_a_pool_with_warm_gpus_gets_placeholders_that_hold_as_many_and_give_way_to_everybody() -> None:
    pools = policy(SPOT, {"name": "a100", "nodeLabels": {"pool": "a100"}})
    rendered = acting({"policy": pools, "warm.gpusPerPod": 2})
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
    made = acting({"policy": policy(SPOT)}).one("Deployment", "rebalancer-warm-spot")
    assert made["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}
    version = {"app.kubernetes.io/version", "helm.sh/chart"}
    assert version <= made["metadata"]["labels"].keys()
    assert not version & made["spec"]["template"]["metadata"]["labels"].keys()


@pytest.mark.parametrize("name", ["", "gpu-rebalancer"])
def test_the_command_line_takes_the_services_pods_for_it_and_no_others_whatever_their_name(name: str) -> None:
    given = {"policy": policy(SPOT), "nameOverride": name, "aggregate.enabled": True}
    makers = acting(EVERY_ACTUATION | given).of("Deployment", "StatefulSet", "Job")
    assert {each["kind"] for each in makers} == {"Deployment", "StatefulSet", "Job"}
    assert sum("-warm-" in each["metadata"]["name"] for each in makers) == 1
    for each in makers:
        is_service = each["spec"]["template"]["spec"]["containers"][0].get("args") == ["run"]
        for labels in (each["metadata"]["labels"], each["spec"]["template"]["metadata"]["labels"]):
            assert (labels.get(LABEL) == SERVICE) is is_service, each["metadata"]["name"]


def placeholders(rendered: Rendered) -> list[Json]:
    return [each for each in rendered.of("Deployment") if each["metadata"]["name"] != "rebalancer"]


@pytest.mark.parametrize("more", [{}, {"kafka.enabled": False, "prometheus.url": "http://p:9090"}], ids=str)
def test_in_shadow_there_are_none_for_they_bring_nodes(more: Json) -> None:
    shadow = render({"policy": policy(SPOT)} | more)
    assert placeholders(shadow) == shadow.of("PriorityClass") == []


@pytest.mark.parametrize("name", ["4090", "no", "1e3", "0x10", "a" * 62 + "-b", "a" * 64 + ".b"])
def test_a_pool_may_be_called_as_a_policy_may_call_it(name: str) -> None:
    (made,) = placeholders(acting({"policy": policy(SPOT | {"name": name})}))
    value = made["spec"]["template"]["metadata"]["labels"]["rebalancer.io/placeholder"]
    assert value == name or len(name) > 63
    assert re.fullmatch(r"[a-z0-9][-a-z0-9.]{0,61}[a-z0-9]", value)
    assert re.fullmatch(r"[a-z0-9][-a-z0-9.]{0,61}[a-z0-9]", made["metadata"]["name"])
    assert made["spec"]["selector"]["matchLabels"]["rebalancer.io/placeholder"] == value


def test_two_pools_whose_long_names_begin_alike_have_placeholders_of_their_own() -> None:
    pools = [SPOT | {"name": "a" * 70 + zone} for zone in "ab"]
    made = placeholders(acting({"policy": policy(*pools), "fullnameOverride": "rebalancer"}))
    assert len({each["metadata"]["name"] for each in made}) == 2
    assert len({each["spec"]["selector"]["matchLabels"]["rebalancer.io/placeholder"] for each in made}) == 2


def test_another_priority_is_another_class_for_what_one_says_cannot_be_changed() -> None:
    first, second = (acting({"policy": policy(SPOT), "warm.priority": priority}) for priority in (-10, -5))
    names = [each.one("PriorityClass")["metadata"]["name"] for each in (first, second)]
    assert len(set(names)) == 2
    assert placeholders(second)[0]["spec"]["template"]["spec"]["priorityClassName"] == names[1]


def test_the_service_gets_no_right_for_them() -> None:
    warm, cold = (acting(EVERY_ACTUATION | {"policy": policy(SPOT | {"warmGpus": gpus})}) for gpus in (8, 0))
    assert warm.rights == cold.rights
    assert set(warm.kinds) - set(cold.kinds) == {"PriorityClass"}


def test_a_policy_given_as_text_is_read_too_and_one_in_a_config_map_of_yours_is_not() -> None:
    text = yaml.safe_dump(policy(SPOT))
    assert [each["metadata"]["name"] for each in acting({"policy": text}).of("Deployment")] == [
        "rebalancer",
        "rebalancer-warm-spot",
    ]
    assert len(acting({"policyConfigMap": "ours"}).of("Deployment", "PriorityClass")) == 1


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

"""The aggregate tier as the chart brings it: pods with stable names and no right, scaled by lag."""

import pytest

from rebalancer.kafka.topic_plan import GROUP
from rebalancer.settings.service import PREFIX, ServiceSettings
from tests.chart.helm import Json, Refused, Rendered, render

ON: Json = {
    "aggregate.enabled": True,
    "aggregate.keda.enabled": True,
    "aggregate.keda.authentication": "kafka-login",
    "kafka": {
        "bootstrap": "kafka-0:9093,kafka-1:9093",
        "securityProtocol": "SASL_SSL",
        "username": "rebalancer",
        "topicPrefix": "gpu.",
        "passwordSecret": {"name": "kafka", "key": "password"},
        "caConfigMap": {"name": "kafka-ca", "key": "ca.crt"},
        "overrideKeysSecret": "signers",
    },
    "clusterName": "eu-1",
    "serviceMonitor.enabled": True,
}
NAME = "rebalancer-aggregate"


@pytest.fixture(scope="module")
def rendered() -> Rendered:
    return render(ON)


def test_without_the_switch_there_is_no_tier_and_the_service_reads_metrics_itself() -> None:
    rendered = render()
    assert "StatefulSet" not in rendered.kinds
    (container,) = rendered.one("Deployment")["spec"]["template"]["spec"]["containers"]
    assert {"name": "REBALANCER_AGGREGATED", "value": "false"} in container["env"]


def test_with_it_the_service_reads_what_the_tier_writes(rendered: Rendered) -> None:
    (container,) = rendered.one("Deployment")["spec"]["template"]["spec"]["containers"]
    assert {"name": "REBALANCER_AGGREGATED", "value": "true"} in container["env"]


def test_its_account_has_no_right_and_its_pods_no_token(rendered: Rendered) -> None:
    pod = rendered.one("StatefulSet")["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == NAME
    assert pod["automountServiceAccountToken"] is False
    assert rendered.one("ServiceAccount", NAME)["automountServiceAccountToken"] is False
    bound = [
        subject["name"] for each in rendered.of("RoleBinding", "ClusterRoleBinding") for subject in each["subjects"]
    ]
    assert NAME not in bound
    assert [volume["name"] for volume in pod["volumes"]] == ["kafka-password", "kafka-ca"]


def test_a_pod_keeps_its_name_in_the_group_and_understands_its_settings(rendered: Rendered) -> None:
    (container,) = rendered.one("StatefulSet")["spec"]["template"]["spec"]["containers"]
    assert container["args"] == ["aggregate"]
    (instance,) = [each for each in container["env"] if each["name"] == f"{PREFIX}INSTANCE"]
    assert instance["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.name"}}
    given = {each["name"].removeprefix(PREFIX).lower(): each["value"] for each in container["env"] if "value" in each}
    assert ServiceSettings.model_validate(given).topic_prefix == "gpu."


def test_it_is_scaled_by_what_its_group_has_not_read(rendered: Rendered) -> None:
    scaled = rendered.one("ScaledObject")["spec"]
    assert scaled["scaleTargetRef"]["name"] == rendered.one("StatefulSet")["metadata"]["name"]
    assert "replicas" not in rendered.one("StatefulSet")["spec"], "KEDA and helm would take turns"
    (trigger,) = scaled["triggers"]
    assert trigger["authenticationRef"] == {"name": "kafka-login"}
    assert trigger["metadata"] == {
        "bootstrapServers": "kafka-0:9093,kafka-1:9093",
        "consumerGroup": f"gpu.{GROUP}",
        "topic": "gpu.metrics",
        "lagThreshold": "20000",
        "sasl": "scram_sha512",
        "tls": "enable",
    }


@pytest.mark.parametrize("kind", ["NetworkPolicy", "PodDisruptionBudget", "Service", "ServiceMonitor"])
def test_what_is_for_the_service_does_not_mean_its_pods(rendered: Rendered, kind: str) -> None:
    labels = rendered.one("StatefulSet")["spec"]["template"]["metadata"]["labels"]
    for each in rendered.of(kind):
        selector = each["spec"].get("podSelector", each["spec"].get("selector", {}))
        selected = selector.get("matchLabels", selector)
        assert (selected.items() <= labels.items()) == (each["metadata"]["name"] == NAME), each["metadata"]["name"]


def test_without_kafka_there_is_nothing_to_aggregate() -> None:
    with pytest.raises(Refused, match="the tier reads and writes Kafka"):
        render({"aggregate.enabled": True, "kafka.enabled": False, "prometheus.url": "http://prometheus:9090"})


def test_a_lag_of_millions_is_a_number_that_keda_reads() -> None:
    scaled = render(ON | {"aggregate.keda.lagThreshold": 1_000_000}).one("ScaledObject")
    assert scaled["spec"]["triggers"][0]["metadata"]["lagThreshold"] == "1000000"

"""The chart without Kafka: it watches in shadow, and its account has no verb by which anything could change."""

import pytest

from rebalancer.settings.service import PREFIX, ServiceSettings
from tests.chart.helm import EVERY_ACTUATION, Json, Refused, render
from tests.chart.test_rendered import environment

OBSERVING: Json = {"kafka.enabled": False, "prometheus.url": "http://prometheus.monitoring:9090"}
READS = {"get", "list", "watch"}


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"namespaces": ["serving"]},
        {"targetKinds": ["statefulsets.apps", "leaderworkersets.leaderworkerset.x-k8s.io"], "dra": True},
        {"login": {"operators": {"groups": ["sre"]}}},
        {"api.writes": True, "handBack.unnamed": True, "serviceMonitor.enabled": True},
    ],
    ids=str,
)
def test_its_account_has_no_verb_but_those_that_read(more: Json) -> None:
    rights = render(OBSERVING | more).rights
    assert {right.verb for right in rights} <= READS
    assert {"nodes", "pods", "deployments", "horizontalpodautoscalers"} <= {right.resource for right in rights}


def test_its_environment_makes_settings_that_reach_no_kafka_and_answer_on_loopback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rendered = render(OBSERVING | {"kafka.bootstrap": "kafka:9093", "prometheus.backfillHours": 48})
    for name, value in environment(rendered).items():
        monkeypatch.setenv(PREFIX + name, value)
    settings = ServiceSettings()
    assert (settings.kafka_enabled, settings.kafka_bootstrap, settings.lease_name) == (False, "", "")
    assert (settings.api_auth, settings.api_host, settings.backfill_hours) == ("none", "127.0.0.1", 48.0)
    ports = [rule["ports"][0]["port"] for rule in rendered.one("NetworkPolicy")["spec"]["egress"]]
    assert ports == [53, 443, 9090]
    assert rendered.of("Service", "Job", "Role") == []


def test_a_hosted_prometheus_is_asked_with_signatures_for_its_region(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment(render(OBSERVING | {"prometheus.sigv4Region": "eu-west-1"})).items():
        monkeypatch.setenv(PREFIX + name, value)
    assert ServiceSettings().prometheus_sigv4_region == "eu-west-1"


def test_one_prometheus_of_several_clusters_is_asked_for_this_one_s_series(monkeypatch: pytest.MonkeyPatch) -> None:
    labels = {"cluster": "prod-eu", "region": "eu"}
    for name, value in environment(render(OBSERVING | {"prometheus.matchers": labels})).items():
        monkeypatch.setenv(PREFIX + name, value)
    assert ServiceSettings().prometheus_matchers == "cluster=prod-eu,region=eu"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"writeMode": "act"}, "what was written is kept in Kafka over a crash. Without it the service observes"),
        (EVERY_ACTUATION, "an account that observes has no right to write"),
        ({"drain": {"enabled": True, "nodeLabels": [{"pool": "a"}]}}, "an account that observes has no right to write"),
        ({"prometheus.url": ""}, "every reading comes from one of the two. Set prometheus.url"),
        ({"kafka.overrideKeysSecret": "signers"}, "signed overrides are records in Kafka"),
    ],
)
def test_what_would_write_or_needs_kafka_is_refused_in_a_sentence(given: Json, said: str) -> None:
    with pytest.raises(Refused) as refused:
        render(OBSERVING | given)
    assert "kafka.enabled is false and" in str(refused.value)
    assert said in str(refused.value)

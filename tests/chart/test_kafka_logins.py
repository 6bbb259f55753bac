"""How the chart says who we are to Kafka: what is mounted, what is said in the environment, and to whom it is given.

That a broker which checks it lets us in, before and after a rotation: tests/real/test_kafka_by_chart.py.
"""

import pytest

from rebalancer.settings.service import PREFIX, ServiceSettings
from tests.chart.helm import Json, Refused, Rendered, render

BASE: Json = {
    "aggregate.enabled": True,
    "aggregate.keda.enabled": True,
    "kafka.bootstrap": "kafka:9093",
    "kafka.caConfigMap": {"name": "kafka-ca", "key": "ca.crt"},
}
CERTIFICATE: Json = BASE | {
    "kafka.certificateSecret": {"name": "user", "certificate": "user.crt", "privateKey": "user.key"}
}
OAUTH: Json = BASE | {"kafka.securityProtocol": "SASL_SSL", "kafka.saslMechanism": "OAUTHBEARER"}
BY_URL: Json = OAUTH | {
    "kafka.tokenUrl": "https://login.example.com/token",
    "kafka.username": "rebalancer",
    "kafka.passwordSecret": {"name": "client", "key": "secret"},
}
MSK: Json = BASE | {
    "kafka.securityProtocol": "SASL_SSL",
    "kafka.saslMechanism": "AWS_MSK_IAM",
    "kafka.awsRegion": "eu-west-1",
    "serviceAccountAnnotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/rebalancer"},
}
SHOWN = "certificate/tls"


def settings(rendered: Rendered, kind: str) -> ServiceSettings:
    (container,) = rendered.one(kind)["spec"]["template"]["spec"]["containers"]
    given = {each["name"]: each["value"] for each in container["env"] if "value" in each}
    ours = {name.removeprefix(PREFIX).lower(): value for name, value in given.items() if name.startswith(PREFIX)}
    return ServiceSettings.model_validate(ours)


def mounted(rendered: Rendered, kind: str) -> dict[str, Json]:
    """What lies below our folder of Kafka's files, by path."""
    spec = rendered.one(kind)["spec"]["template"]["spec"]
    sources = {each["name"]: each for each in spec["volumes"]}
    places = {each["mountPath"]: sources[each["name"]] for each in spec["containers"][0]["volumeMounts"]}
    return {path: source for path, source in places.items() if path.startswith("/etc/rebalancer-kafka")}


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
@pytest.mark.parametrize(
    ("given", "fields", "folders"),
    [
        (CERTIFICATE, {"kafka_cert_file": f"{SHOWN}.crt", "kafka_key_file": f"{SHOWN}.key"}, {"certificate"}),
        (OAUTH | {"kafka.tokenAudience": "kafka"}, {"kafka_token_file": "token/token"}, {"token"}),
        (OAUTH | {"kafka.tokenSecret": {"name": "t", "key": "jwt"}}, {"kafka_token_file": "token/token"}, {"token"}),
        (BY_URL, {"kafka_password_file": "password/password"}, {"password"}),
        (MSK, {}, set()),
    ],
    ids=["certificate", "audience", "secret", "url", "msk"],
)  # fmt: skip
def test_the_service_and_its_tier_have_the_files_that_their_settings_name(
    kind: str, given: Json, fields: dict[str, str], folders: set[str]
) -> None:
    rendered = render(given)
    understood = settings(rendered, kind)
    for field, path in fields.items():
        assert str(getattr(understood, field)) == f"/etc/rebalancer-kafka/{path}"
    assert set(mounted(rendered, kind)) == {f"/etc/rebalancer-kafka/{name}" for name in folders | {"ca"}}


def test_the_pod_s_own_token_is_for_that_audience_and_renewed_by_the_kubelet() -> None:
    rendered = render(OAUTH | {"kafka.tokenAudience": "kafka.example.com"})
    (source,) = mounted(rendered, "Deployment")["/etc/rebalancer-kafka/token"]["projected"]["sources"]
    asked = {"path": "token", "audience": "kafka.example.com", "expirationSeconds": 3600}
    assert source == {"serviceAccountToken": asked}


def test_strimzi_s_names_of_keys_are_laid_under_ours() -> None:
    source = mounted(render(CERTIFICATE), "Deployment")["/etc/rebalancer-kafka/certificate"]["secret"]
    assert source["items"] == [{"key": "user.crt", "path": "tls.crt"}, {"key": "user.key", "path": "tls.key"}]
    assert source["secretName"] == "user"


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_the_brokers_ca_may_be_in_a_secret_as_strimzi_has_it(kind: str) -> None:
    strimzi_s = {"kafka.caConfigMap": {"name": ""}, "kafka.caSecret": {"name": "prod-cluster-ca-cert", "key": "ca.crt"}}
    rendered = render(CERTIFICATE | strimzi_s)
    source = mounted(rendered, kind)["/etc/rebalancer-kafka/ca"]["secret"]
    assert (source["secretName"], source["items"]) == ("prod-cluster-ca-cert", [{"key": "ca.crt", "path": "ca.crt"}])
    assert str(settings(rendered, kind).kafka_ca_file) == "/etc/rebalancer-kafka/ca/ca.crt"


def test_the_brokers_ca_comes_from_one_place() -> None:
    with pytest.raises(Refused, match=r"kafka\.caConfigMap and kafka\.caSecret"):
        render(CERTIFICATE | {"kafka.caSecret": {"name": "prod-cluster-ca-cert", "key": "ca.crt"}})


def test_with_msk_s_iam_both_accounts_carry_the_role_and_keda_asks_as_we_do() -> None:
    rendered = render(MSK)
    roles = [each["metadata"].get("annotations") for each in rendered.of("ServiceAccount")]
    assert roles.count(MSK["serviceAccountAnnotations"]) == 2
    assert settings(rendered, "Deployment").kafka_aws_region == "eu-west-1"
    (trigger,) = rendered.one("ScaledObject")["spec"]["triggers"]
    asked = {name: trigger["metadata"][name] for name in ("sasl", "saslTokenProvider", "awsRegion")}
    assert asked == {"sasl": "oauthbearer", "saslTokenProvider": "aws_msk_iam", "awsRegion": "eu-west-1"}


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
@pytest.mark.parametrize("scope", ["", "https://example.servicebus.windows.net/.default"])
def test_the_service_and_its_tier_ask_for_the_token_with_the_scope_that_is_set(kind: str, scope: str) -> None:
    assert settings(render(BY_URL | {"kafka.tokenScope": scope}), kind).kafka_token_scope == scope


def test_an_address_of_tokens_with_a_password_in_it_is_refused() -> None:
    with pytest.raises(Refused, match="kafka/tokenUrl"):
        render(OAUTH | {"kafka.tokenUrl": "https://me:secret@login.example.com/token"})


def ways_out(rendered: Rendered, policy: str) -> dict[int, list[Json]]:
    """Its egress rules with addresses, by port."""
    rules = rendered.one("NetworkPolicy", policy)["spec"]["egress"]
    return {port["port"]: rule["to"] for rule in rules if "to" in rule for port in rule["ports"]}


@pytest.mark.parametrize("policy", ["rebalancer", "rebalancer-aggregate"])
def test_who_logs_in_to_kafka_may_reach_who_gives_the_token(policy: str) -> None:
    login = {"networkPolicy.kafkaLogin": {"ports": [8443], "to": [{"ipBlock": {"cidr": "10.1.0.0/16"}}]}}
    for given in (BY_URL, MSK):
        assert 443 in ways_out(render(given), policy)
        assert ways_out(render(given | login), policy)[8443] == [{"ipBlock": {"cidr": "10.1.0.0/16"}}]
    for given in (CERTIFICATE, OAUTH | {"kafka.tokenAudience": "kafka"}):
        assert 8443 not in ways_out(render(given | login), policy)

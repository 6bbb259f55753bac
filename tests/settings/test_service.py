"""The environment makes the settings, or one line for each variable that is wrong."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from rebalancer.settings.queue_url import region_of
from rebalancer.settings.service import BadSettings, ServiceSettings, read_settings


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setenv("REBALANCER_KAFKA_BOOTSTRAP", "kafka:9092")
    return monkeypatch


def test_a_broker_is_all_that_must_be_said_and_the_rest_is_careful() -> None:
    settings = read_settings()
    assert settings.kafka_bootstrap == "kafka:9092"
    assert (settings.write_mode, settings.api_host, settings.kafka_security_protocol) == ("shadow", "127.0.0.1", "SSL")
    assert settings.account == "system:serviceaccount:rebalancer:rebalancer"
    assert settings.installation == "rebalancer/rebalancer"


def test_our_pods_are_in_the_namespace_that_is_set_and_without_one_we_run_in_none(
    environment: pytest.MonkeyPatch,
) -> None:
    assert read_settings().pod_namespace == ""
    environment.setenv("REBALANCER_OWN_NAMESPACE", "gpu-ops")
    assert read_settings().pod_namespace == "gpu-ops"


def test_empty_variables_count_as_unset(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("REBALANCER_API_PORT", "")
    assert read_settings().api_port == 8080


def test_everything_wrong_is_said_at_once_with_variable_value_range_and_meaning(
    environment: pytest.MonkeyPatch,
) -> None:
    environment.delenv("REBALANCER_KAFKA_BOOTSTRAP")
    environment.setenv("REBALANCER_API_PORT", "tcp://10.0.0.1:8080")
    environment.setenv("REBALANCER_WRITE_MOD", "act")
    environment.setenv("REBALANCER_LOG_LEVEL", "loud")
    with pytest.raises(BadSettings) as refused:
        read_settings()
    assert str(refused.value).splitlines() == [
        "REBALANCER_WRITE_MOD: no such setting; did you mean REBALANCER_WRITE_MODE?",
        "REBALANCER_KAFKA_BOOTSTRAP is not set: HOST:PORT of Kafka brokers, separated by commas.",
        "REBALANCER_API_PORT=tcp://10.0.0.1:8080: allowed 0 to 65535. Port of the API; 0 takes a free one.",
        "REBALANCER_LOG_LEVEL=loud: allowed debug, info, warning or error. Least level logged.",
    ]


def test_what_kubernetes_puts_there_for_a_service_of_our_name_is_left_alone(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("REBALANCER_SERVICE_HOST", "10.0.0.1")
    environment.setenv("REBALANCER_PORT_8080_TCP_PROTO", "tcp")
    assert read_settings().api_port == 8080


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"KAFKA_SECURITY_PROTOCOL": "SASL_SSL"}, "set REBALANCER_KAFKA_USERNAME and REBALANCER_KAFKA_PASSWORD_FILE"),
        ({"API_PORT": "9000", "PROBE_PORT": "9000"}, "are both 9000"),
        ({"CRASH_AT": "kube/update/scale:1:before"}, "kills the service; leave it out, or set REBALANCER_DEV=true"),
        ({"KAFKA_SECURITY_PROTOCOL": "PLAINTEXT", "KAFKA_BOOTSTRAP": "k:1"}, "say by REBALANCER_DEV=true"),
        ({"KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT", "KAFKA_BOOTSTRAP": "localhost:1,k:1"}, "REBALANCER_DEV=true"),
        ({"KAFKA_CERT_FILE": "/c"}, "KAFKA_KEY_FILE go together"),
        ({"KAFKA_TOKEN_URL": "http://login.example/token"}, "KAFKA_TOKEN_URL: give https://"),
        ({"KAFKA_TOKEN_URL": "https://[token"}, "KAFKA_TOKEN_URL: give https://"),
        ({"KAFKA_SECURITY_PROTOCOL": "SASL_SSL", "KAFKA_SASL_MECHANISM": "AWS_MSK_IAM"}, "KAFKA_AWS_REGION"),
        ({"KAFKA_SECURITY_PROTOCOL": "SASL_SSL", "KAFKA_SASL_MECHANISM": "OAUTHBEARER"}, "KAFKA_TOKEN_FILE, or"),
        (
            {"NOTICES_QUEUE_URL": "capacity-notices"},
            "give a queue's URL, https://sqs.REGION.amazonaws.com/ACCOUNT/NAME",
        ),
        ({"NOTICES_QUEUE_URL": "http://sqs.eu-west-1.amazonaws.com/123456789012/q"}, "give a queue's URL"),
        ({"NOTICES_QUEUE_URL": "https://queue.example.com/123456789012/q"}, "set REBALANCER_NOTICES_QUEUE_REGION"),
        ({"PROMETHEUS_MATCHERS": "cluster=eu,2=b"}, "PROMETHEUS_MATCHERS: '2=b' is no LABEL=VALUE"),
        ({"PROMETHEUS_MATCHERS": '{cluster="eu"}'}, "is no LABEL=VALUE; several are separated by commas"),
    ],
)
def test_settings_that_do_not_agree_are_refused(
    environment: pytest.MonkeyPatch, variables: dict[str, str], said: str
) -> None:
    for name, value in variables.items():
        environment.setenv(f"REBALANCER_{name}", value)
    with pytest.raises(BadSettings, match=said):
        read_settings()


OBSERVING = {"KAFKA_ENABLED": "false", "PROMETHEUS_URL": "http://prometheus:9090", "API_AUTH": "none"}


def test_without_kafka_a_prometheus_is_all_that_must_be_said(environment: pytest.MonkeyPatch) -> None:
    environment.delenv("REBALANCER_KAFKA_BOOTSTRAP")
    for name, value in OBSERVING.items():
        environment.setenv(f"REBALANCER_{name}", value)
    settings = read_settings()
    assert (settings.kafka_enabled, settings.write_mode, settings.backfill_hours) == (False, "shadow", 24.0)


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"WRITE_MODE": "act"}, "WRITE_MODE=act needs Kafka, which keeps what was written over a crash; without it"),
        ({"PROMETHEUS_URL": ""}, "set REBALANCER_PROMETHEUS_URL: without Kafka every reading comes from there"),
        ({"LEASE_NAME": "rebalancer"}, "LEASE_NAME=rebalancer would be written to; leave it out"),
        (
            {"API_AUTH": "kubernetes"},
            "would ask for token reviews, which are writes; use none, with the API on loopback",
        ),
        ({"OVERRIDE_KEYS_DIR": "/keys", "CLUSTER_NAME": "eu"}, "OVERRIDE_KEYS_DIR=/keys is for records in Kafka"),
    ],
)
def test_without_kafka_whatever_would_write_or_needs_it_is_refused_in_a_sentence(
    environment: pytest.MonkeyPatch, variables: dict[str, str], said: str
) -> None:
    for name, value in (OBSERVING | variables).items():
        environment.setenv(f"REBALANCER_{name}", value)
    with pytest.raises(BadSettings, match=f"REBALANCER_KAFKA_ENABLED=false: .*{said}"):
        read_settings()


def test_a_password_is_read_from_its_file_and_never_shown(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("s3cret\n")
    settings = ServiceSettings(
        kafka_bootstrap="k:1",
        kafka_security_protocol="SASL_SSL",
        kafka_username="u",
        kafka_password_file=tmp_path / "password",
    )
    password = settings.kafka_password()
    assert password is not None
    assert password.get_secret_value() == "s3cret"
    assert "s3cret" not in f"{settings!r}{password!r}{settings.model_dump()}"


@pytest.mark.parametrize(
    "variables",
    [
        {"KAFKA_SECURITY_PROTOCOL": "PLAINTEXT", "KAFKA_BOOTSTRAP": "k:1", "DEV": "true"},
        {"KAFKA_SECURITY_PROTOCOL": "PLAINTEXT", "KAFKA_BOOTSTRAP": "127.0.0.1:1, localhost:2,[::1]:3"},
        {"KAFKA_SECURITY_PROTOCOL": "SASL_SSL", "KAFKA_SASL_MECHANISM": "AWS_MSK_IAM", "KAFKA_AWS_REGION": "eu-west-1"},
        {"KAFKA_SECURITY_PROTOCOL": "SASL_SSL", "KAFKA_SASL_MECHANISM": "OAUTHBEARER", "KAFKA_TOKEN_FILE": "/t"},
        {"KAFKA_TOKEN_URL": "http://127.0.0.1:8080/token"},
        {"KAFKA_TOKEN_URL": "http://login.example/token", "DEV": "true"},
    ],
)
def test_settings_that_agree_are_taken(environment: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    for name, value in variables.items():
        environment.setenv(f"REBALANCER_{name}", value)
    assert read_settings().kafka_bootstrap


def test_a_password_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    settings = ServiceSettings(kafka_bootstrap="k:1", kafka_password_file=tmp_path / "none")
    with pytest.raises(BadSettings, match=r"REBALANCER_KAFKA_PASSWORD_FILE=.*none: cannot be read"):
        settings.kafka_password()


def test_a_misspelled_field_in_code_is_an_error() -> None:
    with pytest.raises(ValidationError, match="kafka_bootstap"):
        ServiceSettings.model_validate({"kafka_bootstrap": "k:1", "kafka_bootstap": "k:2"})


def test_every_setting_says_what_it_is_for() -> None:
    assert [name for name, field in ServiceSettings.model_fields.items() if not field.description] == []


@pytest.mark.parametrize(
    "host",
    [
        "sqs.eu-west-1.amazonaws.com",
        "vpce-0a1b-2c3d.sqs.eu-west-1.vpce.amazonaws.com",
        "sqs.eu-west-1.api.aws",
        "sqs-fips.eu-west-1.amazonaws.com",
    ],
)
def test_the_region_of_a_queue_is_in_its_address(environment: pytest.MonkeyPatch, host: str) -> None:
    environment.setenv("REBALANCER_NOTICES_QUEUE_URL", f"https://{host}/123456789012/capacity-notices")
    assert region_of(read_settings().notices_queue_url) == "eu-west-1"

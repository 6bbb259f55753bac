"""EKS Pod Identity gives an account its role at a link-local address, the only one that is ever open."""

import pytest

from tests.chart.helm import Json, render
from tests.chart.test_egress import Address, lets_out
from tests.chart.test_kafka_logins import MSK
from tests.chart.test_rendered import QUEUE

AGENTS = (Address("169.254.170.23", 80), Address("fd00:ec2::23", 80))
CREDENTIALS_OF_THE_NODE = (Address("169.254.169.254", 80), Address("fd00:ec2::254", 80), Address("169.254.170.2", 80))
ON_MSK: Json = MSK | {"serviceAccountAnnotations": {}}
AMAZON: Json = {"prometheus": {"url": "https://aps.example.com", "sigv4Region": "eu-west-1"}}


def opened(given: Json, policy: str, addresses: tuple[Address, ...]) -> list[bool]:
    """Which of the addresses the network policy lets out to."""
    rules = render(given).one("NetworkPolicy", policy)["spec"]["egress"]
    return [any(lets_out(rule, address) for rule in rules) for address in addresses]


@pytest.mark.parametrize(
    ("given", "policy", "open_"),
    [
        (ON_MSK, "rebalancer", True),
        (ON_MSK, "rebalancer-aggregate", True),
        ({"notices.queueUrl": QUEUE}, "rebalancer", True),
        (AMAZON, "rebalancer", True),
        (AMAZON | {"kafka.enabled": False}, "rebalancer", True),
        ({"notices.queueUrl": QUEUE, "aggregate.enabled": True}, "rebalancer-aggregate", False),
        (MSK, "rebalancer", False),  # its role comes by an annotation of its account, from STS
        ({"kafka.saslMechanism": "AWS_MSK_IAM"}, "rebalancer", False),  # without SASL nobody logs in
        ({"prometheus.url": "https://prometheus:9090"}, "rebalancer", False),
    ],
)
def test_it_is_reached_where_an_identity_is_wanted_and_no_annotation_brings_one(
    given: Json, policy: str, *, open_: bool
) -> None:
    assert opened(given, policy, AGENTS) == [open_, open_]
    assert not any(opened(given, policy, CREDENTIALS_OF_THE_NODE))

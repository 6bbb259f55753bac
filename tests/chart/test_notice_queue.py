"""What a queue of notices brings to an installation."""

from tests.chart.helm import render
from tests.chart.test_rendered import EVERYTHING_ON, environment


def test_a_queue_of_notices_brings_its_address_a_role_for_our_account_and_a_way_out() -> None:
    with_queue, without = render(EVERYTHING_ON), render(EVERYTHING_ON | {"notices": {"queueUrl": "", "roleArn": ""}})
    assert environment(with_queue)["NOTICES_QUEUE_URL"].endswith("/123456789012/capacity-notices")
    assert "NOTICES_QUEUE_URL" not in environment(without)
    role = {"eks.amazonaws.com/role-arn": "arn:aws:iam::123456789012:role/rebalancer"}
    accounts = [each for each in with_queue.of("ServiceAccount") if each["metadata"].get("annotations") == role]
    assert [each["metadata"]["name"] for each in accounts] == ["rebalancer"]
    ways = [len(each.one("NetworkPolicy")["spec"]["egress"]) for each in (with_queue, without)]
    assert ways[0] == ways[1] + 1

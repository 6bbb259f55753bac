"""What a queue of notices brings to an installation."""

from tests.chart.helm import render
from tests.chart.test_rendered import EVERYTHING_ON, environment


def test_a_queue_of_notices_brings_its_address_and_a_way_out() -> None:
    with_queue, without = render(EVERYTHING_ON), render(EVERYTHING_ON | {"notices": {"queueUrl": ""}})
    assert environment(with_queue)["NOTICES_QUEUE_URL"].endswith("/123456789012/capacity-notices")
    assert "NOTICES_QUEUE_URL" not in environment(without)
    elsewhere = environment(
        render({"notices.queueUrl": "https://q.example.com/123456789012/n", "notices.region": "eu-1"})
    )
    assert elsewhere["NOTICES_QUEUE_REGION"] == "eu-1"
    ways = [len(each.one("NetworkPolicy")["spec"]["egress"]) for each in (with_queue, without)]
    assert ways[0] == ways[1] + 1

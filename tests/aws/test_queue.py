"""The door to a queue, and whose it is."""

from collections.abc import AsyncIterator
from importlib.util import find_spec

import msgspec
import pytest

from rebalancer.aws.address import QueueAddress
from rebalancer.aws.identity import AwsIdentity, NoIdentity, credentials
from rebalancer.aws.owner import QueueReader, of_another, queues_read
from rebalancer.aws.queue import NoQueue, QueueRefusal, SqsQueue
from tests.aws.server import KEY_ID, REGION, SECRET, KeySigner, SqsServer, sqs_server

WITH_EXTRA = find_spec("botocore") is not None


@pytest.fixture
async def server() -> AsyncIterator[SqsServer]:
    async with sqs_server() as running:
        yield running


@pytest.fixture
async def queue(server: SqsServer) -> AsyncIterator[SqsQueue]:
    opened = SqsQueue(QueueAddress(server.url, REGION), KeySigner())
    yield opened
    await opened.close()


async def test_what_is_taken_stays_until_it_is_deleted_by_this_delivery(server: SqsServer, queue: SqsQueue) -> None:
    sent = server.send("one")
    (first,) = await queue.take()
    assert (first.message_id, first.body, first.attributes["ApproximateReceiveCount"]) == (sent, "one", "1")
    server.lapse()
    (second,) = await queue.take()
    assert await queue.delete([first]) == 1
    assert server.there == [sent]
    assert await queue.delete([second]) == 0
    assert server.there == []


async def test_it_polls_long_hides_what_it_takes_and_asks_for_the_time_of_sending(
    server: SqsServer, queue: SqsQueue
) -> None:
    assert await queue.take() == ()
    assert server.asked == [
        (
            "ReceiveMessage",
            {
                "MaxNumberOfMessages": 10,
                "WaitTimeSeconds": 20,
                "VisibilityTimeout": 30,
                "MessageSystemAttributeNames": ["SentTimestamp", "ApproximateReceiveCount"],
            },
        )
    ]


async def test_a_refusal_is_told_in_sqs_s_own_words(server: SqsServer, queue: SqsQueue) -> None:
    server.refuses.add("ListQueueTags")
    with pytest.raises(QueueRefusal, match=r"ListQueueTags of queue capacity-notices: AccessDeniedException: no right"):
        await queue.tags()


async def test_a_queue_that_is_away_says_so(server: SqsServer) -> None:
    away = SqsQueue(QueueAddress("http://127.0.0.1:1/123456789012/gone", REGION), KeySigner())
    with pytest.raises(NoQueue, match=r"queue gone: no answer \(ClientConnectorError\)"):
        await away.take()
    await away.close()
    other = SqsQueue(QueueAddress(server.url.replace("capacity", "other"), REGION), KeySigner())
    with pytest.raises(QueueRefusal, match="QueueDoesNotExist"):
        await other.take()
    await other.close()


@pytest.mark.skipif(WITH_EXTRA, reason="the extra aws is there")
async def test_without_the_extra_it_is_said_which_one_is_needed() -> None:
    with pytest.raises(NoIdentity, match=r"rebalancer\[aws\]"):
        await AwsIdentity(REGION).signed("https://sqs.eu-west-1.amazonaws.com/", {}, b"{}")


@pytest.mark.skipif(not WITH_EXTRA, reason="the extra aws has a lock of its own: requirements/msk.txt")
async def test_with_the_extra_requests_are_signed_as_aws_wants_them(
    server: SqsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY_ID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    queue = SqsQueue(QueueAddress(server.url, REGION), AwsIdentity(REGION))
    server.send("one")
    assert [each.body for each in await queue.take()] == ["one"]
    await queue.close()
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    credentials.cache_clear()  # a process has one identity
    stranger = SqsQueue(QueueAddress(server.url, REGION), AwsIdentity(REGION))
    with pytest.raises(QueueRefusal, match="InvalidSignatureException"):
        await stranger.take()
    await stranger.close()
    credentials.cache_clear()


def a_deployment(name: str, variable: str, value: str) -> QueueReader:
    container = {"env": [{"name": variable, "value": value}, {"name": "B", "valueFrom": {}}]}
    spec = {"template": {"spec": {"containers": [{"name": "sidecar"}, container]}}}
    return msgspec.convert({"metadata": {"name": name, "namespace": "kube-system"}, "spec": spec}, QueueReader)


@pytest.mark.parametrize(
    ("name", "tags", "said"),
    [
        ("capacity-notices", {"team": "serving"}, None),
        ("Karpenter-prod", {}, "karpenter's by its name"),
        (
            "interruptions",
            {"aws:cloudformation:stack-name": "eksctl-prod-karpenter"},
            "karpenter's by its tag aws:cloud",
        ),
        ("prod", {}, "read by Deployment kube-system/karpenter, which deletes what it reads: give the EventBridge"),
        ("nth", {}, "read by Deployment kube-system/aws-node-termination-handler"),
        ("aws-node-termination-handler", {}, "node-termination-handler's by its name"),
    ],
)
def test_another_s_queue_is_known_by_its_name_its_tags_and_who_reads_it(
    name: str, tags: dict[str, str], said: str | None
) -> None:
    read_by = queues_read(
        [
            a_deployment("karpenter", "INTERRUPTION_QUEUE", "prod"),
            a_deployment("aws-node-termination-handler", "QUEUE_URL", "https://sqs.eu-west-1.amazonaws.com/1/nth"),
            a_deployment("web", "QUEUE_NAME", "capacity-notices"),
        ]
    )
    why = of_another(name, tags, read_by)
    assert why is None if said is None else said in (why or "")

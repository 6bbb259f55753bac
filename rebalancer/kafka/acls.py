"""Rights given by the broker itself. The client library speaks that request, but its admin has no method for it."""

import asyncio
from collections.abc import Iterator, Sequence
from enum import IntEnum

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaError, for_code
from aiokafka.protocol.admin import CreateAclsRequest

from rebalancer.kafka.broker import REQUEST_SECONDS, Broker, bring_up, finish
from rebalancer.kafka.topic_plan import TopicRight

SECURITY_DISABLED = 54


class NoAuthorizer(KafkaError):  # type: ignore[misc]  # the library has no types
    """The brokers check nobody's rights, so none can be given."""


class AclKind(IntEnum):
    """Kafka's numbers of what a right is to."""

    TOPIC = 2
    GROUP = 3


class AclOperation(IntEnum):
    """Kafka's numbers of what a right allows; those that we need."""

    READ = 3
    WRITE = 4
    DESCRIBE = 8


LITERAL = 3  # the name as it stands, no prefix
ALLOW = 3
ANYWHERE = "*"  # from every host


async def give(broker: Broker, granted: Sequence[TopicRight], principal: str) -> None:
    """Give a principal (`User:NAME`) these rights; one that it has already stays as it is.

    Raises NoAuthorizer, or one of BROKER_ERRORS with the broker's refusal; rights before that one are given.
    """
    client = AIOKafkaClient(**await broker.connection())
    try:
        async with asyncio.timeout(REQUEST_SECONDS):
            await bring_up(client.bootstrap())
            for kind, name, operation in _bindings(granted):
                request = CreateAclsRequest(kind, name, LITERAL, principal, ANYWHERE, operation, ALLOW)
                answer = await client.send(client.get_random_node(), request)
                for code, why in answer.creation_responses:
                    _refused(code, f"{operation.name.title()} on {kind.name.lower()} {name}", why)
    finally:
        await finish(client.close(), seconds=1.0)


def _bindings(granted: Sequence[TopicRight]) -> Iterator[tuple[AclKind, str, AclOperation]]:
    for right in granted:
        for kind, names in ((AclKind.TOPIC, right.topics), (AclKind.GROUP, right.groups)):
            for name in names:
                for operation in right.operations:
                    yield kind, name, AclOperation[operation.upper()]


def _refused(code: int, right: str, why: str | None) -> None:
    """Raise what the broker's answer to one right means, when it is a refusal."""
    if code == SECURITY_DISABLED:
        raise NoAuthorizer("the brokers have no authorizer: whoever reaches them may do all, and no right can be given")
    if code:
        raise KafkaError(f"{right} was not given: {for_code(code).__name__}{f' ({why})' if why else ''}")

"""The topics and rights that the service needs, beside those that a broker has: told, printed, made where asked for."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import InvalidReplicationFactorError, KafkaError, for_code

from rebalancer.kafka.broker import TOPICS, Broker, Topic

READ = ("metrics", "readings", "notices", "overrides", "decisions", "state")
GROUP = "aggregate"  # of the processes that read `metrics` for a service
WRITTEN = ("decisions", "state", "dead-letter")


class ThereTopic(NamedTuple):
    """A topic as the broker has it: its partitions, and those of its settings that we would set."""

    partitions: int
    settings: Mapping[str, str]


class TopicDifference(NamedTuple):
    """What is not as the service would make it.

    topic: its full name.
    what: a sentence.
    command: arguments of a Kafka tool that mend it, the tool first; empty where none does.
    """

    topic: str
    what: str
    command: tuple[str, ...] = ()


class TopicRight(NamedTuple):
    """What a user may do with topics, or with consumer groups.

    operations: Kafka's words.
    topics: full names.
    groups: full names; none where the right is one to topics.
    """

    operations: tuple[str, ...]
    topics: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()


def wanted(prefix: str) -> dict[str, Topic]:
    """Our topics by full name."""
    return {f"{prefix}{name}": topic for name, topic in TOPICS.items()}


def rights(
    prefix: str, producers: Sequence[str], *, aggregates: bool = False, queue: bool = False
) -> tuple[TopicRight, ...]:
    """What the service's user needs: no group, no commit, nothing on what it does not read or write.

    `producers`: full names of topics that others write and the policy reads. `aggregates`: whether `rebalancer
    aggregate` is the same user, which needs its group and writes what it read. `queue`: whether the service brings the
    notices of a queue into their topic.
    """
    read = (*(f"{prefix}{name}" for name in READ), *producers)
    more = (*(("readings",) if aggregates else ()), *(("notices",) if queue else ()))
    written = tuple(f"{prefix}{name}" for name in (*WRITTEN, *more))
    topics = TopicRight(("Read", "Describe"), read), TopicRight(("Write", "Describe"), written)
    return (*topics, TopicRight(("Read", "Describe"), groups=(f"{prefix}{GROUP}",))) if aggregates else topics


def create_command(name: str, topic: Topic, replication: int) -> tuple[str, ...]:
    """Arguments of kafka-topics that make a topic."""
    settings = [part for key, value in topic.settings.items() for part in ("--config", f"{key}={value}")]
    numbers = ("--partitions", str(topic.partitions), "--replication-factor", str(replication))
    return ("kafka-topics", "--create", "--if-not-exists", "--topic", name, *numbers, *settings)


def acl_commands(granted: Sequence[TopicRight], principal: str) -> Iterator[tuple[str, ...]]:
    """Arguments of kafka-acls that give a principal these rights."""
    for right in granted:
        operations = [part for operation in right.operations for part in ("--operation", operation)]
        topics = [part for topic in right.topics for part in ("--topic", topic)]
        groups = [part for group in right.groups for part in ("--group", group)]
        yield "kafka-acls", "--add", "--allow-principal", principal, *operations, *topics, *groups


def differences(prefix: str, there: Mapping[str, ThereTopic], replication: int) -> Iterator[TopicDifference]:
    """What is missing and what is otherwise, topic by topic."""
    for name, topic in wanted(prefix).items():
        existing = there.get(name)
        if existing is None:
            yield TopicDifference(name, "is missing", create_command(name, topic, replication))
            continue
        if existing.partitions < topic.partitions:
            more = ("kafka-topics", "--alter", "--topic", name, "--partitions", str(topic.partitions))
            yield TopicDifference(name, f"has {existing.partitions} of {topic.partitions} partitions", more)
        for key, value in topic.settings.items():
            have = existing.settings.get(key)
            if have != value:
                alter = ("kafka-configs", "--alter", "--entity-type", "topics", "--entity-name", name)
                what = f"has {key} {have or 'unknown'}, not {value}"
                yield TopicDifference(name, what, (*alter, "--add-config", f"{key}={value}"))


async def there_now(broker: Broker, names: Sequence[str]) -> dict[str, ThereTopic]:
    """Topics of `names` that the broker has, with their settings, by full name. Raises one of BROKER_ERRORS."""
    async with broker.admin() as admin:
        exist = set(await admin.list_topics())
        known = [name for name in names if name in exist]
        if not known:
            return {}
        described = await admin.describe_topics(known)
        answers = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name) for name in known])
        settings: dict[str, dict[str, str]] = {}
        for answer in answers:
            for _, _, _, name, entries, *_ in answer.resources:
                settings[name] = {entry[0]: entry[1] for entry in entries}
    return {
        each["topic"]: ThereTopic(len(each["partitions"]), settings.get(each["topic"], {}))
        for each in described
        if not each["error_code"]
    }


async def create(broker: Broker, names: Sequence[str], replication: int) -> None:
    """Make those of our topics; never one that is there. Raises one of BROKER_ERRORS with the broker's refusal."""
    of = wanted(broker.prefix)
    async with broker.admin() as admin:
        answer = await admin.create_topics([of[name].new(name, replication) for name in names])
    for name, code, *_ in answer.topic_errors:
        if for_code(code) is InvalidReplicationFactorError:
            raise KafkaError(f"{name} was not made: there are fewer brokers than {replication}, the --replication")
        if code:
            raise KafkaError(f"{name} was not made: {for_code(code).__name__}")

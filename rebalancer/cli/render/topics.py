"""`rebalancer topics`: what differs, who may what, and what makes it right, in Kafka's tools' words and Strimzi's."""

import io
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ruamel.yaml import YAML

from rebalancer.kafka.broker import Topic
from rebalancer.kafka.topic_plan import TopicDifference, TopicRight, acl_commands, create_command

CERTIFICATE = "CN="  # Kafka names who shows a certificate by all of its subject; Strimzi's have this part alone
API_VERSION = "kafka.strimzi.io/v1"  # since Strimzi 0.49, and from 1.0 on the only one
CLUSTER_LABEL = {"strimzi.io/cluster": "my-cluster"}


class TopicsCompared(NamedTuple):
    """How a broker stands to what the service needs, and what was done about it.

    made: full names of topics that were made.
    differences: what is otherwise now.
    given: rights that were to be given; empty where nobody asked for that.
    user: who was to have them, None where nobody asked.
    not_given: why not all of them are given; None when they are.
    """

    made: Sequence[str]
    differences: Sequence[TopicDifference]
    given: Sequence[TopicRight] = ()
    user: str | None = None
    not_given: str | None = None


def principal_of(user: str) -> str:
    """A Kafka user as rights name it."""
    return f"User:{user}"


def as_object(comparison: TopicsCompared) -> dict[str, Any]:
    """The same for scripts."""
    differences = [one._asdict() for one in comparison.differences]
    rights = [right._asdict() for right in comparison.given]
    return comparison._asdict() | {"differences": differences, "given": rights}


def render_comparison(comparison: TopicsCompared) -> str:
    """A line per topic that was made or differs, with the command that mends it below; then who may what."""
    lines = [f"{name} made" for name in comparison.made]
    for one in comparison.differences:
        lines.append(f"{one.topic} {one.what}")
        if one.command:
            lines.append(f"  {shlex.join(one.command)}")
    if not comparison.differences:
        lines.append("All topics are as the service needs them.")
    if comparison.user is not None:
        lines += _rights_told(comparison, principal_of(comparison.user))
    return "\n".join(lines)


def _rights_told(comparison: TopicsCompared, principal: str) -> Iterator[str]:
    if comparison.not_given is None:
        for right in comparison.given:
            named = ", ".join((*right.topics, *(f"group {group}" for group in right.groups)))
            yield f"{principal} may {' and '.join(right.operations)}: {named}"
        return
    yield f"Not all rights of {principal} are given: {comparison.not_given}"
    yield "Who may give them runs:"
    for command in acl_commands(comparison.given, principal):
        yield f"  {shlex.join(command)}"


def render_commands(
    topics: Mapping[str, Topic], granted: Sequence[TopicRight], user: str, replication: int, bootstrap: str
) -> str:
    """A shell script of kafka-topics and kafka-acls."""
    made = [create_command(name, topic, replication) for name, topic in topics.items()]
    commands = [*made, *acl_commands(granted, principal_of(user))]
    return "".join(f"{tool} --bootstrap-server {bootstrap} {shlex.join(rest)}\n" for tool, *rest in commands)


def render_strimzi(topics: Mapping[str, Topic], granted: Sequence[TopicRight], user: str, replication: int) -> str:
    """A KafkaTopic each, and a KafkaUser; the label names the Kafka they are of: change it."""
    documents = [_topic(name, topic, replication) for name, topic in topics.items()]
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    text = io.StringIO()
    yaml.explicit_start = True
    for document in [*documents, _user(user, granted)]:
        yaml.dump(document, text)
    return text.getvalue()


def _topic(name: str, topic: Topic, replication: int) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": "KafkaTopic",
        "metadata": {"name": name.lower().replace("_", "-"), "labels": CLUSTER_LABEL.copy()},
        "spec": {
            "topicName": name,
            "partitions": topic.partitions,
            "replicas": replication,
            "config": dict(topic.settings),
        },
    }


def _user(user: str, granted: Sequence[TopicRight]) -> dict[str, Any]:
    acls = [
        {"resource": {"type": kind, "name": name, "patternType": "literal"}, "operations": list(right.operations)}
        for right in granted
        for kind, names in (("topic", right.topics), ("group", right.groups))
        for name in names
    ]
    return {
        "apiVersion": API_VERSION,
        "kind": "KafkaUser",
        "metadata": {"name": user.removeprefix(CERTIFICATE), "labels": CLUSTER_LABEL.copy()},
        "spec": {
            "authentication": {"type": "tls" if user.startswith(CERTIFICATE) else "scram-sha-512"},
            "authorization": {"type": "simple", "acls": acls},
        },
    }

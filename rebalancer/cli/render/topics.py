"""`rebalancer topics`: what differs, and what makes it right, in the words of Kafka's tools and of Strimzi."""

import io
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from ruamel.yaml import YAML

from rebalancer.kafka.broker import Topic
from rebalancer.kafka.topic_plan import TopicDifference, TopicRight, acl_commands, create_command

CLUSTER_LABEL = {"strimzi.io/cluster": "my-cluster"}


def render_differences(made: Sequence[str], differences: Sequence[TopicDifference]) -> str:
    """A line per topic that was made or differs, with the command that mends it below."""
    lines = [f"{name} made" for name in made]
    for one in differences:
        lines.append(f"{one.topic} {one.what}")
        if one.command:
            lines.append(f"  {shlex.join(one.command)}")
    if not differences:
        lines.append("All topics are as the service needs them.")
    return "\n".join(lines)


def render_commands(
    topics: Mapping[str, Topic], granted: Sequence[TopicRight], user: str, replication: int, bootstrap: str
) -> str:
    """A shell script of kafka-topics and kafka-acls."""
    made = [create_command(name, topic, replication) for name, topic in topics.items()]
    commands = [*made, *acl_commands(granted, f"User:{user}")]
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
        "apiVersion": "kafka.strimzi.io/v1beta2",
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
        "apiVersion": "kafka.strimzi.io/v1beta2",
        "kind": "KafkaUser",
        "metadata": {"name": user, "labels": CLUSTER_LABEL.copy()},
        "spec": {
            "authentication": {"type": "scram-sha-512"},
            "authorization": {"type": "simple", "acls": acls},
        },
    }

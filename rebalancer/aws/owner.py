"""Finds out whether a queue of SQS belongs to Karpenter or aws-node-termination-handler.

They delete the messages that they read, and so do we: two readers of one queue get half of the messages each.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

OTHERS: Final = ("karpenter", "node-termination-handler")
"""Words in the name or a tag of a queue that belongs to Karpenter or aws-node-termination-handler: Terraform's module
names it `Karpenter-CLUSTER`, CloudFormation tags it with the name of the stack."""
VARIABLES: Final = frozenset({"INTERRUPTION_QUEUE", "QUEUE_URL"})
"""Variables of a container that name the queue: for Karpenter its name, for aws-node-termination-handler its URL."""
WAY_OUT: Final = "give the EventBridge rules a second target, a queue of our own (docs/notices.md)"


class _Variable(Struct, frozen=True):
    name: str
    value: str = ""


class _Container(Struct, frozen=True):
    env: tuple[_Variable, ...] | None = None


class _Pod(Struct, frozen=True):
    containers: tuple[_Container, ...] = ()


class _Template(Struct, frozen=True):
    spec: _Pod = _Pod()


class _Spec(Struct, frozen=True):
    template: _Template = _Template()


class _Metadata(Struct, frozen=True):
    name: str
    namespace: str = ""


class QueueReader(Struct, frozen=True):
    """A Deployment, as far as it may name a queue that it reads."""

    metadata: _Metadata
    spec: _Spec = _Spec()


def of_another(name: str, tags: Mapping[str, str], read_by: Mapping[str, str]) -> str | None:
    """Why the queue is not ours to read, with the way out; None where nothing says so.

    `tags` of the queue; `read_by`: names of queues that Deployments of the cluster read, each with that Deployment.
    """
    if name in read_by:
        return f"queue {name} is read by {read_by[name]}, which deletes what it reads: {WAY_OUT}"
    for word in OTHERS:
        if word in name.lower():
            return f"queue {name} is {word}'s by its name, which deletes what it reads: {WAY_OUT}"
        for key, value in tags.items():
            if word in f"{key}={value}".lower():
                return f"queue {name} is {word}'s by its tag {key}={value}, which deletes what it reads: {WAY_OUT}"
    return None


def queues_read(deployments: Iterable[QueueReader]) -> dict[str, str]:
    """Queues that Karpenter and aws-node-termination-handler read, by name, each with the Deployment that says so."""
    return {
        variable.value.rpartition("/")[2]: f"Deployment {one.metadata.namespace}/{one.metadata.name}"
        for one in deployments
        for container in one.spec.template.spec.containers
        for variable in container.env or ()
        if variable.name in VARIABLES and variable.value
    }

"""GPUs over time by the audit log alone: when each pod came and went, and what was free at any instant."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.testbed.audit import Write


@dataclass
class Pods:
    """Pods of one namespace: name -> (asked for by its ReplicaSet, gone), in epoch seconds. Gone inf: it is there.

    nodes: name -> the node that the scheduler chose for it.
    """

    spans: dict[str, tuple[float, float]] = field(default_factory=dict)
    nodes: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, writes: Iterable[Write]) -> "Pods":
        """From everybody's writes to pods: a pod holds its GPU until its kubelet, or whoever forces it, is answered."""
        pods = cls()
        for write in writes:
            if write.resource != "pods" or not write.succeeded or write.dry_run:
                continue
            if write.subresource == "binding":
                pods.nodes[write.name] = write.request["target"]["name"]
            if write.subresource:
                continue
            if write.verb == "create":
                pods.spans[write.name] = (write.received, float("inf"))
            elif write.verb == "delete" and write.user == "kwok" and write.name in pods.spans:
                pods.spans[write.name] = (pods.spans[write.name][0], write.answered)
        return pods

    def at(self, instant: float, prefix: str = "") -> int:
        """Pods (of the Deployment named `prefix`) that hold, or wait for, a GPU at this instant."""
        return sum(1 for name, (came, gone) in self.spans.items() if name.startswith(prefix) and came <= instant < gone)

    def most(self, prefix: str = "", since: float = 0.0) -> int:
        """The most there ever were at once, from `since` on."""
        return max((self.at(came, prefix) for came, _ in self.spans.values() if came >= since), default=0)

    def least(self, prefix: str, since: float) -> int:
        """The fewest there ever were from `since` on."""
        ends = [gone for _, gone in self.spans.values() if since <= gone < float("inf")]
        return min(self.at(instant, prefix) for instant in (since, *ends))


def failed(writes: Iterable[Write]) -> list[str]:
    """Writes that were refused: a right that is missing, an object that is invalid...

    Not a conflict (409): somebody else wrote in between, and the service is to look and decide again.
    """
    return [f"{write.code} {write.what}" for write in writes if not write.succeeded and write.code != 409]


def scaled(writes: Iterable[Write], name: str, kind: str = "deployments") -> list[tuple[float, int]]:
    """Replicas that successful writes to `/scale` of `name` asked for: (when received, replicas)."""
    return [
        (write.received, write.request["spec"].get("replicas", 0))  # Go leaves a 0 out
        for write in writes
        if (write.resource, write.subresource, write.name) == (kind, "scale", name) and write.succeeded
    ]


def bounded(writes: Iterable[Write], name: str, kind: str = "scaledobjects") -> list[tuple[float, int, int]]:
    """Bounds that an autoscaler was given: (when received, minimum, maximum), from the stored objects."""
    found = []
    for write in writes:
        if (write.resource, write.subresource, write.name) == (kind, "", name) and write.succeeded:
            spec = write.response["spec"]
            low = spec["minReplicaCount"] if kind == "scaledobjects" else spec["minReplicas"]
            high = spec["maxReplicaCount"] if kind == "scaledobjects" else spec["maxReplicas"]
            found.append((write.received, low, high))
    return found

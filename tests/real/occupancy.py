"""GPUs over time by the audit log alone: when each pod came and went, and what was free at any instant."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tests.testbed.audit import Write
from tests.testbed.objects import GPU


@dataclass
class Pods:
    """Pods of one namespace: name -> (asked for by its ReplicaSet, gone), in epoch seconds. Gone inf: it is there.

    nodes: name -> the node that the scheduler chose for it.
    bound: name -> when it did.
    ready: name -> when it became Ready, or ceased to be.
    ended: name -> when a controller or a person asked for its end, and who did.
    lost: node -> when its Node object was deleted: a pod is where its node is.
    """

    spans: dict[str, tuple[float, float]] = field(default_factory=dict)
    nodes: dict[str, str] = field(default_factory=dict)
    bound: dict[str, float] = field(default_factory=dict)
    ready: dict[str, list[tuple[float, bool]]] = field(default_factory=dict)
    ended: dict[str, tuple[float, str]] = field(default_factory=dict)
    lost: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, writes: Iterable[Write]) -> "Pods":
        """From everybody's writes to pods: a pod holds its GPU until its kubelet, or whoever forces it, is answered.

        One without a node has no kubelet: whoever ends it is answered by its end.

        With writes to nodes: or until its Node was deleted.
        """
        pods = cls()
        for write in (each for each in writes if each.succeeded and not each.dry_run):
            if (write.resource, write.verb) == ("nodes", "delete"):
                pods.lost[write.name] = write.received
            elif write.resource == "pods":
                pods._take(write)
        return pods

    def _take(self, write: Write) -> None:
        match write.subresource, write.verb:
            case "binding", _:
                self.nodes[write.name] = write.request["target"]["name"]
                self.bound[write.name] = write.received
            case "status", _:
                conditions = write.request.get("status", {}).get("conditions", ())
                said = [each["status"] == "True" for each in conditions if each.get("type") == "Ready"]
                self.ready.setdefault(write.name, []).extend((write.received, each) for each in said)
            case "", "create":
                self.spans[write.name] = (write.received, float("inf"))
            case "", "delete":
                if write.user != "kwok":
                    self.ended.setdefault(write.name, (write.received, write.user))
                if write.name in self.spans and (write.user == "kwok" or write.name not in self.nodes):
                    self.spans[write.name] = (self.spans[write.name][0], write.answered)

    def at(self, instant: float, prefix: str = "") -> int:
        """Pods (of the Deployment named `prefix`) that hold, or wait for, a GPU at this instant."""
        there = self._there(instant, prefix)
        return sum(not self._is_lost(name, instant) for name in there)

    def ghosts(self, instant: float, prefix: str) -> int:
        """Pods that are counted as replicas and whose Node is gone: nobody has ended them yet."""
        there = [name for name in self._there(instant, prefix) if self._is_lost(name, instant)]
        return sum(self.ended.get(name, (float("inf"),))[0] > instant for name in there)

    def without_node(self, instant: float, prefix: str, seen_after_seconds: float = 0.0) -> int:
        """Pods that are there, and had no node so long before: a watch shows a binding a little later."""
        shown = instant - seen_after_seconds
        there = self._there(instant, prefix)
        return sum(name not in self.nodes or self.bound.get(name, shown) > shown for name in there)

    def serving(self, instant: float, prefix: str) -> set[str]:
        """Pods that are Ready at this instant, on a node that is there, and whose end nobody has asked for."""
        return {
            name
            for name in self._there(instant, prefix)
            if not self._is_lost(name, instant)
            and self.ended.get(name, (float("inf"),))[0] > instant
            and [ready for at, ready in self.ready.get(name, ()) if at <= instant][-1:] == [True]
        }

    def _there(self, instant: float, prefix: str) -> list[str]:
        return [name for name, (came, gone) in self.spans.items() if name.startswith(prefix) and came <= instant < gone]

    def _is_lost(self, name: str, instant: float) -> bool:
        return self.lost.get(self.nodes.get(name, ""), float("inf")) <= instant

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


def gpus_of_nodes(writes: Iterable[Write], prefix: str) -> Callable[[float], int]:
    """The GPUs of all nodes named `prefix`..., by instant: as their objects were made, changed and deleted."""
    found = [
        (write.received, write.name, 0 if write.verb == "delete" else _gpus(write))
        for write in writes
        if write.resource == "nodes" and write.name.startswith(prefix) and write.succeeded and not write.dry_run
    ]

    def at(instant: float) -> int:
        latest = {name: gpus for received, name, gpus in found if received <= instant and gpus is not None}
        return sum(latest.values())

    return at


def _gpus(write: Write) -> int | None:
    gpus = write.response.get("status", {}).get("allocatable", {}).get(GPU)
    return None if gpus is None else int(gpus)

"""Pods that a target finds by labels: its scale names them by a selector, and no owner reference leads up to it."""

from msgspec.structs import replace

from rebalancer.domain.cluster import ClusterObject, Pod, Workload
from rebalancer.domain.workload_ref import WorkloadRef

Labels = frozenset[tuple[str, str]]


class Claims:
    """Which labels each target claims pods by, within its namespace, and whose the claimed pods are by their owners."""

    def __init__(self) -> None:
        self._labels: dict[str, dict[WorkloadRef, Labels]] = {}  # by namespace
        self._owned: dict[str, WorkloadRef | None] = {}  # of claimed pods, by UID

    def moved(self, old: ClusterObject | None, new: ClusterObject | None) -> bool:
        """Take a target as it is now; whether other pods are its own by that."""
        before, now = _claim(old), _claim(new)
        obj = new or old
        if before == now or not isinstance(obj, Workload):
            return False
        claims = self._labels.setdefault(obj.ref.namespace, {})
        if now is None:
            claims.pop(obj.ref, None)
        else:
            claims[obj.ref] = now
        return True

    def claimed(self, pod: Pod) -> Pod:
        """The pod as that target's which claims it, else as it is. Of several targets the first by name has it."""
        claims = self._labels.get(pod.namespace)
        if not claims or not pod.labels:
            self._owned.pop(pod.uid, None)
            return pod
        labels = frozenset(pod.labels)
        ref = min((ref for ref, wanted in claims.items() if wanted <= labels), default=None)
        if ref is None or ref == pod.workload:
            self._owned.pop(pod.uid, None)
            return pod
        self._owned[pod.uid] = pod.workload
        return replace(pod, workload=ref)

    def gone(self, pod: Pod) -> None:
        """Forget a pod that is no more."""
        self._owned.pop(pod.uid, None)

    def own(self, pod: Pod) -> Pod:
        """The pod as its owner references have it."""
        return replace(pod, workload=self._owned[pod.uid]) if pod.uid in self._owned else pod


def _claim(obj: ClusterObject | None) -> Labels | None:
    """The labels that a selector wants, all of them by equality; None where it wants others, or there is none."""
    selector = obj.selector if isinstance(obj, Workload) else ""
    pairs = [part.strip().replace("==", "=").partition("=") for part in selector.split(",")]
    if not selector or any(not (key and equals) or key.endswith("!") or " " in key for key, equals, _ in pairs):
        return None
    return frozenset((key, value) for key, _, value in pairs)

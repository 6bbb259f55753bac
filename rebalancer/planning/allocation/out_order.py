"""The order in which a target's replicas would go, of which one after another is taken."""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from itertools import groupby, islice

from rebalancer.domain.snapshot import PodView
from rebalancer.domain.victims import out_class
from rebalancer.planning.facts.scene import TargetFacts


class OutOrder:
    """The replicas of a target that are to stay, first victim first; who is taken is no part of it any more.

    To take one, to see the next and to count those of a kind takes no look at the others: of a number that somebody
    typed 50,000 go in one plan, and 50,000 looks at 50,000 replicas took minutes.
    `predictable`: whether planning knows who of a class goes next, who is `marked` before or has the highest number.
    Else a ReplicaSet ends first who shares a node with most others of its workload (`ActivePodsWithRanks` in
    Kubernetes), and of those with as many one that only it knows.
    """

    def __init__(self, target: TargetFacts, *, marked: bool) -> None:
        self.predictable = predictable = marked or target.numbered
        on_node = Counter(pod.node for pod in target.view.pods if pod.phase != "terminating" and not predictable)
        self._rank: Callable[[PodView], tuple[int, int]] = lambda pod: (-out_class(pod), -on_node[pod.node])
        pods = reversed(target.staying_pods)
        self._left = OrderedDict((pod.uid, pod) for pod in (pods if predictable else sorted(pods, key=self._rank)))
        self._kinds: dict[str, set[str]] = {}  # UIDs of those left, by kind

    def __iter__(self) -> Iterator[PodView]:
        """First victim first."""
        return iter(self._left.values())

    def next_group(self) -> Iterator[PodView]:
        """Yields who can be the next to go: of a predictable one's first class deletion costs choose."""
        for _, alike in groupby(self, self._rank):
            yield from alike
            return

    def groups(self, most: int) -> Iterator[list[PodView]]:
        """The first `most` of them in groups of which each goes before the next."""
        for _, alike in groupby(islice(self, most), self._rank):
            yield list(alike)

    def take(self, pod: PodView) -> None:
        """Leaves a replica out from now on."""
        self._left.pop(pod.uid, None)
        for uids in self._kinds.values():
            uids.discard(pod.uid)

    def count(self, kind: str, is_one: Callable[[PodView], bool]) -> int:
        """How many of those left are of a kind; whether one is stays as it is."""
        uids = self._kinds.get(kind)
        if uids is None:
            uids = self._kinds[kind] = {pod.uid for pod in self if is_one(pod)}
        return len(uids)

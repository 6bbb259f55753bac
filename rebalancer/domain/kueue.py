"""Kueue's quotas: who may hold how much of a flavor, and what members of a cohort lend each other.

Amounts are thousandths, as in `domain.quotas`. Sums go up the tree of cohorts as Kueue's own documentation of
borrowing has them: what a member keeps for itself (nominal less `lendingLimit`) is seen by nobody else, the rest is
the cohort's, and a member may use at most `borrowingLimit` beyond its nominal quota.
"""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

GATE = "kueue.x-k8s.io/admission"  # scheduling gate of a pod that Kueue has not admitted yet


class FlavorQuota(Struct, frozen=True):
    """What one flavor of one resource gives.

    flavor: name of the ResourceFlavor.
    resource: the resource, as pods request it.
    nominal: what is its own.
    borrows: the most beyond that; None: as much as others lend.
    lends: the most that others may have of it; None: all of it.
    """

    flavor: str
    resource: str
    nominal: int
    borrows: int | None = None
    lends: int | None = None


class Used(Struct, frozen=True):
    """What admitted workloads hold of a flavor."""

    flavor: str
    resource: str
    amount: int


class ClusterQueue(Struct, frozen=True):
    """A ClusterQueue.

    name: `metadata.name` of the object.
    uid: its Kubernetes UID.
    resource_version: its version in the API server; of two, the newer stands.
    cohort: name of its cohort, "" where it has none.
    quotas: what it may hold, flavors of a resource in the order in which they are tried.
    used: what its workloads hold, by its status.
    stopped: whether it admits nothing (`stopPolicy`).
    reclaims: whether it may take back by preemption what others borrow of it, whatever their priority.
    """

    name: str
    uid: str
    resource_version: str
    cohort: str = ""
    quotas: tuple[FlavorQuota, ...] = ()
    used: tuple[Used, ...] = ()
    stopped: bool = False
    reclaims: bool = False

    @property
    def above(self) -> str:
        """Name of the cohort that it lends to and borrows from."""
        return self.cohort


class Cohort(Struct, frozen=True):
    """A Cohort: queues that lend each other; one that is only named by its queues has no object.

    name: `metadata.name`, or the name by which its queues call it.
    uid: its Kubernetes UID.
    resource_version: its version in the API server; of two, the newer stands.
    parent: name of the cohort above it, "" where there is none.
    quotas: what it has beside its members.
    """

    name: str
    uid: str = ""
    resource_version: str = ""
    parent: str = ""
    quotas: tuple[FlavorQuota, ...] = ()

    @property
    def above(self) -> str:
        """Name of the cohort that it lends to and borrows from."""
        return self.parent


class LocalQueue(Struct, frozen=True):
    """A LocalQueue: the name by which workloads of a namespace find their ClusterQueue.

    namespace: `metadata.namespace` of the object.
    name: `metadata.name` of the object.
    uid: its Kubernetes UID.
    resource_version: its version in the API server; of two, the newer stands.
    queue: name of its ClusterQueue.
    stopped: whether it admits nothing.
    """

    namespace: str
    name: str
    uid: str
    resource_version: str
    queue: str
    stopped: bool = False


class ResourceFlavor(Struct, frozen=True):
    """A ResourceFlavor: the nodes that a quota is about.

    name: `metadata.name` of the object.
    uid: its Kubernetes UID.
    resource_version: its version in the API server; of two, the newer stands.
    labels: labels that its nodes have; none: any node.
    """

    name: str
    uid: str
    resource_version: str
    labels: dict[str, str] = {}


Member = ClusterQueue | Cohort


class Tree:
    """One flavor of one resource over all queues and cohorts."""

    def __init__(self, queues: Sequence[ClusterQueue], cohorts: Sequence[Cohort], flavor: str, resource: str) -> None:
        self._flavor, self._resource = flavor, resource
        named = {one.name: one for one in cohorts}
        both: tuple[Member, ...] = (*queues, *cohorts)
        for one in both:
            if one.above and one.above not in named:
                named[one.above] = Cohort(one.above)
        self._cohorts: Mapping[str, Cohort] = named
        self._members: dict[str, list[Member]] = {}
        both = (*queues, *named.values())
        for one in both:
            if one.above:
                self._members.setdefault(one.above, []).append(one)
        self._endless = _endless(named)

    def available(self, one: Member) -> int:
        """What `one` may still hold, with what its cohort lends; 0 where cohorts name each other in a circle."""
        above = self._above(one)
        if above is None:
            return self._has(one) - self._uses(one)
        if above.name in self._endless:
            return 0
        lent = self.available(above)
        own, quota = self._own(one), self._quota(one)
        if quota is not None and quota.borrows is not None:
            lent = min(lent, self._has(one) - own - max(0, self._uses(one) - own) + quota.borrows)
        return max(0, own - self._uses(one)) + lent

    def lent(self, name: str, members: Sequence[ClusterQueue]) -> int:
        """What these members of a cohort may still hold together: what each keeps, and what there is to lend."""
        if name in self._endless:
            return 0
        own = sum(max(0, self._own(one) - self._uses(one)) for one in members)
        return own + max(0, self.available(self._cohorts[name]))

    def nominal(self, one: Member) -> int:
        """What is its own."""
        quota = self._quota(one)
        return 0 if quota is None else quota.nominal

    def used(self, one: ClusterQueue) -> int:
        """What its workloads hold."""
        return self._uses(one)

    def _above(self, one: Member) -> Cohort | None:
        return self._cohorts.get(one.above) if one.above else None

    def _quota(self, one: Member) -> FlavorQuota | None:
        return next(
            (each for each in one.quotas if (each.flavor, each.resource) == (self._flavor, self._resource)), None
        )

    def _own(self, one: Member) -> int:
        """What it keeps for itself."""
        quota = self._quota(one)
        return 0 if quota is None or quota.lends is None else max(0, self._has(one) - quota.lends)

    def _below(self, one: Member) -> Iterator[Member]:
        yield from self._members.get(one.name, ()) if isinstance(one, Cohort) else ()

    def _has(self, one: Member) -> int:
        """The quota of `one` and what its members lend."""
        return self.nominal(one) + sum(self._has(each) - self._own(each) for each in self._below(one))

    def _uses(self, one: Member) -> int:
        """What its workloads hold; of a cohort what its members hold of what they lend."""
        if isinstance(one, ClusterQueue):
            held = (each.amount for each in one.used if (each.flavor, each.resource) == (self._flavor, self._resource))
            return sum(held)
        return sum(max(0, self._uses(each) - self._own(each)) for each in self._below(one))


def _endless(cohorts: Mapping[str, Cohort]) -> frozenset[str]:
    """The cohorts whose way up has no end, by name: they, or some above them, name each other in a circle."""
    endless = set()
    for name in cohorts:
        above, passed = name, set[str]()
        while above and above not in passed:
            passed.add(above)
            above = cohorts[above].parent
        if above:
            endless.add(name)
    return frozenset(endless)

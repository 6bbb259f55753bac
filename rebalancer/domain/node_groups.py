"""Node groups of Cluster Autoscaler, as its status tells of them, and as the pools of a policy name them."""

from collections.abc import Iterable
from fnmatch import fnmatchcase

from msgspec import Struct

from rebalancer.domain.instant import Instant
from rebalancer.domain.words import counted

STATUS_OLD_AFTER_SECONDS = 600.0  # it is written every 10 s; so long without one Cluster Autoscaler calls itself dead


class NodeGroup(Struct, frozen=True):
    """One node group of Cluster Autoscaler: a MIG, an ASG, a scale set.

    name: as its status has it, often a URL.
    nodes: nodes of it that are registered.
    target: nodes that Cluster Autoscaler has asked the cloud for.
    most: the most that it may ask for.
    refuses: why it adds none now, as a clause; "" where nothing speaks against it.
    leaving: nodes that it would remove, if they stay as unneeded as they are.
    """

    name: str
    nodes: int
    target: int
    most: int
    refuses: str = ""
    leaving: int = 0


class AutoscalerStatus(Struct, frozen=True):
    """What Cluster Autoscaler wrote last into its status ConfigMap.

    namespace: namespace of the ConfigMap.
    name: `metadata.name` of the ConfigMap.
    uid: its Kubernetes UID.
    resource_version: its version in the API server; of two, the newer stands.
    told_at: when it was written, by its own word, to the minute; None where it does not say.
    groups: the node groups that it has written of.
    """

    namespace: str
    name: str
    uid: str
    resource_version: str
    told_at: Instant | None = None
    groups: tuple[NodeGroup, ...] = ()


class NodeGroupView(Struct, frozen=True):
    """The node groups behind a pool that the policy names by one name; one managed pool has a group in each zone.

    name: as the policy has it.
    told_at: when Cluster Autoscaler told of them, to the minute; None where no status names them.
    nodes: registered nodes of those that may add some.
    target: nodes that these have asked the cloud for.
    most: the most that they may ask for.
    refuses: why none of them adds a node now, as a clause; "" where one may.
    leaving: nodes that Cluster Autoscaler would remove.
    """

    name: str
    told_at: Instant | None = None
    nodes: int = 0
    target: int = 0
    most: int = 0
    refuses: str = ""
    leaving: int = 0

    def known(self, at: Instant) -> bool:
        """Whether the numbers are worth something at `at`: a status tells of the groups, and is not too old."""
        return self.told_at is not None and at - self.told_at < STATUS_OLD_AFTER_SECONDS

    def room(self, at: Instant, granted: int) -> int | None:
        """Nodes that may be asked for when `granted` were granted already; None where nobody knows."""
        return max(0, self.most - max(self.target, self.nodes + granted)) if self.known(at) else None

    def words(self, at: Instant) -> str:
        """What is known of them, as a clause."""
        if self.told_at is None:
            return f"no status of Cluster Autoscaler tells of node group {self.name}"
        if not self.known(at):
            minutes = (at - self.told_at) / 60.0
            return f"Cluster Autoscaler last told of node group {self.name} {minutes:.0f} min ago"
        has = f"node group {self.name} has {counted(self.target, 'node')} of {self.most}"
        leaving = f", and Cluster Autoscaler would remove {self.leaving}" if self.leaving else ""
        return f"{has}{leaving}{f': {self.refuses}' if self.refuses else ''}"


def group_view(name: str, statuses: Iterable[AutoscalerStatus]) -> NodeGroupView:
    """The groups that the policy calls `name`: by their whole name, or the last part of it; `*` stands for anything."""
    for status in statuses:
        groups = [group for group in status.groups if _is(name, group.name)]
        if groups:
            willing = [group for group in groups if not group.refuses]
            return NodeGroupView(
                name=name,
                told_at=status.told_at,
                nodes=sum(group.nodes for group in willing or groups),
                target=sum(group.target for group in willing or groups),
                most=sum(group.most for group in willing or groups),
                refuses="" if willing else groups[0].refuses,
                leaving=sum(group.leaving for group in groups),
            )
    return NodeGroupView(name)


def _is(named: str, group: str) -> bool:
    return named == group or fnmatchcase(group.rpartition("/")[2], named)

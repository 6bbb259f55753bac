"""Where the scheduler may put a pod beside node selector and taints: affinity to nodes, distance between its pods."""

from collections.abc import Mapping

from msgspec import Struct

HOSTNAME = "kubernetes.io/hostname"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
_ZONE = "topology.kubernetes.io/zone"


def place_of(labels: Mapping[str, str]) -> tuple[str, str]:
    """Instance type and zone that a node's labels name, each "" where they do not."""
    return labels.get(INSTANCE_TYPE, ""), labels.get(_ZONE, "")


class Requirement(Struct, frozen=True):
    """One condition on a label, as Kubernetes spells it.

    key: the label's key.
    operator: In, NotIn, Exists, DoesNotExist, Gt or Lt; any other holds nowhere.
    values: the values it compares with; Gt and Lt take one whole number.
    """

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether these labels meet it. An absent label meets NotIn and DoesNotExist alone."""
        value = labels.get(self.key)
        if self.operator in {"NotIn", "DoesNotExist"}:
            return value is None or (self.operator == "NotIn" and value not in self.values)
        if value is None:
            return False
        if self.operator == "In":
            return value in self.values
        if self.operator in {"Gt", "Lt"}:
            return _compares(value, self.operator, self.values)
        return self.operator == "Exists"

    def __str__(self) -> str:
        values = f" {', '.join(self.values)}" if self.values else ""
        return f"{self.key} {self.operator}{values}"


class NodeTerm(Struct, frozen=True):
    """One of several terms, of which a node must meet one; a term without conditions is met by no node.

    labels: conditions on the node's labels, all of which must hold.
    names: conditions on the node's name (`matchFields` on `metadata.name`), all of which must hold.
    """

    labels: tuple[Requirement, ...] = ()
    names: tuple[Requirement, ...] = ()

    def holds(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether a node of this name and these labels meets the term."""
        if not self.labels and not self.names:
            return False
        fields = {requirement.key: name for requirement in self.names}
        return all(one.holds(labels) for one in self.labels) and all(one.holds(fields) for one in self.names)

    def __str__(self) -> str:
        return " and ".join(str(one) for one in (*self.labels, *self.names))


class Spread(Struct, frozen=True):
    """A topology spread constraint that the scheduler insists on (`DoNotSchedule`), over a target's own pods.

    topology: the node label whose values are the domains.
    most_more: pods that a domain may have more than the one with fewest (`maxSkew`).
    heeds_taints: whether nodes that take no such pod now are in no domain (`nodeTaintsPolicy: Honor`).
    """

    topology: str
    most_more: int = 1
    heeds_taints: bool = False


class Placement(Struct, frozen=True, omit_defaults=True):
    """What a pod template asks of nodes beside its node selector and tolerations.

    terms: required node affinity; a node must meet one of them. Without any, every node does.
    apart: topology keys in whose domains two pods of the template may not stand together: required anti-affinity to
        itself, and `kubernetes.io/hostname` for host ports.
    spreads: spread constraints that the scheduler insists on.
    alone: topology key in one of whose domains all pods of a replica must stand, and none of another replica: a
        LeaderWorkerSet's exclusive topology; "" where its pods may stand anywhere.
    unseen: sentences on rules that depend on other pods; they are left to the scheduler, and told.
    """

    terms: tuple[NodeTerm, ...] = ()
    apart: tuple[str, ...] = ()
    spreads: tuple[Spread, ...] = ()
    alone: str = ""
    unseen: tuple[str, ...] = ()

    @property
    def by_own_pods(self) -> bool:
        """Whether it matters on which nodes other pods of the template stand."""
        return bool(self.apart or self.spreads or self.alone)


ANYWHERE = Placement()


def _compares(value: str, operator: str, values: tuple[str, ...]) -> bool:
    try:
        here, there = int(value), int(values[0])
    except (ValueError, IndexError):
        return False
    return here > there if operator == "Gt" else here < there

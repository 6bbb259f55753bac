"""What a pod template asks of nodes: required affinity, distance between its pods, host ports.

Preferences are left out: they order nodes for the scheduler, and forbid none.
"""

from collections.abc import Collection, Iterator, Mapping

from msgspec import Struct, field

from rebalancer.domain.placement import HOSTNAME, NodeTerm, Placement, Requirement, Spread
from rebalancer.domain.words import listed

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


class _Expression(Struct, frozen=True, gc=False):
    """One of `matchExpressions` or `matchFields`, of node terms and of label selectors alike."""

    key: str
    operator: str
    values: tuple[str, ...] | None = None

    def requirement(self) -> Requirement:
        return Requirement(self.key, self.operator, self.values or ())


class _NodeTerm(Struct, frozen=True, gc=False, rename="camel"):
    match_expressions: tuple[_Expression, ...] | None = None
    match_fields: tuple[_Expression, ...] | None = None


class _NodeTerms(Struct, frozen=True, gc=False, rename="camel"):
    node_selector_terms: tuple[_NodeTerm, ...] = ()


class _NodeAffinity(Struct, frozen=True, gc=False):
    required: _NodeTerms | None = field(default=None, name=REQUIRED)


class _LabelSelector(Struct, frozen=True, gc=False, rename="camel"):
    match_labels: dict[str, str] | None = None
    match_expressions: tuple[_Expression, ...] | None = None

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether it selects these labels; an empty selector selects all."""
        wanted = (self.match_labels or {}).items()
        expressions = (one.requirement() for one in self.match_expressions or ())
        return all(labels.get(key) == value for key, value in wanted) and all(one.holds(labels) for one in expressions)

    def __str__(self) -> str:
        parts = [f"{key}={value}" for key, value in sorted((self.match_labels or {}).items())]
        return ",".join([*parts, *(str(one.requirement()) for one in self.match_expressions or ())]) or "any label"


class _PodTerm(Struct, frozen=True, gc=False, rename="camel"):
    topology_key: str = ""
    label_selector: _LabelSelector | None = None


class _PodAffinity(Struct, frozen=True, gc=False):
    required: tuple[_PodTerm, ...] | None = field(default=None, name=REQUIRED)


class AffinityWire(Struct, frozen=True, gc=False, rename="camel"):
    """`affinity` of a pod spec."""

    node_affinity: _NodeAffinity | None = None
    pod_affinity: _PodAffinity | None = None
    pod_anti_affinity: _PodAffinity | None = None


class SpreadWire(Struct, frozen=True, gc=False, rename="camel"):
    """One of `topologySpreadConstraints`.

    topology_key: the node label whose values are the domains.
    max_skew: pods that a domain may have more than the one with fewest.
    when_unsatisfiable: `DoNotSchedule` where the scheduler insists on it, `ScheduleAnyway` where it only prefers it.
    label_selector: which pods are counted; None: no pods.
    node_taints_policy: `Honor` where nodes whose taints the pod does not bear are in no domain.
    """

    topology_key: str = ""
    max_skew: int = 1
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: _LabelSelector | None = None
    node_taints_policy: str = "Ignore"


def placement(
    labels: Mapping[str, str],
    affinity: AffinityWire | None,
    spreads: tuple[SpreadWire, ...],
    host_ports: Collection[int],
) -> Placement:
    """The rules of a template whose pods carry `labels`. `host_ports`: those that its containers take of a node."""
    affinity = affinity or AffinityWire()
    near, far = _pod_terms(affinity.pod_affinity), _pod_terms(affinity.pod_anti_affinity)
    strict = [one for one in spreads if one.when_unsatisfiable == "DoNotSchedule"]
    own = {one.topology_key for one in far if _selects(one.label_selector, labels)}
    return Placement(
        terms=tuple(_terms(affinity.node_affinity)),
        apart=tuple(sorted(own | ({HOSTNAME} if host_ports else set()))),
        spreads=tuple(
            Spread(one.topology_key, max(1, one.max_skew), heeds_taints=one.node_taints_policy == "Honor")
            for one in strict
            if _selects(one.label_selector, labels)
        ),
        unseen=(
            *_shared_ports(host_ports),
            *(f"must stand near pods with {one.label_selector} ({one.topology_key})" for one in near),
            *(
                f"must not stand near pods with {one.label_selector} ({one.topology_key})"
                for one in far
                if not _selects(one.label_selector, labels)
            ),
        ),
    )


def _shared_ports(ports: Collection[int]) -> Iterator[str]:
    """Two pods of the template are kept apart by `apart`; whether another workload's has the port nobody looks."""
    if ports:
        numbers = listed([str(port) for port in sorted(set(ports))])
        plural = "s" if len(set(ports)) > 1 else ""
        yield f"takes host port{plural} {numbers}, which pods of other workloads may have on a node"


def _pod_terms(affinity: _PodAffinity | None) -> list[_PodTerm]:
    """The required terms; one without a selector selects no pod."""
    terms = affinity.required or () if affinity is not None else ()
    return [term for term in terms if term.label_selector is not None]


def _terms(affinity: _NodeAffinity | None) -> Iterator[NodeTerm]:
    terms = affinity.required.node_selector_terms if affinity is not None and affinity.required is not None else ()
    for term in terms:
        labels = tuple(one.requirement() for one in term.match_expressions or ())
        names = tuple(one.requirement() for one in term.match_fields or ())
        yield NodeTerm(labels, names)


def _selects(selector: _LabelSelector | None, labels: Mapping[str, str]) -> bool:
    return selector is not None and selector.matches(labels)

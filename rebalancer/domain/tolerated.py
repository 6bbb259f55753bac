"""Which taints a target's next pod tolerates: admission adds what no template says."""

from collections.abc import Iterable

from msgspec.structs import astuple

from rebalancer.domain.cluster import Toleration


def tolerated(
    template: tuple[Toleration, ...], pods: Iterable[tuple[Toleration, ...] | None], resource: str
) -> tuple[Toleration, ...]:
    """What the pods that stand tolerate beside the template; without any, what admission is taken to add.

    GKE, EKS and AKS run the admission plugin ExtendedResourceToleration: who requests devices tolerates NoSchedule
    taints of their name.

    template: what that says.
    pods: of each that stands what it tolerates, None of one that does not tell.
    resource: the extended resource that a pod requests, "" where it requests none.
    """
    standing = [one for one in pods if one is not None]
    if standing:
        more = set().union(*standing).difference(template)
        return (*template, *sorted(more, key=astuple))
    added = Toleration(key=resource, operator="Exists", effect="NoSchedule")
    return template if not resource or added in template else (*template, added)

"""Which taints a target's next pod tolerates: admission adds what no template says, and some kinds have no template."""

from collections.abc import Iterable

from msgspec.structs import astuple

from rebalancer.domain.cluster import Toleration

EVERY_TAINT = Toleration(operator="Exists")


def tolerated(
    template: tuple[Toleration, ...] | None, pods: Iterable[tuple[Toleration, ...] | None], resource: str
) -> tuple[Toleration, ...]:
    """What the pods that stand tolerate beside the template; without any, what admission is taken to add.

    GKE, EKS and AKS run the admission plugin ExtendedResourceToleration: who requests devices tolerates NoSchedule
    taints of their name. Where neither pods nor a template tell, no taint is known to bar the pod.

    template: None where it cannot be read.
    pods: of each that stands what it tolerates, None of one that does not tell.
    resource: the extended resource that a pod requests, "" where it requests none.
    """
    standing = [one for one in pods if one is not None]
    if standing:
        more = set().union(*standing).difference(template or ())
        return (*(template or ()), *sorted(more, key=astuple))
    if template is None:
        return (EVERY_TAINT,)
    added = Toleration(key=resource, operator="Exists", effect="NoSchedule")
    return template if not resource or added in template else (*template, added)

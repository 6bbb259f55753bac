"""Rules of a namespace on what its pods may ask for together: ResourceQuota, LimitRange, PriorityClass.

Amounts are whole numbers of thousandths (of a device, a core, a byte, a pod): so half a core is no fraction, and sums
are exact. What a pod asks for is spelled by the keys of a quota, as `requests.nvidia.com/gpu` and `pods`.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct

THOUSAND = 1000
Amounts = Mapping[str, int]

COMPUTE = frozenset({"cpu", "memory"})  # a quota on these refuses pods with a container that does not ask for them
_PLAIN = COMPUTE | {"ephemeral-storage"}  # requests of these have two keys: with `requests.` and without


class ContainerAsk(Struct, frozen=True):
    """What one container of a template asks for, in thousandths by resource.

    step: "" for one that runs, `sidecar`, or `init` for one that ends before those begin.
    """

    requests: dict[str, int] = {}
    limits: dict[str, int] = {}
    step: str = ""


class PodAsk(Struct, frozen=True):
    """What a pod of a template asks of its namespace.

    containers: its containers, in the order in which they start.
    priority_class: name of its PriorityClass, "" where it names none.
    ends: whether it has an activeDeadlineSeconds.
    queue: name of the Kueue LocalQueue that must admit it, "" where it names none.
    """

    containers: tuple[ContainerAsk, ...] = ()
    priority_class: str = ""
    ends: bool = False
    queue: str = ""


class Scope(Struct, frozen=True):
    """Which pods a quota is about: `name` as Kubernetes spells scopes; operator and values of a scope selector."""

    name: str
    operator: str = "Exists"
    values: tuple[str, ...] = ()

    def holds(self, pod: PodAsk, amounts: Amounts) -> bool:
        """Whether a pod that names its class and asks for `amounts` is in the scope; unknown scopes hold nothing."""
        best_effort = not any(key.removeprefix("limits.") in COMPUTE for key in amounts)
        match self.name:
            case "Terminating":
                return pod.ends
            case "NotTerminating":
                return not pod.ends
            case "BestEffort":
                return best_effort
            case "NotBestEffort":
                return not best_effort
            case "PriorityClass":
                return self._class_holds(pod.priority_class)
        return False

    def _class_holds(self, name: str) -> bool:
        match self.operator:
            case "In":
                return name in self.values
            case "NotIn":
                return name not in self.values
            case "DoesNotExist":
                return not name
        return bool(name)


class ResourceQuota(Struct, frozen=True):
    """A ResourceQuota.

    namespace: `metadata.namespace` of the object.
    name: `metadata.name` of the object.
    uid: its Kubernetes UID.
    resource_version: its version in the API server; of two, the newer stands.
    hard: most that its pods may ask for, in thousandths by key; what its status enforces, else its spec.
    used: what its pods ask for, by its status; a key that is not there was not counted yet.
    scopes: all of which a pod must be in to be counted.
    """

    namespace: str
    name: str
    uid: str
    resource_version: str
    hard: dict[str, int] = {}
    used: dict[str, int] = {}
    scopes: tuple[Scope, ...] = ()

    def takes(self, pod: PodAsk, amounts: Amounts) -> bool:
        """Whether such a pod is counted by the quota."""
        return all(scope.holds(pod, amounts) for scope in self.scopes)


class Limits(Struct, frozen=True):
    """One row of a LimitRange, in thousandths by resource.

    kind: Container or Pod; other kinds are about no pod.
    requests: requests that a container gets which says none.
    limits: limits that a container gets which says none.
    least: the least that may be requested.
    most: the most that a limit, or a request without one, may be.
    """

    kind: str
    requests: dict[str, int] = {}
    limits: dict[str, int] = {}
    least: dict[str, int] = {}
    most: dict[str, int] = {}


class LimitRange(Struct, frozen=True):
    """A LimitRange.

    namespace: `metadata.namespace` of the object.
    name: `metadata.name` of the object.
    uid: its Kubernetes UID.
    resource_version: its version in the API server; of two, the newer stands.
    rows: what it says of containers and pods.
    """

    namespace: str
    name: str
    uid: str
    resource_version: str
    rows: tuple[Limits, ...] = ()


class PriorityClass(Struct, frozen=True):
    """A PriorityClass.

    name: `metadata.name` of the object.
    uid: its Kubernetes UID.
    resource_version: its version in the API server; of two, the newer stands.
    value: the priority of its pods, the higher first.
    default: whether pods that name no class are of it.
    preempts: whether its pods may end others for their place.
    """

    name: str
    uid: str
    resource_version: str
    value: int = 0
    default: bool = False
    preempts: bool = True


def admitted(pod: PodAsk, ranges: Iterable[LimitRange], default_class: str = "") -> PodAsk:
    """The pod as the API server stores it: with its namespace's default requests and limits, and the default class."""
    rows = [row for each in ranges for row in each.rows if row.kind == "Container"]
    containers = tuple(_with_defaults(one, rows) for one in pod.containers)
    return PodAsk(containers, pod.priority_class or default_class, pod.ends, pod.queue)


def _with_defaults(one: ContainerAsk, rows: Iterable[Limits]) -> ContainerAsk:
    requests, limits = {**one.limits, **one.requests}, dict(one.limits)  # a limit alone is a request too
    for row in rows:
        limits = {**row.limits, **limits}
        requests = {**row.requests, **requests}
    return ContainerAsk(requests, limits, one.step)


def refused(pod: PodAsk, one: LimitRange) -> str:
    """Why a LimitRange refuses a pod that has its defaults, as a clause; "" where it does not.

    A pod is held against the sum of its containers.
    """
    total = ContainerAsk(_peak(pod, "requests"), _peak(pod, "limits"))
    for row in one.rows:
        for each in pod.containers if row.kind == "Container" else (total,) if row.kind == "Pod" else ():
            why = _over(row, each) or _under(row, each)
            if why:
                return why
    return ""


def _over(row: Limits, each: ContainerAsk) -> str:
    for name, most in row.most.items():
        limit = each.limits.get(name)
        if limit is None or limit > most:
            asks = f"has a limit of {number(name, limit)}" if limit is not None else "has no limit"
            return f"allows a {row.kind.lower()} at most {spelled(name, most)}, and one of its template {asks}"
    return ""


def _under(row: Limits, each: ContainerAsk) -> str:
    for name, least in row.least.items():
        request = each.requests.get(name)
        if request is None or request < least:
            asks = f"requests {number(name, request)}" if request is not None else "requests none"
            return (
                f"wants a {row.kind.lower()} to request at least {spelled(name, least)}, and one of its template {asks}"
            )
    return ""


def requested(pod: PodAsk) -> dict[str, int]:
    """What a pod counts for in quotas, by key. Its containers have their defaults."""
    amounts = {"pods": THOUSAND, "count/pods": THOUSAND}
    for name, amount in _peak(pod, "requests").items():
        amounts[f"requests.{name}"] = amount
        if name in _PLAIN:
            amounts[name] = amount
    for name, amount in _peak(pod, "limits").items():
        if name in _PLAIN:
            amounts[f"limits.{name}"] = amount
    return amounts


def unsaid(pod: PodAsk, hard: Iterable[str]) -> str:
    """The first key of a quota for cores or memory that one of the pod's containers says nothing of, "" for none."""
    for key in sorted(hard):
        name = key.removeprefix("requests.").removeprefix("limits.")
        limits = key.startswith("limits.")
        if name in COMPUTE and any(name not in (one.limits if limits else one.requests) for one in pod.containers):
            return key
    return ""


def _peak(pod: PodAsk, which: str) -> dict[str, int]:
    """What the pod takes at its peak: containers and sidecars together, or the largest step of initialisation."""
    running: dict[str, int] = {}
    peak: dict[str, int] = {}
    for one in sorted(pod.containers, key=lambda each: each.step == ""):
        amounts = one.requests if which == "requests" else one.limits
        for name, amount in amounts.items():
            if one.step == "init":
                peak[name] = max(peak.get(name, 0), running.get(name, 0) + amount)
            else:
                running[name] = running.get(name, 0) + amount
    return {name: max(running.get(name, 0), peak.get(name, 0)) for name in running.keys() | peak.keys()}


_SIZES = ((2**40, "Ti"), (2**30, "Gi"), (2**20, "Mi"))


def spelled(key: str, amount: int) -> str:
    """An amount with its key: `8 nvidia.com/gpu`, `500m cpu`, `4Gi memory`."""
    name = key.removeprefix("requests.").removeprefix("limits.")
    return f"{number(name, amount)} {key}"


def number(key: str, amount: int) -> str:
    """An amount as Kubernetes spells it: `8`, `500m`, `4Gi`."""
    whole, rest = divmod(amount, THOUSAND)
    if rest:
        return f"{amount}m"
    if "memory" in key or "storage" in key:
        for size, unit in _SIZES:
            if whole >= size and whole % size == 0:
                return f"{whole // size}{unit}"
    return str(whole)

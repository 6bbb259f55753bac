"""Devices by dynamic resource allocation (DRA): what drivers publish of a node, and which claims hold it.

A DeviceClass selects devices by CEL. Of these expressions only conjunctions of comparisons are understood, which is how
the drivers' own classes are written: what else there is makes the number of devices unknown, never a guess.
"""

from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct

Value = str | int | bool
Place = tuple[str, str, str]  # driver, pool of the driver (mostly the node's name), device
Counters = dict[str, int]  # by name of the counter
MIB = 1024 * 1024


class DeviceClass(Struct, frozen=True):
    """A class of devices, by which pods ask for them.

    name: `metadata.name` of the object.
    uid: its Kubernetes UID.
    resource_version: its version in the API server; of two, the newer stands.
    wants: conditions that a device must meet, as (attribute, value); `driver` stands for its driver.
    extended_resource: extended resource by which pods may ask for it, too; "" where there is none.
    unread: the selector that nobody here can read; "" where all are read.
    """

    name: str
    uid: str
    resource_version: str
    wants: tuple[tuple[str, Value], ...] = ()
    extended_resource: str = ""
    unread: str = ""

    def selects(self, driver: str, device: "Device") -> bool:
        """Whether a device of `driver` is of the class."""
        attributes: dict[str, Value] = {"driver": driver, **device.attributes}
        return not self.unread and all(attributes.get(name) == value for name, value in self.wants)


class Device(Struct, frozen=True):
    """A device that a driver offers, whole or as one of several ways to part a GPU.

    name: its name within the driver's pool.
    attributes: what the driver says of it, by name with its domain.
    memory_mib: MiB of its memory; None where the driver does not say.
    uses: what it takes of counters that it shares with other devices, by set of counters.
    shut: whether a taint keeps new claims away.
    """

    name: str
    attributes: dict[str, Value] = {}
    memory_mib: int | None = None
    uses: dict[str, Counters] = {}
    shut: bool = False


class ResourceSlice(Struct, frozen=True):
    """Part of what one driver offers on one node.

    name: `metadata.name` of the object.
    uid: its Kubernetes UID.
    resource_version: its version in the API server; of two, the newer stands.
    driver: name of the driver that offers the devices.
    pool: name of the driver's pool, mostly that of the node.
    generation: of the pool; slices of older ones say nothing any more.
    slices: how many slices of that generation make the pool.
    node: name of the node; None where its devices are not one node's own.
    devices: those of this slice; a pool may have more slices.
    counters: what devices of the pool share, by set of counters.
    """

    name: str
    uid: str
    resource_version: str
    driver: str
    pool: str
    generation: int = 1
    slices: int = 1
    node: str | None = None
    devices: tuple[Device, ...] = ()
    counters: dict[str, Counters] = {}


class ResourceClaim(Struct, frozen=True):
    """A claim to devices, allocated or not.

    namespace: `metadata.namespace` of the object.
    name: `metadata.name` of the object.
    uid: its Kubernetes UID.
    resource_version: its version in the API server; of two, the newer stands.
    devices: the devices that it holds.
    pods: UIDs of the pods that it is reserved for.
    """

    namespace: str
    name: str
    uid: str
    resource_version: str
    devices: tuple[Place, ...] = ()
    pods: tuple[str, ...] = ()


class ClaimTemplate(Struct, frozen=True):
    """A ResourceClaimTemplate: the claim that each pod of a workload gets.

    namespace: `metadata.namespace` of the object.
    name: `metadata.name` of the object.
    uid: its Kubernetes UID.
    resource_version: its version in the API server; of two, the newer stands.
    asks: devices by class; a class without a certain number is not in it.
    """

    namespace: str
    name: str
    uid: str
    resource_version: str
    asks: dict[str, int] = {}


class OnNode(Struct, frozen=True):
    """The devices of one class on a node.

    count: how many there can be at once: ways to part one GPU exclude each other, and what others hold is taken off.
    foreign: how many of these are held by claims of no pod of a model.
    unknown: why nobody can say; "" where it is known.
    memory_gib: GiB of memory of the smallest; None where the driver does not say.
    """

    count: int = 0
    foreign: int = 0
    unknown: str = ""
    memory_gib: float | None = None


def current(slices: Iterable[ResourceSlice]) -> list[ResourceSlice]:
    """The slices of each driver pool's newest generation; none of a pool of which some have not come yet."""
    of_pool: dict[tuple[str, str], list[ResourceSlice]] = {}
    for one in slices:
        of_pool.setdefault((one.driver, one.pool), []).append(one)
    whole: list[ResourceSlice] = []
    for parts in of_pool.values():
        newest = max(one.generation for one in parts)
        of_it = [one for one in parts if one.generation == newest]
        if len(of_it) >= max(one.slices for one in of_it):
            whole += of_it
    return whole


def on_node(
    kind: DeviceClass | None,
    name: str,
    slices: Iterable[ResourceSlice],
    holders: Mapping[Place, bool],
) -> OnNode:
    """The devices of class `name` on a node of which these are the slices.

    holders: the devices that claims hold, and whether a pod of a model is behind the claim.
    """
    if kind is None:
        return OnNode(unknown=f"there is no DeviceClass {name}")
    if kind.unread:
        return OnNode(unknown=f"the selector `{kind.unread}` of DeviceClass {name} is not understood")
    every = {(one.driver, one.pool, each.name): each for one in current(slices) for each in one.devices}
    free = {
        (one.driver, one.pool, group): dict(counters)
        for one in current(slices)
        for group, counters in one.counters.items()
    }
    for place, device in every.items():
        if place in holders:
            _take(free, place, device)
    mine = {place: device for place, device in every.items() if kind.selects(place[0], device)}
    held = [place for place in mine if place in holders]
    count = len(held)
    for place in sorted(mine.keys() - holders.keys(), key=lambda each: (_size(mine[each]), each)):
        if not mine[place].shut and _take(free, place, mine[place]):
            count += 1
    sizes = [device.memory_mib for device in mine.values()]
    known = [size for size in sizes if size is not None]
    memory = min(known) / 1024 if known and len(known) == len(sizes) else None
    return OnNode(count, sum(not holders[place] for place in held), "", memory)


def _take(free: Mapping[Place, Counters], place: Place, device: Device) -> bool:
    """Take what the device uses of shared counters, where all of it is there; one that is held may take any."""
    needs = [
        (free.get((*place[:2], group), {}), counter, amount)
        for group, counters in device.uses.items()
        for counter, amount in counters.items()
    ]
    if any(left.get(counter, 0) < amount for left, counter, amount in needs):
        return False
    for left, counter, amount in needs:
        left[counter] -= amount
    return True


def _size(device: Device) -> int:
    return sum(sum(counters.values()) for counters in device.uses.values())


def places_of(claims: Iterable[ResourceClaim], ours: Collection[str]) -> dict[Place, bool]:
    """The devices that claims hold, each once, and whether a pod of `ours` (UIDs) is behind one of the claims."""
    places: dict[Place, bool] = {}
    for claim in claims:
        mine = any(pod in ours for pod in claim.pods)
        for place in claim.devices:
            places[place] = places.get(place, False) or mine
    return places

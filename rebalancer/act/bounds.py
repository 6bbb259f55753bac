"""Writes minimum and maximum of an autoscaler in one merge patch; the drivers of ScaledObjects and HPAs share it.

The object's own bounds are saved on it with our first write, and never again. Each change of a ScaledObject's spec
makes KEDA rebuild its scalers; so we write only on a real change, and at most once per object in 10 s. A write that
frees GPUs, or that takes GPUs which a shift has freed, does not wait for that: the HPA acts every 15 s, and each sync
that it misses leaves GPUs idle beside requests that wait.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from rebalancer.act.driver import Ask, Refused, same_object
from rebalancer.act.originals import annotated, named, saved_on
from rebalancer.act.port import Port
from rebalancer.act.unseen_writes import asking
from rebalancer.domain.plan import Change
from rebalancer.domain.snapshot import AutoscalerView
from rebalancer.kube.errors import Ambiguous
from rebalancer.kube.resources import Object, Ref, Resource
from rebalancer.obs.clock import Clock

PATCH_EVERY_SECONDS = 10.0
SHIFT_PATCH_EVERY_SECONDS = 0.1  # GPUs that are freed one after another are gathered for as long
URGENT_KINDS = frozenset({"release", "replace"})  # a release frees GPUs somebody waits for, a notice has a deadline
URGENT_PASSES = ("drain", "override")


class Bounds(NamedTuple):
    """The lowest and the highest number of replicas an autoscaler may choose."""

    minimum: int
    maximum: int

    def __str__(self) -> str:
        return f"{self.minimum}..{self.maximum}"


class _Written(NamedTuple):
    monotonic: float
    bounds: Bounds


@dataclass(frozen=True)
class Dialect:
    """How one kind of autoscaler spells its bounds, and which bounds an absent or a least value stands for.

    resource: the kind's API resource.
    minimum_key: key of the minimum in its spec.
    maximum_key: key of the maximum in its spec.
    absent: bounds in force where the keys are absent, in replicas.
    least_minimum: lowest minimum that the kind allows everywhere, in replicas; one whose own minimum is 0 allows 0.
    objection: returns why an object of the kind must not be written, None where nothing speaks against it.
    """

    resource: Resource
    minimum_key: str
    maximum_key: str
    absent: Bounds
    least_minimum: int
    objection: Callable[[Object], Refused | None]

    def bounds(self, obj: Object) -> Bounds:
        """The bounds in force."""
        spec = obj.get("spec", {})
        low, high = spec.get(self.minimum_key), spec.get(self.maximum_key)
        return Bounds(self.absent.minimum if low is None else low, self.absent.maximum if high is None else high)

    def spec(self, minimum: int | None, maximum: int | None) -> Object:
        """The spec of a merge patch that sets both; None removes the key."""
        return {self.minimum_key: minimum, self.maximum_key: maximum}

    def wanted(self, view: AutoscalerView, minimum: int, replicas: int) -> Bounds:
        """The bounds for that minimum and grant; a maximum of 0 does not exist, the least grant is 1."""
        least = 0 if view.sleeps else self.least_minimum
        return Bounds(max(least, minimum), max(1, replicas))

    def originals(self, obj: Object) -> Object:
        """The object's own bounds as they are spelled, null where absent."""
        spec = obj.get("spec", {})
        return {"min": spec.get(self.minimum_key), "max": spec.get(self.maximum_key)}


class BoundsDriver:
    """Writes an autoscaler's bounds, never wider ones than a change asks for, as far as its kind can express them."""

    def __init__(self, kube: Port, clock: Clock, dialect: Dialect, installation: str = "") -> None:
        self._kube = kube
        self._installation = installation
        self._clock = clock
        self._dialect = dialect
        self._written: dict[str, _Written] = {}

    async def look(self, change: Change) -> Object:
        """The autoscaler. Raises Refused: installation, recreated, foreign, paused, moved, done, too-soon, originals.

        A write that would change nothing is none. Somebody else may have set the very maximum that we want: until the
        HPA follows, every plan asks for it, and each would count as another loss in the guards' windows.
        """
        view = _autoscaler(change)
        obj = await self._kube.get(self._ref(change))
        same_object(obj, view.uid, _name(view, change))
        saved = saved_on(obj, self._installation)
        self._still_ours(obj, view, change)
        seen = self._dialect.bounds(obj)
        if seen not in self._expected(view, change):
            saw = Bounds(view.minimum, view.maximum)
            raise Refused("moved", f"{_name(view, change)} has bounds {seen}, the plan saw {saw}")
        if saved is not None and seen == self._wanted(change):
            raise Refused("done", f"{_name(view, change)} has bounds {seen} already")
        self._writable(change)
        return obj

    async def write(self, change: Change, seen: Object) -> Ask:
        """Patch what differs; what is asked for, unless the server stored other bounds than were written."""
        wanted = self._wanted(change)
        saved = saved_on(seen, self._installation)
        body: Object = {"spec": self._dialect.spec(*wanted)}
        if saved is None:
            body["metadata"] = annotated(self._dialect.originals(seen), self._installation)
        else:
            body |= named(seen, self._installation) or {}
        version = seen["metadata"]["resourceVersion"]
        try:
            stored = await self._kube.patch(self._ref(change), body, resource_version=version)
        except Ambiguous:
            self._remember(seen, wanted)
            raise
        self._remember(seen, wanted)
        bounds = self._dialect.bounds(stored)
        return asking(change) if bounds == wanted else Ask(bounds.maximum, bounds.minimum)

    async def shows(self, change: Change) -> bool:
        """Whether the autoscaler has the bounds asked for."""
        obj = await self._kube.get(self._ref(change))
        ours = obj["metadata"]["uid"] == _autoscaler(change).uid
        return ours and self._dialect.bounds(obj) == self._wanted(change)

    def _ref(self, change: Change) -> Ref:
        return Ref(self._dialect.resource, change.target.namespace, _autoscaler(change).name)

    def _wanted(self, change: Change) -> Bounds:
        return self._dialect.wanted(_autoscaler(change), change.minimum, change.replicas_to)

    def _still_ours(self, obj: Object, view: AutoscalerView, change: Change) -> None:
        owned = obj.get("spec", {}).get("scaleTargetRef", {})
        scales = f"{owned.get('kind') or 'Deployment'} {owned.get('name')}"
        planned = f"{change.target.kind} {change.target.name}"
        if scales != planned:
            raise Refused("foreign", f"{_name(view, change)} scales {scales} now, not {planned}")
        objection = self._dialect.objection(obj)
        if objection is not None:
            raise objection

    def _expected(self, view: AutoscalerView, change: Change) -> set[Bounds]:
        """The bounds the plan saw, or those of our own write that its watch had not shown yet."""
        expected = {Bounds(view.minimum, view.maximum)}
        written = self._written.get(view.uid)
        if written is not None and written.bounds.maximum == change.target.unconfirmed_replicas:
            expected.add(written.bounds)
        return expected

    def _writable(self, change: Change) -> None:
        """Raise Refused for bounds that KEDA and the HPA would fight over, and for the second patch in 10 s."""
        wanted, last = self._wanted(change), self._written.get(_autoscaler(change).uid)
        if wanted.minimum > wanted.maximum:
            raise Refused("bounds", f"minimum {wanted.minimum} is above maximum {wanted.maximum}")
        if last is None:
            return
        every_seconds = pace_seconds(change)
        wait_seconds = last.monotonic + every_seconds - self._clock.monotonic()
        if wait_seconds > 0:
            raise Refused("too-soon", f"patched less than {every_seconds:g} s ago, wait another {wait_seconds:.1f} s")

    def _remember(self, obj: Object, bounds: Bounds) -> None:
        now_monotonic = self._clock.monotonic()
        recent = now_monotonic - PATCH_EVERY_SECONDS
        self._written = {uid: each for uid, each in self._written.items() if each.monotonic > recent}
        self._written[obj["metadata"]["uid"]] = _Written(now_monotonic, bounds)


def pace_seconds(change: Change) -> float:
    """How long a change waits after the last patch of its object."""
    if change.kind in URGENT_KINDS or (change.passes or "").startswith(URGENT_PASSES):
        return 0.0
    return SHIFT_PATCH_EVERY_SECONDS if change.kind == "grant" and change.shift is not None else PATCH_EVERY_SECONDS


def _autoscaler(change: Change) -> AutoscalerView:
    if change.target.autoscaler is None:
        raise ValueError(f"{change.id}: no autoscaler owns {change.target.name}")
    return change.target.autoscaler


def _name(view: AutoscalerView, change: Change) -> str:
    return f"{view.kind.lower()}/{change.target.namespace}/{view.name}"

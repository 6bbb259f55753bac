"""Overrides in force, resolved: what people decided about each model and node, and which of them count.

Precedence: pause, freeze, pin, cap, floor, drain, exclude; the newest wins within a kind for one subject, the loser
is told Superseded. (A drain reaches planning as a notice; standUp sets no number and conflicts with no other kind.)
Below all of them stand the schedules of the policy: a person's cap takes the place of a scheduled one, a pin that of
both bounds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rebalancer.domain.instant import clock
from rebalancer.domain.people import DECIDING, Override
from rebalancer.domain.plan import OverrideState
from rebalancer.domain.policy import Model, Policy
from rebalancer.domain.snapshot import Snapshot
from rebalancer.planning.overrides.schedules import Scheduled, resolve_schedules

IN_FORCE = "InForce"
STAND_UP = "standUp"
PRECEDENCE = (*DECIDING, "floor", "drain", "exclude", STAND_UP)
# Overrides of one model by those in whose presence they change nothing, the strongest first.
OUTRANKED_BY = {
    "freeze": ("pause",),
    "pin": ("pause", "freeze"),
    "cap": ("pause", "freeze", "pin"),
    "floor": ("pause", "freeze", "pin"),
}
NUMBERS = frozenset({"pin", "cap", "floor"})


@dataclass(frozen=True, slots=True)
class Ruling:
    """The overrides about one model that stand, and below them its schedules; None: nothing of that kind, or outranked.

    paused: the override of kind pause: its targets are neither donor nor recipient.
    frozen: the override of kind freeze: its number of replicas stays.
    pin: the override that sets its number of replicas.
    cap: the override that sets the most replicas.
    floor: the override that sets the fewest replicas it is to have.
    excluded_nodes: names of nodes on which it gets nothing new.
    excluded_pools: pools in which it gets nothing new, each with the override that excludes or drains it.
    scheduled: what its schedules say now.
    stood_up: the overrides of kind standUp: the guard `foreign` forgets changes by others from before the last of them.
    """

    paused: Override | None = None
    frozen: Override | None = None
    pin: Override | None = None
    cap: Override | None = None
    floor: Override | None = None
    excluded_nodes: frozenset[str] = frozenset()
    excluded_pools: Mapping[str, Override] = field(default_factory=dict)
    scheduled: Scheduled | None = None
    stood_up: tuple[Override, ...] = ()

    def floor_of(self, model: Model) -> int:
        """The floor this model's actions must keep.

        The policy's, raised by a schedule as far as no person pins or caps it lower, unless an override lowers it by
        name.
        """
        if self.pin is None and self.cap is None and self.scheduled is None:
            return model.min_replicas
        floor = max(model.min_replicas, self._scheduled_floor)
        one = self.pin or self.cap
        if one is None or one.value is None or not one.allow_below_floor:
            return floor
        return min(floor, one.value)

    def wanted(self, model: Model, demand: int) -> int:
        """Demand as the overrides and below them the schedules leave it, within [floor, maxReplicas]."""
        if self is NO_RULING:
            return max(model.min_replicas, min(demand, model.max_replicas))
        floor = self.floor_of(model)
        if self.pin is not None and self.pin.value is not None:
            return max(floor, min(self.pin.value, model.max_replicas))
        if self.floor is not None and self.floor.value is not None:
            demand = max(demand, self.floor.value)
        if self.cap is not None and self.cap.value is not None:
            demand = min(demand, self.cap.value)
        elif self.scheduled is not None:
            demand = min(demand, max(self.scheduled.standing.cap, self.raised_floor))
        return max(floor, min(demand, model.max_replicas))

    def words(self, model: Model, demand: int) -> str:
        """The words of the override or schedule that sets the model's number in place of `demand`; "" without one."""
        if self is NO_RULING:
            return ""
        wanted, scheduled = self.wanted(model, demand), self.scheduled
        if wanted == demand:
            return ""
        if scheduled is not None and self.pin is None:
            if wanted > demand and wanted == self._scheduled_floor > self.raised_floor:
                capped = wanted < scheduled.standing.floor and self.cap is not None
                return scheduled.floor_words + (f", {_words(self.cap)}" if capped else "")
            if wanted < demand and self.cap is None and scheduled.standing.cap >= self.raised_floor:
                return scheduled.cap_words
        return _words(self.decides)

    @property
    def _scheduled_floor(self) -> int:
        if self.scheduled is None or self.pin is not None:
            return 0
        floor = self.scheduled.standing.floor
        return floor if self.cap is None else min(floor, self.cap.value or 0)

    @property
    def raised_floor(self) -> int:
        """The least a person wants the model to have; others do not get it."""
        return (self.floor.value or 0) if self.floor is not None else 0

    def over(self, kind: str) -> Override | None:
        """The override that outranks one of `kind` about this model, so that it changes nothing; None: none does."""
        standing = {"pause": self.paused, "freeze": self.frozen, "pin": self.pin}
        over = next((one for name in OUTRANKED_BY.get(kind, ()) if (one := standing[name]) is not None), None)
        return self.cap if over is None and kind == "floor" and self._capped_below_floor else over

    @property
    def _capped_below_floor(self) -> bool:
        return self.cap is not None and self.floor is not None and (self.cap.value or 0) < (self.floor.value or 0)

    @property
    def settled(self) -> Override | None:
        """The override under which nothing else moves the model's number up, if any."""
        return self.paused or self.frozen or self.pin

    @property
    def decides(self) -> Override | None:
        """The override that sets this model's number, if any."""
        return self.pin or self.cap or self.floor


NO_RULING = Ruling()


def _words(one: Override | None) -> str:
    return f"{one.kind} {one.value} by override {one.name}" if one is not None else ""


@dataclass(slots=True)
class _Draft:
    by_kind: dict[str, Override] = field(default_factory=dict)
    stood_up: list[Override] = field(default_factory=list)
    nodes: set[str] = field(default_factory=set)
    pools: dict[str, Override] = field(default_factory=dict)


def resolve(snapshot: Snapshot, policy: Policy) -> tuple[dict[str, Ruling], tuple[OverrideState, ...]]:
    """Rulings per model id (models without one are absent), and the state of every override."""
    models = {model.id: model for model in policy.models}
    pools = {pool.name for pool in policy.pools}
    drafts: dict[str, _Draft] = {}
    states: list[OverrideState] = []
    # Newest first: the first of a kind and subject is the one in force. Ties by name, so that order is total.
    for one in sorted(snapshot.overrides, key=lambda each: (-each.created_at, each.name)):
        ended = _unusable(one, policy, models, pools, snapshot.at)
        if ended is not None:
            states.append(_override_state(one, *ended))
        else:
            states.append(_override_state(one, *_enter(one, models, drafts)))
    scheduled = resolve_schedules(snapshot, policy)
    for name in scheduled:
        drafts.setdefault(name, _Draft())
    rulings = {name: _ruling(draft, scheduled.get(name)) for name, draft in drafts.items()}
    return rulings, tuple(sorted(states, key=lambda state: (state.namespace, state.name)))


def _ruling(draft: _Draft, scheduled: Scheduled | None) -> Ruling:
    standing = _standing(draft.by_kind)
    return Ruling(
        paused=standing.get("pause"),
        frozen=standing.get("freeze"),
        pin=standing.get("pin"),
        cap=standing.get("cap"),
        floor=standing.get("floor"),
        excluded_nodes=frozenset(draft.nodes),
        excluded_pools=draft.pools,
        scheduled=scheduled,
        stood_up=tuple(draft.stood_up),
    )


def _standing(by_kind: Mapping[str, Override]) -> Mapping[str, Override]:
    """Those of a model's overrides that count: one that another outranks sets no number."""
    return {
        kind: one
        for kind, one in by_kind.items()
        if kind not in NUMBERS or by_kind.keys().isdisjoint(OUTRANKED_BY[kind])
    }


def _override_state(one: Override, phase: str, message: str) -> OverrideState:
    return OverrideState(namespace=one.namespace, name=one.name, uid=one.uid, phase=phase, message=message)


def _unusable(
    one: Override, policy: Policy, models: dict[str, Model], pools: set[str], now: float
) -> tuple[str, str] | None:
    """Why an override does nothing: expired, too long, or about something that does not exist or is not there."""
    if one.expires_at <= now:
        return "Expired", f"ended at {clock(one.expires_at)}"
    longest = policy.overrides.max_seconds
    if one.too_long(longest):
        return "Refused", f"expires after more than {longest:.0f} s (policy overrides.maxSeconds); make it shorter"
    name = one.named_model
    if name is not None and name not in models:
        return "Refused", f"no model {name!r} in the policy"
    if name is not None and models[name].namespace != one.namespace:
        # Who may override is asked per namespace, so a right in one must not reach a model of another.
        return "Refused", f"model {name} is in namespace {models[name].namespace}; create the override there"
    if one.subject_kind == "pool" and one.subject not in pools:
        return "Refused", f"no pool {one.subject!r} in the policy"
    return None


def _enter(one: Override, models: dict[str, Model], drafts: dict[str, _Draft]) -> tuple[str, str]:
    """Put one usable override where it counts; returns (phase, how far it cannot be applied)."""
    if one.kind == "drain" and one.subject_kind != "pool":
        return IN_FORCE, ""
    if one.kind == STAND_UP:  # all of them: the guard takes the last one seen, when each was made is another clock's
        drafts.setdefault(one.subject, _Draft()).stood_up.append(one)
        return IN_FORCE, ""
    if one.kind in {"exclude", "drain"}:  # nodes that come to a pool that is drained would be emptied, too
        for name in [one.model] if one.model else models:
            draft = drafts.setdefault(name, _Draft())
            if one.subject_kind == "pool":
                draft.pools.setdefault(one.subject, one)
            else:
                draft.nodes.add(one.subject)
        return IN_FORCE, ""
    draft = drafts.setdefault(one.subject, _Draft())
    if one.kind in draft.by_kind:
        return "Superseded", f"by {draft.by_kind[one.kind].name}, which is newer"
    draft.by_kind[one.kind] = one
    return IN_FORCE, _beyond(one, models[one.subject])


def _beyond(one: Override, model: Model) -> str:
    """How far an override asks for what the model's bounds do not allow; "" where it does not."""
    if one.kind in {"pin", "cap"} and (one.value or 0) < model.min_replicas and not one.allow_below_floor:
        return f"applied at the floor {model.min_replicas}; set allowBelowFloor to go below it"
    if one.kind in {"pin", "floor"} and (one.value or 0) > model.max_replicas:
        return f"applied at maxReplicas {model.max_replicas}"
    return ""

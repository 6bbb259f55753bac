"""The two parts of a NodePool that we ever write, its limits and its disruption budgets, and the patch between two.

Pure. Values stay as they are spelled in the object, so that what is given back is equal byte by byte.
"""

from dataclasses import dataclass, replace
from typing import Any, Final, Self

from rebalancer.act.driver import Refused
from rebalancer.act.originals import annotated, saved_on
from rebalancer.domain.quantities import Quantity, devices
from rebalancer.kube.resources import Object

HOLD: Final[Object] = {"nodes": "0", "reasons": ["Empty", "Underutilized"]}
DEFAULT_BUDGETS: Final[list[Object]] = [{"nodes": "10%"}]  # what Karpenter applies where there are none


@dataclass(frozen=True)
class Parts:
    """`spec.limits` and `spec.disruption.budgets`; None = the key is absent."""

    limits: dict[str, Any] | None
    budgets: list[Object] | None

    @classmethod
    def of(cls, obj: Object) -> Self:
        """The parts of a NodePool as they are now."""
        return cls(obj["spec"].get("limits"), (obj["spec"].get("disruption") or {}).get("budgets"))

    @classmethod
    def saved(cls, obj: Object, installation: str) -> Self | None:
        """The parts before our first write, None when nothing is saved. Raises Refused as `saved_on` does.

        Limits that we have not written are not saved: the NodePool's own are those that it has now.
        """
        saved = saved_on(obj, installation)
        return None if saved is None else cls(saved.get("limits", cls.of(obj).limits), saved.get("budgets"))

    @property
    def has_hold(self) -> bool:
        """Whether our hold is among the budgets."""
        return HOLD in (self.budgets or [])

    def limit(self, resource: str) -> int | None:
        """Devices of `resource` the nodes may have together; None = unlimited. Raises Refused(moved)."""
        value = (self.limits or {}).get(resource)
        return None if value is None else whole(value, f"the limit of {resource}")

    def with_limit(self, resource: str, value: Any) -> Self:  # noqa: ANN401 - spelled as the object had it
        """The parts with that limit for `resource`; None removes it."""
        rest = {key: each for key, each in (self.limits or {}).items() if key != resource}
        return replace(self, limits=rest if value is None else {**rest, resource: value})

    def with_limit_of(self, original: Self, resource: str) -> Self:
        """The parts with `original`'s limit for `resource`; without any limits where it had none."""
        back = self.with_limit(resource, (original.limits or {}).get(resource))
        return replace(back, limits=back.limits or original.limits)

    def with_hold(self) -> Self:
        """The parts with our hold behind the NodePool's own budgets: the most restrictive one counts."""
        return self if self.has_hold else replace(self, budgets=_with_hold(self.budgets))

    def without_hold(self, original: Self) -> Self:
        """The parts with `original`'s budgets; where somebody edited them meanwhile, only the hold goes."""
        if self.budgets == _with_hold(original.budgets):
            return replace(self, budgets=original.budgets)
        return replace(self, budgets=[each for each in self.budgets or [] if each != HOLD]) if self.has_hold else self


def whole(quantity: Quantity, what: str) -> int:
    """Devices in a quantity of the object's. Raises Refused(moved) where it spells no number of them."""
    try:
        return devices(quantity)
    except ValueError as error:
        raise Refused("moved", f"{what} is {quantity!r}, no whole number") from error


def patch(obj: Object, wanted: Parts, installation: str) -> Object | None:
    """The merge patch that makes `obj` as `wanted`; None when there is nothing to do.

    It saves the originals with our first write, and removes them with the one that gives them back. Limits are among
    them while they are ours alone: under a mere hold people may set them.
    """
    now, saved = Parts.of(obj), Parts.saved(obj, installation)
    # Budgets without our hold are not ours: people may have set them since the originals were saved.
    original = Parts(
        limits=saved.limits if saved else now.limits,
        budgets=saved.budgets if saved and now.has_hold else now.budgets,
    )
    limits = {} if wanted.limits == original.limits else {"limits": original.limits}
    keep = None if wanted == original else {**limits, "budgets": original.budgets}
    if now == wanted and (keep is None) == (saved is None):
        return None
    return {"metadata": annotated(keep, installation), "spec": _difference(now, wanted)}


def _with_hold(budgets: list[Object] | None) -> list[Object]:
    return [*(budgets or DEFAULT_BUDGETS), HOLD]


def _difference(now: Parts, wanted: Parts) -> Object:
    spec: Object = {}
    if now.limits != wanted.limits:  # a merge patch keeps the keys it does not name
        spec["limits"] = None if wanted.limits is None else {**dict.fromkeys(now.limits or {}), **wanted.limits}
    if now.budgets != wanted.budgets:  # it replaces a list whole
        spec["disruption"] = {"budgets": wanted.budgets}
    return spec

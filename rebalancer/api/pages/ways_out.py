"""What a person may do about each need: an override to look at, or the runbook's command."""

from shlex import quote
from typing import Final

from rebalancer.api.pages.values.overview import WayOut
from rebalancer.api.text.explain import YIELDING
from rebalancer.api.text.words import printable
from rebalancer.domain.plan import Refusal, Unmet

DOCTOR: Final = WayOut("find out why", "rebalancer doctor")
BY_PERSON: Final = frozenset({"pause", "freeze", "override"})  # constraints that end with an override


def explained(model: str) -> WayOut:
    """Nothing to press: the numbers say what to do."""
    return WayOut("find out why", f"rebalancer explain {quote(printable(model))}")


def of_node(node: str) -> WayOut:
    """What becomes of its replicas, and whether in time."""
    return WayOut("follow it", f"rebalancer explain --node {quote(printable(node))}")


def of_model(text: str, kind: str, model: str, value: int | None = None) -> WayOut:
    """An override of kind `kind` on a model that is named."""
    if kind == "standUp":
        return WayOut(text, f"rebalancer stand-up {model} --reason WHY", kind, model)
    number = "" if value is None else f" {value}"
    return WayOut(text, f"rebalancer override add {kind} {model}{number} --for 30m --reason WHY", kind, model, value)


def held_by(row: Unmet) -> WayOut:
    """The end of the override that keeps a model's number down, where one does."""
    if row.constraint in BY_PERSON:
        return WayOut(f"end what keeps {row.model} there", "rebalancer override list", "end", row.model)
    return explained(row.model)


def of_short(row: Unmet, gate: Refusal | None, donor: tuple[str, int] | None) -> WayOut:
    """What may be decided instead of waiting: past a guard that yields to a person, or against another model.

    `donor`: who loses least by giving, and how many replicas it would keep; None where nobody could.
    """
    kind = "cap" if gate is not None and gate.replicas_to < gate.replicas_from else "floor"
    if gate is not None and gate.guard in YIELDING and (kind == "floor" or gate.subject != row.model):
        return of_model(f"{kind} {gate.subject} at {gate.replicas_to} now", kind, gate.subject, gate.replicas_to)
    if row.constraint in {"budget", "fit", "nodes"}:
        if donor is None:
            return explained(row.model)
        name, left = donor
        return of_model(f"take GPUs: cap {name} at {left}", "cap", name, left)
    if row.constraint == "maximum":
        return WayOut(f"raise maxReplicas of {row.model} in the policy", f"rebalancer explain {row.model}")
    return held_by(row)


def hand_back(todo: str) -> WayOut:
    """What `said_pinned` says to do, as a command where it is one."""
    command = todo.removeprefix("run ")
    return WayOut("give it back", command) if command != todo else DOCTOR

"""`rebalancer override list` and `rebalancer writes status`."""

from collections.abc import Sequence
from datetime import UTC, datetime

from msgspec.structs import replace

from rebalancer.api.text.words import columns, printable
from rebalancer.domain.people import Override, WriteStop
from rebalancer.domain.plan import Plan

HEADER = ("NAME", "KIND", "SUBJECT", "VALUE", "PHASE", "UNTIL (UTC)", "ACTOR", "REASON")
WIDE_HEADER = ("NAMESPACE", *HEADER, "MESSAGE")
NOT_YET = "not yet"
FAR_SECONDS = 60.0  # clocks that differ by less do not mislead: ends are told to the minute


def clock_words(service: float | None, here: float) -> str:
    """`by the service's clock, 03:12 now` where that is not this machine's, as in the demo; "" where both agree."""
    if service is None or abs(service - here) < FAR_SECONDS:
        return ""
    return f"by the service's clock, {hour(service)} now"


def as_planned(overrides: Sequence[Override], plan: Plan | None) -> tuple[Override, ...]:
    """Each with what the plan says of it: in shadow nobody writes that to the object."""
    states = {state.uid: state for state in plan.overrides} if plan is not None else {}
    return tuple(
        replace(each, phase=states[each.uid].phase, message=states[each.uid].message) if each.uid in states else each
        for each in overrides
    )


def render_overrides(overrides: Sequence[Override], *, wide: bool = False, clock: str = "") -> str:
    """One line per override, first what is in force. `clock`: by which clock they end, where that is to be told."""
    if not overrides:
        return "No overrides."
    ranked = sorted(overrides, key=lambda each: (each.phase != "InForce", each.expires_at, each.namespace, each.name))
    rows = [_wide_row(each) if wide else _row(each) for each in ranked]
    header = WIDE_HEADER if wide else HEADER
    align = "".join(">" if name == "VALUE" else "<" for name in header)
    return "\n".join([*columns([header, *rows], align, gap=2), *([f"UNTIL is {clock}."] if clock else [])])


def _row(override: Override) -> tuple[str, ...]:
    subject = override.subject if override.subject_kind == "model" else f"{override.subject_kind}/{override.subject}"
    about = f"{subject} for {override.model}" if override.model else subject
    return (
        override.name,
        override.kind,
        about,
        "" if override.value is None else str(override.value),
        override.phase or NOT_YET,
        minute(override.expires_at),
        override.actor,
        override.reason,
    )


def _wide_row(override: Override) -> tuple[str, ...]:
    return (override.namespace, *_row(override), override.message)


def render_stops(stops: Sequence[WriteStop]) -> str:
    """Lines that say who stopped the writes, since when and why."""
    if not stops:
        return "Writes are not stopped."
    return "\n".join(
        printable(f"Writes stopped by {each.actor} {minute(each.created_at)} UTC: {each.reason}") for each in stops
    )


def minute(at: float) -> str:
    """`01-16 05:59`: the day too, since an override may outlast the night."""
    return datetime.fromtimestamp(at, UTC).strftime("%m-%d %H:%M")


def hour(at: float) -> str:
    """`03:42`."""
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M")

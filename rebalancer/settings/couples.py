"""Roles coupled by a ratio: two models that exist, floors within it, and room in it for one replica at a time."""

from collections.abc import Iterator
from difflib import get_close_matches

from rebalancer.domain.couples import Couple
from rebalancer.settings.draft import DraftFinding, DraftPart

MOST_SIZES = 1000  # replicas of one role that are tried: from (1 + min) / (max - min) on there is always a step


def known_roles(policy: DraftPart) -> Iterator[DraftFinding]:
    """The other role is another model of the policy, and each model is in one couple."""
    models = policy.parts("models")
    names = [name for model in models if (name := model.text("id")) is not None]
    taken: set[str | None] = set()
    for model in models:
        ratio = model.part("ratio")
        if not isinstance(ratio.raw, dict):
            continue
        own, to = model.text("id"), ratio.text("to")
        if to is not None and (to == own or to not in names):
            close = get_close_matches(to, [name for name in names if name != own], n=1)
            fix = f"did you mean {close[0]}?" if close else "name the model that is the other role"
            what = f"{own} is no role beside itself" if to == own else f"no model is named {to}"
            yield DraftFinding(ratio.at("to"), what, " or ".join(name for name in names if name != own), fix)
        elif twice := taken & {own, to}:
            what = f"{min(map(str, twice))} is a role of another couple already"
            yield DraftFinding(ratio.path, what, fix="one ratio for two models: on one of the two")
        taken |= {own, to}


def bounds_of_ratios(policy: DraftPart) -> Iterator[DraftFinding]:
    """A ratio has its bounds in order, is kept by the floors, and lets one replica of either come or go first."""
    by_name = {model.text("id"): model for model in reversed(policy.parts("models"))}
    for model in policy.parts("models"):
        ratio = model.part("ratio")
        least, most, other = ratio.number("min"), ratio.number("max"), by_name.get(ratio.text("to"))
        if least is None or most is None:
            continue
        if least > most:
            yield DraftFinding(
                ratio.at("min"), f"min {least:g} > max {most:g}", f"0 to {most:g}", "lower min or raise max"
            )
        elif other is not None and other.text("id") != model.text("id"):
            couple = Couple(str(model.text("id")), str(other.text("id")), least, most)
            yield from _floors(couple, model, other)


def _floors(couple: Couple, of: DraftPart, to: DraftPart) -> Iterator[DraftFinding]:
    floors = of.whole("minReplicas"), to.whole("minReplicas")
    mosts = of.whole("maxReplicas"), to.whole("maxReplicas")
    for floor, model in zip(floors, (of, to), strict=True):
        if floor == 0:
            what = f"minReplicas 0 of a role: {couple.of} and {couple.to} cannot come from 0 in one write"
            yield DraftFinding(model.at("minReplicas"), what, "from 1", "keep one replica of each role")
            return
    if None in (*floors, *mosts):
        return
    least, most = (int(floors[0] or 0), int(floors[1] or 0)), (int(mosts[0] or 0), int(mosts[1] or 0))
    ratio = f"{couple.least:g} to {couple.most:g}"
    if couple.excess(couple.of, *least):
        what = f"the floors, {least[0]} of {couple.of} and {least[1]} of {couple.to}, are not within the ratio {ratio}"
        yield DraftFinding((*of.path, "ratio"), what, fix="change min or max, or a minReplicas")
    elif stuck := _stuck(couple, least, most):
        what = f"ratio {ratio} leaves no step from {stuck[0]} of {couple.of} beside {stuck[1]} of {couple.to}"
        fix = "lower min or raise max: no two objects are written at once, so one replica of either comes or goes first"
        yield DraftFinding((*of.path, "ratio"), what, fix=fix)


def _stuck(couple: Couple, least: tuple[int, int], most: tuple[int, int]) -> tuple[int, int] | None:
    """The first pair within the ratio from which both could go up, or both down, and no single replica may."""

    def allowed(of: int, to: int) -> bool:
        return couple.excess(couple.of, of, to) == 0.0

    for to in range(least[1], min(most[1], least[1] + MOST_SIZES) + 1):
        low, high = couple.span(couple.of, to)
        for of in {*range(max(low, least[0]), min(high, most[0], max(low, least[0]) + 1) + 1), min(high, most[0])}:
            if of < max(low, least[0]):
                continue
            if of < most[0] and to < most[1] and not (allowed(of + 1, to) or allowed(of, to + 1)):
                return of, to
            if of > least[0] and to > least[1] and not (allowed(of - 1, to) or allowed(of, to - 1)):
                return of, to
    return None

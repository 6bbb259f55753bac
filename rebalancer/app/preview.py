"""A foresight in words: what a person is shown before they decide, and the hash that says they saw it."""

import hashlib
from collections.abc import Iterator
from difflib import get_close_matches

import msgspec
from msgspec.structs import replace

from rebalancer.api.ports.requests import Effect, Preview
from rebalancer.api.text.words import clock, counted, some, span, when
from rebalancer.app.costs import costs_of, gains_of, lacks_of, unmet_words
from rebalancer.app.foresight import Foresight, Known, Move
from rebalancer.app.interruption import interruptions, start_seconds, staying
from rebalancer.domain.memory import Replaced
from rebalancer.domain.people import Override
from rebalancer.domain.plan import Change
from rebalancer.domain.policy import Model
from rebalancer.planning.overrides.rulings import PRECEDENCE, STAND_UP, resolve

WHEN = ("now", "then")
TAKES = frozenset({"cap", "pin"})  # kinds that may take replicas from their model for somebody
NOBODY_GAINS = "nobody gets a replica more by it within two plans"
MOST_NODES = 8  # named where one is not there


def preview_of(known: Known, override: Override, seen: Foresight) -> Preview:
    """The preview of `override`."""
    effects = tuple(_effect(known, seen, move) for move in seen.moves)
    refused, conflicts = refusal_of(known, override, seen), tuple(_conflicts(known, override, seen))
    stays = staying(known, override, seen)
    costs = tuple(costs_of(known, seen, stays)) if refused is None else ()
    gains = tuple(gains_of(known, seen)) if refused is None else ()
    if costs and not gains and override.kind in TAKES:
        gains = (NOBODY_GAINS,)
    if refused is not None:
        effects = ()
    return Preview(
        preview=_digest(override, effects, conflicts, refused, seen),
        name=override.name,
        namespace=override.namespace,
        actor=override.actor,
        expires_at=override.expires_at,
        effects=effects,
        conflicts=conflicts,
        refused=refused,
        confirm=name_to_type(known, override),
        unmet_before=seen.without.unmet,
        unmet_after=seen.without.unmet if refused else seen.course.unmet,
        lines=(
            *_lines(effects, conflicts, refused, seen, guarded=_guarded(known, override, seen)),
            *(interruptions(known, override, seen) if refused is None else ()),
            *(_prices(lacks_of(known, seen, stays), costs, gains) if refused is None else ()),
        ),
        costs=costs,
        gains=gains,
        at=known.snapshot.at,
    )


def preview_of_resume(known: Known, seen: Foresight, actor: str) -> Preview:
    """The preview of the first plan without a write stop."""
    return replace(_taken_back(known, seen, actor), confirm="resume")


def preview_of_end(known: Known, override: Override, seen: Foresight, actor: str) -> Preview:
    """The preview of the first plans without `override`; `without` of `seen` is with it."""
    preview = _taken_back(known, seen, actor)
    return replace(preview, name=override.name, namespace=override.namespace, expires_at=override.expires_at)


def _taken_back(known: Known, seen: Foresight, actor: str) -> Preview:
    effects = tuple(_effect(known, seen, move) for move in seen.moves)
    costs, gains = tuple(costs_of(known, seen, {})), tuple(gains_of(known, seen))
    return Preview(
        preview=_digest(None, effects, (), None, seen),
        name="",
        namespace="",
        actor=actor,
        expires_at=known.snapshot.at,
        effects=effects,
        unmet_before=seen.without.unmet,
        unmet_after=seen.course.unmet,
        lines=(*_lines(effects, (), None, seen), *_prices(lacks_of(known, seen, {}), costs, gains)),
        costs=costs,
        gains=gains,
        at=known.snapshot.at,
    )


def refusal_of(known: Known, override: Override, seen: Foresight | None = None) -> str | None:
    """Why it would do nothing, or less than a person may believe; None: it would do what it says."""
    if seen is not None and seen.state is not None and seen.state.phase == "Refused":
        return seen.state.message
    model = _model(known, override)
    if model is not None and _under_floor(model, override) and not override.allow_below_floor:
        wish = f"{override.kind} {override.value}"
        allowed = f"allowed from {model.min_replicas} to {model.max_replicas}, less with allowBelowFloor"
        return f"{wish} is below the floor {model.min_replicas} of {model.id}; {allowed} (--allow-below-floor)"
    if override.subject_kind == "node" and not any(
        node.name == override.subject for view in known.snapshot.pools for node in view.nodes
    ):
        names = sorted(node.name for view in known.snapshot.pools for node in view.nodes)
        near = get_close_matches(override.subject, names, n=1)
        meant = f"; did you mean {near[0]}?" if near else ""
        seen_nodes = some(names, MOST_NODES) or "none"
        return f"no node {override.subject!r} is seen in any pool{meant}; nodes: {seen_nodes}"
    return None


def name_to_type(known: Known, override: Override) -> str | None:
    """What a person must type: a drain, a whole pool and going below the floor are not done by one key."""
    if override.kind == "drain" or override.subject_kind == "pool":
        return override.subject
    model = _model(known, override)
    return override.subject if model is not None and _under_floor(model, override) else None


def _model(known: Known, override: Override) -> Model | None:
    if override.subject_kind != "model":
        return None
    return next((each for each in known.policy.models if each.id == override.subject), None)


def _under_floor(model: Model, override: Override) -> bool:
    return override.kind in {"pin", "cap"} and (override.value or 0) < model.min_replicas


def _conflicts(known: Known, new: Override, seen: Foresight) -> Iterator[str]:
    """The other overrides in force on the same subject, strongest first: which of the two counts.

    A word to stand up sets no number: it goes with all other kinds.
    """
    rank = PRECEDENCE.index(new.kind)
    standing = [
        one
        for one in _standing(known, seen)
        if (one.subject_kind, one.subject) == (new.subject_kind, new.subject)
        and one.uid != new.uid
        and (one.kind == STAND_UP) == (new.kind == STAND_UP)
    ]
    for one in sorted(standing, key=lambda each: (PRECEDENCE.index(each.kind), -each.created_at, each.name)):
        value = "" if one.value is None else f" {one.value}"
        until = when(one.expires_at, known.snapshot.at)
        what = f"{one.name} ({one.kind}{value} by {one.actor or 'somebody'}, until {until})"
        if one.kind == new.kind and (one.model == new.model):
            yield f"supersedes {what}" if new.subject_kind == "model" else f"{what} says so already"
        elif PRECEDENCE.index(one.kind) < rank:
            yield f"is outranked by {what}"
        else:
            yield f"outranks {what}"


def _standing(known: Known, seen: Foresight) -> list[Override]:
    """The overrides there are that have not ended; one that planning refuses, or refused before, sets nothing."""
    phases = {state.uid: state.phase for state in seen.without.now.overrides}
    lasting = (one for one in known.snapshot.overrides if one.expires_at > known.snapshot.at)
    return [one for one in lasting if phases.get(one.uid, one.phase) != "Refused"]


def _effect(known: Known, seen: Foresight, move: Move) -> Effect:
    """One move in words."""
    model = next(each for each in known.policy.models if each.id == move.model)
    change = move.change
    before, after = (
        (move.replicas_from, move.replicas_to) if change is None else (change.replicas_from, change.replicas_to)
    )
    at = _ready_at(known, seen, move, model) if after > before else None
    place = _place(change)
    words = [
        f"{move.model} {before} -> {after}{place}" if before != after else f"{move.model} stays {before}{place}",
        *_passes(seen, move, model),
        *([_in_place_of(known, change)] if change is not None and change.replaces else []),
        *([f"not {move.without}"] if before == after else []),
        *_ready(known, change, at),
    ]
    text = words[0] + ("  " if len(words) > 1 and after < before else ", " if len(words) > 1 else "")
    text += ("; " if after < before else ", ").join(words[1:])
    return Effect(WHEN[move.turn], text, move.model, before, after, at)


def _in_place_of(known: Known, change: Change) -> str:
    """`2 of them in place of those on spot-1`."""
    uids = Replaced.pods(change.replaces)
    pods = (pod for model in known.snapshot.models for target in model.targets for pod in target.pods)
    nodes = sorted({node for pod in pods if pod.uid in uids for node in pod.nodes})
    those = "one" if len(uids) == 1 else "those"
    return f"{len(uids)} of them in place of {those} on {some(nodes, 3) or 'a node that goes'}"


def _place(change: Change | None) -> str:
    """` on a100-2`, ` on what nodepool spot brings`, or both; "" where nothing new lands."""
    if change is None:
        return ""
    coming = [f"a node that nodepool {change.node_pool} brings"] if change.grant and change.node_pool else []
    places = [*([some(sorted(set(change.nodes)), 3)] if change.nodes else []), *coming]
    return f" on {' and '.join(places)}" if places else ""


def _ready(known: Known, change: Change | None, at: float | None) -> Iterator[str]:
    """The instant at which the replicas that are granted serve."""
    if at is not None:
        took = f" ({span(at - known.snapshot.at)}, as starts with a new node took)" if change and change.grant else ""
        yield f"ready ~{clock(at) if took else clock(at)[:5]} UTC{took}"
    elif change is not None and change.grant is not None and change.replicas_to > change.replicas_from:
        longest = span(known.policy.nodes.node_timeout_seconds)
        yield f"ready once the node has come (no such start was timed yet; given up after {longest})"


def _passes(seen: Foresight, move: Move, model: Model) -> Iterator[str]:
    """The guards that a person's word passes, and what becomes of the floor."""
    if move.change is None or move.replicas_to >= move.replicas_from:
        return
    passed = seen.passed.get(move.change.id, ())
    if passed:
        yield f"passes {', '.join(passed)}"
    held = sum(count for (name, _), count in seen.course.held[move.turn + 1].items() if name == model.id)
    floor = model.min_replicas
    yield f"floor {floor} kept" if held >= floor else f"below the floor {floor}"


def _ready_at(known: Known, seen: Foresight, move: Move, model: Model) -> float | None:
    """The instant at which the last new replica serves: after others' grace, or once its node came; None: unknown."""
    if move.change is None:
        return None
    view = next((each for each in known.snapshot.models if each.id == model.id), None)
    if move.change.grant is not None:
        took = None if view is None else start_seconds(known, view, move.change)
        return None if took is None else known.snapshot.at + took
    measured = view.load_seconds if view is not None else None
    going = [one.target.grace_seconds for one in seen.course.now.changes if one.replicas_to < one.replicas_from]
    wait = max(going, default=0) if move.turn else 0
    return known.snapshot.at + wait + (model.load_seconds if measured is None else measured)


def _guarded(known: Known, override: Override, seen: Foresight) -> str:
    """What a raised floor that moves nothing now is good for; "" where it is outranked, no floor, or good for nothing.

    It keeps replicas that others could borrow otherwise, down to the floor of the policy, a schedule or another
    override.
    """
    model, value = _model(known, override), override.value or 0
    if override.kind != "floor" or model is None or _outranked(known, override):
        return ""
    has = sum(count for (name, _), count in seen.course.held[0].items() if name == model.id)
    steps = next((each.steps for each in seen.without.now.models if each.model == model.id), ())
    scheduled = next((step.numbers.get("floor") for step in steps if step.stage == "schedule"), None)
    others = [one.value or 0 for one in _standing(known, seen) if (one.kind, one.subject) == ("floor", model.id)]
    least = max([model.min_replicas, *others, *([scheduled] if isinstance(scheduled, int) else [])])
    stays = min(value, has) - least
    if stays <= 0:
        return ""
    keeps = f"{model.id} keeps {min(value, has)} of the {has} it has"
    keeps += f", and floor {value} is not reached" if value > has else ""
    borrow = f"in the next surge of others up to {counted(stays, 'replica')} that they could have borrowed"
    return f"{keeps}; nothing moves now; {borrow} {'stays' if stays == 1 else 'stay'}"


def _outranked(known: Known, new: Override) -> bool:
    """Whether another override about its model makes it change nothing."""
    snapshot = replace(known.snapshot, overrides=(*known.snapshot.overrides, new))
    rulings, _ = resolve(snapshot, known.policy)
    return new.subject in rulings and rulings[new.subject].over(new.kind) is not None


def _lines(
    effects: tuple[Effect, ...], conflicts: tuple[str, ...], refused: str | None, seen: Foresight, guarded: str = ""
) -> Iterator[str]:
    """The effects as the command line prints them. `guarded`: what a floor is good for, though it moves nothing."""
    yield from (f"but  {conflict}" for conflict in conflicts)
    if refused is not None:
        yield f"no   {refused}"
        return
    lines = [f"{effect.when:4} {effect.text}" for effect in effects]
    lines += [f"node {change}" for change in seen.course.now.node_pools if change not in seen.without.now.node_pools]
    lines += [f"node {change}" for change in seen.course.now.drains if change not in seen.without.now.drains]
    lines += [f"!    {refusal}" for refusal in seen.refusals]
    state = seen.state
    if not lines and guarded:
        lines = [f"now  {guarded}"]
    elif not lines:
        anyway = {uid for change in seen.without.now.changes for uid in change.victims}
        ends = any(uid not in anyway for change in seen.course.now.changes for uid in change.victims)
        lines = [
            f"now  nothing {'is granted' if ends else 'changes'}"
            + (f": {_answer(state.message)}" if state is not None else "")
        ]
    yield from lines[:-1]
    yield f"{lines[-1]}; unmet {unmet_words(seen.course)}"


def _answer(message: str) -> str:
    """What planning would answer, without an instant since when: nothing is in force yet."""
    return "; ".join(part for part in message.split("; ") if not part.startswith("in force since"))


def _prices(lacks: Iterator[str], costs: tuple[str, ...], gains: tuple[str, ...]) -> Iterator[str]:
    yield from (f"lack {lack}" for lack in lacks)
    yield from (f"cost {cost}" for cost in costs)
    yield from (f"gain {gain}" for gain in gains)


def _digest(
    override: Override | None,
    effects: tuple[Effect, ...],
    conflicts: tuple[str, ...],
    refused: str | None,
    seen: Foresight,
) -> str:
    """A hash of what a person agrees to: what changes, conflicts, guards that decline; no clocks, no readings."""
    decision = override and (
        override.kind,
        override.subject,
        override.model,
        override.value,
        override.allow_below_floor,
    )
    agreed = (
        decision,
        [(each.when, each.model, each.replicas_from, each.replicas_to) for each in effects],
        [conflict.partition(" (")[0] for conflict in conflicts],
        refused,
        sorted((each.guard, each.subject) for each in seen.refusals),
        sorted((each.kind, each.name, each.limit_to) for each in seen.course.now.node_pools),
        sorted((each.kind, each.node, each.pod) for each in seen.course.now.drains),
    )
    return hashlib.sha256(msgspec.json.encode(agreed)).hexdigest()[:16]

"""The answer to each override: what it did since when, how far it could not, or which override outranks it."""

from collections.abc import Mapping

from msgspec.structs import replace

from rebalancer.domain.instant import clock
from rebalancer.domain.memory import Decided
from rebalancer.domain.people import Override
from rebalancer.domain.plan import OverrideState, Unmet
from rebalancer.domain.words import gpus, replicas, sentences
from rebalancer.planning.explanation.lacks import BY_PERSON, Lack
from rebalancer.planning.facts.scene import Scene
from rebalancer.planning.guards.foreign import standing
from rebalancer.planning.overrides.rulings import IN_FORCE, STAND_UP
from rebalancer.planning.shares.share import ModelShare


def tell(
    scene: Scene[ModelShare], states: tuple[OverrideState, ...], granted: dict[str, int], lacks: Mapping[str, Lack]
) -> tuple[tuple[OverrideState, ...], tuple[Decided, ...]]:
    """The overrides' states with an answer each, and memory of the numbers from which those in force count.

    That memory lasts as long as the object: one that is superseded meanwhile goes on from the same instant. What
    another installation answers gets no answer of ours.
    """
    overrides = {one.uid: one for one in scene.snapshot.overrides}
    decided = {each.uid: each for each in scene.memory.overrides if each.uid in overrides}
    answered = []
    for state in states:
        one = overrides[state.uid]
        concerns_us = one.uid in decided or _concerns(scene, one)
        if one.phase and not concerns_us and state.phase != "Expired":
            continue
        if state.phase != IN_FORCE:
            answered.append(state)
            continue
        began = decided.get(one.uid) or Decided(one.uid, scene.now, _replicas(scene, one))
        if concerns_us:
            decided[one.uid] = began
        model = scene.models.get(one.subject) if one.subject_kind == "model" else None
        stands_down = "" if model is None else standing(model, scene)
        did = _did(scene, one, began, granted, stands_down)
        words = [did, _short_of(scene, one, granted, lacks, stands_down), _cost(scene, one, lacks)]
        words.append(state.message)
        answered.append(replace(state, message=sentences(*words)))
    return tuple(answered), tuple(decided[uid] for uid in sorted(decided))


def _concerns(scene: Scene[ModelShare], one: Override) -> bool:
    """Whether the override is about a model, a pool or a node of this policy.

    Each installation in a cluster sees the overrides of all. One that is about nothing here is answered only while
    nobody has: that tells a person of a misspelled name, and two installations never write over each other's answers.
    """
    if one.named_model is not None:
        model: ModelShare | None = scene.models.get(one.named_model)
        return model is not None and model.entry.namespace == one.namespace
    return one.subject in scene.pools if one.subject_kind == "pool" else bool(_nodes(scene, one))


def _replicas(scene: Scene[ModelShare], one: Override) -> int:
    """Number of replicas that the override is about: its model's, or those on its nodes."""
    if one.subject_kind == "model":
        return scene.models[one.subject].staying_replicas
    nodes = _nodes(scene, one)
    pods = (pod for model in scene.models.values() for target in model.targets for pod in target.view.pods)
    return sum(1 for pod in pods if pod.on(nodes) and pod.phase != "terminating")


def _nodes(scene: Scene[ModelShare], one: Override) -> set[str]:
    there = {node.name: name for name, state in scene.pools.items() for node in state.view.nodes}
    return {node for node, pool in there.items() if one.subject == (pool if one.subject_kind == "pool" else node)}


def _did(scene: Scene[ModelShare], one: Override, began: Decided, granted: dict[str, int], stands_down: str) -> str:
    since = f"in force since {clock(began.at)}"
    if one.subject_kind == "model":
        course = _course(began.replicas, scene.models[one.subject].staying_replicas, granted[one.subject])
        return _did_to_model(scene.models[one.subject], one, course, since, stands_down)
    about = f"{one.subject_kind} {one.subject}"
    if one.kind == "exclude":
        return f"{one.model or 'nobody'} is granted {'nothing' if one.model else 'anything'} new on {about}; {since}"
    if not _nodes(scene, one):
        return f"{about}: no such node is seen"
    now = _replicas(scene, one)
    before = "" if began.replicas == now else f" of {began.replicas}"
    return f"{about} is being drained, {now}{before} {'replica is' if now == 1 else 'replicas are'} left there; {since}"


def _did_to_model(model: ModelShare, one: Override, course: str, since: str, stands_down: str) -> str:
    over = model.ruling.over(one.kind)
    if over is not None:
        return f"it waits, since {over.kind} by override {over.name} outranks it"
    if one.kind == "pause":
        return f"{one.subject} is left alone; {since}"
    if one.kind == STAND_UP:
        return stands_down or f"what others change on {one.subject} counts from the start anew; {since}"
    if stands_down and all(target.stuck is not None for target in model.targets):
        return f"it waits: {stands_down}"
    if one.kind == "floor":
        return sentences(f"{one.subject} keeps {one.value} or more: it {course}", since, stands_down)
    return sentences(f"{one.subject} {course}", since, stands_down)


def _course(before: int, now: int, soon: int) -> str:
    """`has 5 replicas`, `went from 5 to 3 replicas`, and `has 5 replicas and goes to 3` before that is written."""
    so_far = f"has {replicas(now)}" if before == now else f"went from {before} to {replicas(now)}"
    return so_far if soon == now else f"{so_far} and goes {'on ' if before != now else ''}to {soon}"


def _short_of(
    scene: Scene[ModelShare], one: Override, granted: dict[str, int], lacks: Mapping[str, Lack], stands_down: str
) -> str:
    """Why the model does not get as many as a person said."""
    model: ModelShare | None = scene.models.get(one.subject) if one.subject_kind == "model" else None
    if model is None or model.ruling.decides is not one or model.ruling.over(one.kind) is not None:
        return ""
    if stands_down or one.kind == "cap":  # a cap is no number to be reached
        return ""
    lack, wanted, soon = lacks.get(one.subject), model.demand.replicas, granted[one.subject]
    wish, value = f"{one.kind} {one.value}", one.value or 0
    if lack is not None and _kept_by_person(lack) is None and wanted <= min(soon, model.staying_replicas):
        room = wanted - lack.replicas
        return f"{wish}, room for {room}: {lack.why}" if room < value else ""  # the others have no node, and none comes
    if wanted <= soon or (one.kind == "floor" and soon >= value):  # it has its floor, and is refused more than that
        return ""
    if lack is not None:
        return f"{wish} is not reached: {lack.why}"
    over = _over_budget(scene, model)  # it has as many, and some are taken back
    return f"{wish}, room for {soon}: {over}" if over else f"{wish} is not reached"


def _over_budget(scene: Scene[ModelShare], model: ModelShare) -> str:
    """What is promised beyond the budgets of the model's pools, as a clause; "" where nothing is."""
    states = [scene.pools[target.pool] for target in model.targets]
    return sentences(
        *(
            f"pool {state.pool.name} has {gpus(state.budget)} in its budget, and {state.promised} were promised"
            for state in states
            if state.budget is not None and state.promised > state.budget
        )
    )


def _kept_by_person(lack: Lack) -> Unmet | None:
    """The need behind it, where a person keeps the number; None where something else does."""
    return lack.short if lack.short is not None and lack.short.constraint in BY_PERSON else None


def _cost(scene: Scene[ModelShare], one: Override, lacks: Mapping[str, Lack]) -> str:
    """What it costs its model while it stands: the replicas that it keeps from who is short, and how late that is."""
    lack = lacks.get(one.subject) if one.subject_kind == "model" else None
    short = None if lack is None else _kept_by_person(lack)
    if short is None:
        return ""
    ruling = scene.models[one.subject].ruling
    if one is not (ruling.paused or ruling.frozen or ruling.decides):
        return ""
    more = f"without this override {one.subject} would have {replicas(short.replicas)} more"
    return sentences(more, f"as it is: {short.lateness}")

"""Moves become changes: per target one number to ask for, its bounds, and words with the numbers behind it."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rebalancer.domain.memory import Loan, NodeGrant, Replaced, Shift
from rebalancer.domain.people import Override
from rebalancer.domain.plan import Change, Refusal
from rebalancer.domain.snapshot import AutoscalerView, PodView
from rebalancer.domain.words import counted, figure, gpus, listed, replicas, sentences
from rebalancer.planning.actions.bounds import After, kept_minimum, lower, wanted_minimums
from rebalancer.planning.actions.moves import Coming, Going, Moves
from rebalancer.planning.actions.node_plan import NodePlan
from rebalancer.planning.demand.at_work import at_work, besides
from rebalancer.planning.facts.scene import UNSEEN, Scene, TargetFacts
from rebalancer.planning.guards.release import Purpose, Tally
from rebalancer.planning.overrides.rulings import NO_RULING
from rebalancer.planning.shares.caps import Caps
from rebalancer.planning.shares.gains import kept_by_one
from rebalancer.planning.shares.share import ModelShare

Key = tuple[str, str]

_SLEEPS = "keeps its last replica, which nobody needs, until its autoscaler ends it"


@dataclass(frozen=True, slots=True)
class _Withdrawal:
    """Replicas of a node grant that brought nothing."""

    grant: NodeGrant
    replicas: int
    why: str


@dataclass(slots=True)
class Changes:
    """The writes of a plan: decreases before raises and bounds, each in the policy's order of models and pools.

    down: decreases.
    up: raises and bounds.
    granted: replicas per model once it is written, those under notice not counted.
    refusals: minimums that stay where they are.
    """

    down: list[Change]
    up: list[Change]
    granted: dict[str, int]
    refusals: list[Refusal]

    def stopped(self, scene: Scene[ModelShare]) -> "Changes":
        """The same with nothing to write: every model has the replicas that it has now."""
        granted = {name: model.staying_replicas for name, model in scene.models.items()}
        return Changes([], [], granted, self.refusals)


def changes_of(scene: Scene[ModelShare], moves: Moves, nodes: NodePlan) -> Changes:
    """One change per target that is to be written."""
    changes, tally = Changes([], [], {}, []), moves.tally.copy()
    withdrawn = {
        target.key: _Withdrawal(grant, count, why) for grant, target, count, why in nodes.withdrawn if count > 0
    }
    touched = {name for name, _ in (*moves.going, *moves.coming, *withdrawn)}
    for model in scene.models.values():
        if model.quiet and model.entry.id not in touched:
            changes.granted[model.entry.id] = model.staying_replicas
            continue
        after = {target.key: _after(target, moves, withdrawn.get(target.key)) for target in model.targets}
        changes.granted[model.entry.id] = sum(each.staying_replicas for each in after.values())
        minimums = wanted_minimums(scene, model, after)
        for target in model.targets:
            if target.stuck is not None and target.key not in moves.coming:
                continue
            then = after[target.key]
            wanted = minimums.get(target.key, then.desired_replicas)
            if then.desired_replicas < target.desired_replicas:
                most = wanted if target.owner is None else min(wanted, _most_minimum(scene, target, target.owner))
                minimum = kept_minimum(target, then, most)
                withdrawal = withdrawn.get(target.key)
                changes.down.append(_decrease(scene, model, target, then, minimum, moves, withdrawal, nodes.caps))
            elif then.desired_replicas > target.desired_replicas:
                minimum = kept_minimum(target, then, wanted)
                changes.up.append(_increase(scene, model, target, moves.coming[target.key], minimum, after))
            elif target.owner is not None:
                changes.up += _bounds(scene, target, wanted, tally, changes.refusals)
    return changes


def _after(target: TargetFacts, moves: Moves, withdrawn: _Withdrawal | None) -> After:
    """The target once this plan is written."""
    going, coming = moves.going.get(target.key), moves.coming.get(target.key)
    doomed = {pod.uid for pod in target.doomed}
    released = [pod.uid in doomed for pod in going.pods] if going else []
    undoomed = released.count(False)
    if going is None and withdrawn is not None:
        undoomed = withdrawn.replicas
    gone = target.settle + released.count(True) + (len(going.ended) if going else 0)
    more = coming.replicas if coming else 0
    return After(target.desired_replicas - gone - undoomed + more, target.staying_replicas - undoomed + more, gone)


def _decrease(  # noqa: PLR0913  # what goes, down to where, and why
    scene: Scene[ModelShare],
    model: ModelShare,
    target: TargetFacts,
    then: After,
    minimum: int,
    moves: Moves,
    withdrawn: _Withdrawal | None,
    caps: Caps,
) -> Change:
    going = moves.going.get(target.key)
    if going is None and withdrawn is not None:
        return _withdrawal(scene, target, then, minimum, withdrawn)
    going = going or Going()
    pods = [pod for pod in (*going.ended, *going.pods) if not pod.uid.startswith(UNSEEN)]
    return Change(
        id=f"{scene.snapshot.cycle}-{target.model}-{target.pool}",
        kind="release" if going.pods or going.ended else "settle",
        model=target.model,
        target=target.view,
        replicas_from=target.desired_replicas,
        replicas_to=then.desired_replicas,
        minimum=minimum,
        reason=_why_down(model, target, then, going, scene, caps),
        shift=going.shift,
        victims=tuple(pod.uid for pod in pods),
        victim_names=tuple(pod.name for pod in pods),
        passes=_passes(going, model),
        counts=going.counts if going.pods else None,
        counted=sum(going.counted.values()) - going.counted["exempt"],
        recipients=tuple(going.recipients),
        replaces=(*target.settled, *(_spelled(target, then, pod) for pod in going.ended)),
        floor=model.floor,
    )


def _passes(going: Going, model: ModelShare) -> str | None:
    """Why every replica that goes passes guards, in words; None where one does not. A reclaim is named first."""
    words = {
        Purpose.RECLAIM: "reclaim",
        Purpose.DRAIN: "drain",
        Purpose.OVERRIDE: _override_words(model.ruling.decides),
    }
    purposes = {*going.purposes, *((Purpose.DRAIN,) if going.ended else ())}
    if not purposes <= words.keys():
        return None
    return ", ".join(phrase for purpose, phrase in words.items() if purpose in purposes) or None


def _override_words(one: Override | None) -> str:
    below = " allowBelowFloor" if one is not None and one.allow_below_floor else ""
    return f"override {one.name}{below}" if one is not None else "override"


def _why_down(  # noqa: PLR0913  # all that it may be told by
    model: ModelShare, target: TargetFacts, then: After, going: Going, scene: Scene[ModelShare], caps: Caps
) -> str:
    """What the model does and why, as a sentence without its subject: one clause per thing that takes replicas."""
    if not going.pods and not going.ended:
        fewer = target.desired_replicas - then.desired_replicas
        return f"has its number taken back by {fewer}: the pods on doomed nodes are gone, their replacements stay"
    count = Counter(going.purposes)
    words = []
    if drained := count[Purpose.DRAIN] + len(going.ended):
        nodes = listed(sorted({node for pod in target.doomed for node in pod.nodes if node in scene.doomed}))
        words.append(f"ends {replicas(drained)} on {nodes}, under notice")
    if ruled := count[Purpose.OVERRIDE]:
        decides = model.ruling.decides
        person = "" if decides is None else f" {decides.kind} {decides.value} by {decides.actor or 'a person'},"
        words.append(f"gives up {replicas(ruled)} for{person} {_override_words(decides)}")
    if going.recipients:
        words.append(_gives(model, going, count, scene))
    if shrunk := count[Purpose.BUDGET]:
        state = scene.pools[target.pool]
        has = f"{gpus(state.budget or 0)} in its budget and {state.promised} promised"
        words.append(f"gives up {replicas(shrunk)}, since pool {target.pool} has {has}")
    if spare := count[Purpose.SURPLUS]:
        words.append(f"gives up {replicas(spare)}{_above_cap(target, caps) or ' that nobody needs'}")
    return f"{sentences(*words)}; it has {at_work(model)}" if not going.recipients else sentences(*words)


def _above_cap(target: TargetFacts, caps: Caps) -> str:
    """Which cap the target is above, as a clause; "" where it is above none."""
    return f", since {caps.words(target)}" if caps.room(target) < 0 else ""


def _gives(model: ModelShare, going: Going, count: Counter[Purpose], scene: Scene[ModelShare]) -> str:
    """`gives 1 replica to chat: chat has 4.2 replicas of work on 3, code 0.25 on 5`; of what is theirs `returns`."""
    shifted, moved = count[Purpose.SHIFT], count[Purpose.RECLAIM] + count[Purpose.SHIFT]
    returned = min(moved, borrowed_of(model, going.recipients, scene) if shifted else moved)
    home = f"returns {counted(returned, 'borrowed replica')}" if returned else ""
    given = f"gives {replicas(moved - returned)}" if moved > returned else ""
    first, *others = (scene.models[name] for name in going.recipients)
    has = ", ".join([f"{first.entry.id} has {at_work(first)}", *map(besides, [*others, model])])
    worth = _worth(model, going.recipients, scene) if shifted else ""
    return f"{' and '.join(filter(None, [home, given]))} to {listed(going.recipients)}: {has}{worth}"


def borrowed_of(model: ModelShare, owners: Iterable[str], scene: Scene[ModelShare]) -> int:
    """Replicas that `model` holds on GPUs of `owners`: what goes to them is returned, whatever called it."""
    borrowed = scene.memo.of("", _by_borrower, scene.memory.loans)
    return sum(borrowed[model.entry.id, owner] for owner in set(owners))


def _by_borrower(loans: tuple[Loan, ...]) -> Counter[tuple[str, str | None]]:
    """Loans by borrower and owner."""
    return Counter([(loan.borrower, loan.owner) for loan in loans])


def _worth(model: ModelShare, recipients: Iterable[str], scene: Scene[ModelShare]) -> str:
    """What a replica saves whom it goes to and cost whom it leaves, as shares count it; "" where no outlook knows."""
    here, outlook = kept_by_one(model), model.load.outlook
    each = {name: saved for name in recipients if (saved := kept_by_one(scene.models[name])) is not None}
    if here is None or outlook is None or not each:
        return ""
    unit = "late seconds" if outlook.by_minute else "late requests"
    name, saved = max(each.items(), key=lambda one: one[1])
    there = f"one replica saves {name} a cost of about {figure(saved)} {unit} in {outlook.horizon_seconds} s"
    return f"; {there}, and {model.entry.id} about {figure(here)}"


def _withdrawal(
    scene: Scene[ModelShare], target: TargetFacts, then: After, minimum: int, withdrawn: _Withdrawal
) -> Change:
    return Change(
        id=f"{scene.snapshot.cycle}-{target.model}-{target.pool}",
        kind="withdraw",
        model=target.model,
        target=target.view,
        replicas_from=target.desired_replicas,
        replicas_to=then.desired_replicas,
        minimum=minimum,
        reason=f"takes back {replicas(withdrawn.replicas)} that waited for a node: {withdrawn.why}"
        f" (node grant {withdrawn.grant.id})",
        passes="withdraw: only pods without a node go",
        replaces=target.settled,
        grant=withdrawn.grant.id,
        node_pool=withdrawn.grant.node_pool,
        floor=scene.models[target.model].floor,
    )


def _increase(  # noqa: PLR0913  # what comes, up to where, and beside whom
    scene: Scene[ModelShare],
    model: ModelShare,
    target: TargetFacts,
    coming: Coming,
    minimum: int,
    after: Mapping[Key, After],
) -> Change:
    targets = {each.pool: each for each in model.targets}
    ruled, shift = model.ruling.pin or model.ruling.floor, _open_shift(scene, target)
    return Change(
        id=f"{scene.snapshot.cycle}-{target.model}-{target.pool}",
        kind="replace" if coming.beside else "grant",
        model=target.model,
        target=target.view,
        replicas_from=target.desired_replicas,
        replicas_to=target.desired_replicas + coming.replicas,
        minimum=minimum,
        reason=_why_up(model, coming, shift, scene.doomed),
        shift=shift.id if shift is not None else None,
        nodes=tuple(sorted(set(coming.nodes))),
        passes=_override_words(ruled) if ruled is not None else None,
        replaces=tuple(_spelled(targets[pool], after[target.model, pool], pod) for pool, pod in coming.beside),
        grant=coming.grant,
        node_pool=coming.node_pool,
        floor=model.floor,
    )


def _spelled(target: TargetFacts, then: After, pod: PodView) -> str:
    """The spelling of a replaced pod of `target`, which counts while the target asks for as many as after this plan."""
    return str(Replaced(target.pool, target.view.uid, then.desired_replicas, pod.uid))


def _open_shift(scene: Scene[ModelShare], target: TargetFacts) -> Shift | None:
    """The oldest shift that has freed GPUs for the target and granted none yet."""
    mine = [one for one in scene.memory.shifts if one.recipient == target.model and one.pool == target.pool]
    return next((one for one in mine if one.granted_at is None), mine[0] if mine else None)


def _why_up(model: ModelShare, coming: Coming, shift: Shift | None, going: frozenset[str]) -> str:
    """What the model gets, from whom and where, as a sentence without its subject, and why. `going`: doomed nodes."""
    what, source = replicas(coming.replicas), ""
    if shift is not None and shift.donors:
        source = f" from {listed(shift.donors)}"
        if model.staying_replicas + coming.replicas <= model.entry.entitlement:
            what = f"{coming.replicas} of its own replicas back"
    places = [f"on {listed(sorted(set(coming.nodes)))}"] if coming.nodes else []
    if coming.grant is not None:
        places.append(f"on nodes that nodepool {coming.node_pool} brings (node grant {coming.grant})")
    where = "".join(f" {place}" for place in places[:1]) + "".join(f" and {place}" for place in places[1:])
    doomed = ""
    if coming.beside:
        nodes = sorted({node for _, pod in coming.beside for node in pod.nodes if node in going})
        those = "one" if len(coming.beside) == 1 else "those"
        beside = f"in place of {those} on {listed(nodes)}, which {'goes' if len(nodes) == 1 else 'go'}"
        doomed = f" {beside}" if len(coming.beside) == coming.replicas else f", {len(coming.beside)} of them {beside}"
    others = listed([f"{name} on pool {pool}" for name, pool in sorted(set(coming.makes_room))])
    room = f", to make room for {others}" if others else ""
    foreseen = model.load.outlook is not None and model.ruling is NO_RULING
    why = "" if foreseen else f"; {model.demand.why}"
    return f"gets {what}{source}{where}{doomed}{room}: it has {at_work(model)}{why}"


def _most_minimum(scene: Scene[ModelShare], target: TargetFacts, owner: AutoscalerView) -> int:
    """The highest minimum beside a number that does not rise: what was asked for; in a pool that is over, what runs.

    An autoscaler that somebody let go down runs less than we asked for, and its GPUs may be another's by now.
    """
    state = scene.pools.get(target.pool)
    known = state is not None and state.budget is not None and state.promised <= state.budget
    return target.desired_replicas if known else max(owner.minimum, min(target.desired_replicas, target.view.replicas))


def _bounds(
    scene: Scene[ModelShare], target: TargetFacts, wanted: int, tally: Tally, refusals: list[Refusal]
) -> list[Change]:
    """New bounds for an unchanged number: taking an autoscaler over, or a minimum that follows demand.

    An idle one is not taken over: its maximum would be 1, a grant that nobody asked for. Nor is one on its way up to
    its own minimum.
    """
    owner, ours = target.owner, target.owner is not None and target.owner.originals is not None
    if owner is None or target.view.unconfirmed_replicas is not None or target.desired_replicas < target.least:
        return []
    if not ours and owner.minimum > target.view.replicas:
        return []
    wanted = min(wanted, _most_minimum(scene, target, owner))
    lowered = lower(scene, tally, target, max(wanted, min(target.desired_replicas, owner.minimum)), wanted)
    minimum = lowered.minimum
    if lowered.refusal is not None:
        refusals.append(lowered.refusal)
    if ours and (owner.minimum, owner.maximum) == (minimum, target.desired_replicas):
        return []
    return [
        Change(
            id=f"{scene.snapshot.cycle}-{target.model}-{target.pool}",
            kind="bounds",
            model=target.model,
            target=target.view,
            replicas_from=target.desired_replicas,
            replicas_to=target.desired_replicas,
            minimum=minimum,
            reason=("keeps its replicas" if minimum else _SLEEPS)
            + f"; its bounds go from {owner.minimum}-{owner.maximum} to {minimum}-{target.desired_replicas}"
            + ("" if ours else f", and {owner.kind} {owner.name} is taken over"),
            counts=lowered.counts,
            counted=lowered.counted,
            floor=scene.models[target.model].floor,
        )
    ]

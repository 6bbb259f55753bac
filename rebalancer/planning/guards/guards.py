"""Guards: each turns a move into a refusal with its numbers, or lets it pass.

Limits are max(1, floor(share x base)) replicas per sliding window and bind only below the donor's present need
(`ModelShare.need_now`). Where one replica of another model takes the room of several, that many are the least limit
instead of 1: they go together or not at all (`shift`). What passes which guard is in `planning.guards.release`.
"""

import math
from collections.abc import Callable, Iterable

from rebalancer.domain.plan import Refusal
from rebalancer.domain.policy import RateLimit
from rebalancer.domain.words import CLOCK_IS_OFF, counted, figure, gpus, listed, replicas, work_of
from rebalancer.planning.demand.demand import rules_of
from rebalancer.planning.facts.scene import PoolFacts, Scene
from rebalancer.planning.guards.release import PASSES, Purpose, Release, lost
from rebalancer.planning.memory.accounts import lost_with_node
from rebalancer.planning.memory.outages import outage_words, silence
from rebalancer.planning.shares.share import ModelShare

COOLDOWNS = 2  # for which demand may stand on what a vote said


def floor(release: Release) -> Refusal | None:
    """No action of ours takes a model below its floor; nothing passes this but an override that says so by name.

    Nor below it in Ready replicas: where one of its pools loads, another does not go before that is Ready.
    """
    least = release.model.floor
    if release.after < least:
        return release.refuse("floor", f"its floor is {least}", floor=least, after=release.after)
    if release.takes_ready and release.ready_after < least:
        ready = release.ready_after
        return release.refuse("floor", f"its floor is {least} and {ready} would be Ready", floor=least, ready=ready)
    assured = release.assured_after
    if assured is not None and assured < least:
        return release.refuse(
            "floor", f"its floor is {least} and its autoscalers could go down to {assured}", floor=least
        )
    return None


def empty(release: Release) -> Refusal | None:
    """An empty set is never "all": where pods run and no node or no GPU is seen, the budget is unknown, not 0."""
    pool = release.target.pool
    state = release.scene.pools.get(pool)
    if state is not None and state.budget is not None:
        return None
    why = state.unknown if state is not None else f"no node of pool {pool} is seen while pods run there"
    return release.refuse("empty", why, pool=pool, nodes=0 if state is None else len(state.view.nodes))


def start(release: Release) -> Refusal | None:
    """No decrease before everything is listed and fresh, and enough metric intervals of the model were seen live."""
    sync = release.scene.snapshot.sync
    unready = (*sync.missing, *sync.silent)
    if sync.clock_is_off:
        return release.refuse("start", CLOCK_IS_OFF)
    if unready:
        return release.refuse(
            "start",
            f"nothing, or nothing new, is known of {listed(unready)}",
            unsynced=len(unready),
        )
    wanted = release.scene.policy.guards.start.metric_intervals
    seen = release.model.load.intervals_live
    if seen >= wanted or release.model.entry.takes_idle:
        return _stranger(release) or _impatient(release)
    return release.refuse(
        "start",
        f"{seen} of the {wanted} metric intervals are seen that it waits for after a start",
        seen=seen,
        wanted=wanted,
    )


def _stranger(release: Release) -> Refusal | None:
    """What a stranger needs now is no gain of those who are known: half of its long surge window must be seen first.

    Its forecast is its first samples until then: a model that came back into the policy under a queue was foreseen at
    14, 11 and 9.7 replicas of work within 30 s, and gave two of its nine away because so much seemed late in any case.
    Among strangers, as after a first start, all guess alike, and none waits: a rule that held them for 150 s cost loads
    that swap 2.4 points of late requests in their first half hour.
    """
    model, scene = release.model, release.scene
    if release.purpose is not Purpose.SHIFT or model.load.outlook is None or not release.below_need:
        return None
    if not model.load.work.source or model.load.work.long is not None:
        return None
    if all(other.load.work.long is None for other in scene.of_pool[release.target.pool]):
        return None
    seconds = scene.policy.surge.long_window_seconds / 2
    return release.refuse(
        "start",
        f"its work was seen for less than {seconds:.0f} s, others' for longer, and it needs what it has now",
        seconds=seconds,
    )


def _impatient(release: Release) -> Refusal | None:
    """After a start that does not know how long votes had asked for less: whatever goes for want of demand waits.

    For as long as demand may stand on a vote from before: it falls to the highest of a cooldown, then waits for another
    one; and those who borrow wait for a planning period. What is called home does not wait, unless somebody beside it
    has more than it needs: that waits, and would be taken before a replica that its borrower needs.
    """
    scene, resumed = release.scene, release.scene.memory.resumed_at
    if resumed is None:
        return None
    waiting = [release.model] if release.purpose is not Purpose.RECLAIM else release.others_to_spare
    cooldowns = [rules_of(scene.policy, model.entry).cooldown_seconds for model in waiting]
    seconds = scene.policy.plan_every_seconds + COOLDOWNS * max(cooldowns, default=0.0)
    if not waiting or scene.now - resumed >= seconds:
        return None
    return release.refuse(
        "start",
        f"the service started {scene.now - resumed:.0f} s ago and does not know what votes said before: it waits"
        f" {seconds:.0f} s",
        resumed + seconds,
        seconds=seconds,
    )


def blind(release: Release) -> Refusal | None:
    """No decrease of a model that no usable vote speaks for; of one that takes what is idle nobody asks any."""
    ballot = release.model.ballot
    if not ballot.blind or release.model.entry.takes_idle:
        return None
    why = ballot.silence or "no signal is configured"
    return release.refuse("blind", f"no signal has a usable vote: {why}", usable=0, configured=ballot.configured)


def agree(release: Release) -> Refusal | None:
    """No decrease on the word of one signal where several are configured: one broken exporter says idle, too."""
    ballot = release.model.ballot
    needed = min(release.scene.policy.guards.agree.votes, ballot.configured)
    usable = len(ballot.votes)
    if usable >= needed:
        return None
    why = f"{counted(usable, 'usable vote')} where {needed} must agree: {ballot.silence}"
    return release.refuse("agree", why, usable=usable, needed=needed, configured=ballot.configured)


def sudden(release: Release) -> Refusal | None:
    """No decrease for a while of a model that fell at once with most others: an outage, not calm."""
    scene, model = release.scene, release.model
    work, rule = model.load.work, scene.policy.guards.sudden
    outage_and_silent = silence(scene.memory.outages, model.entry.id, work, rule, scene.now)
    if outage_and_silent is None or outage_and_silent[0].against is not None:
        return None
    outage, silent = outage_and_silent
    left = "unknown work" if work.last_60s is None else figure(work.last_60s)
    back = figure((1.0 - rule.drop) * silent.work)
    return release.refuse(
        "sudden",
        f"{outage_words(outage, silent.model, rule)}; this one has {left} of {work_of(silent.work)} left"
        f" and keeps what it has until more than {back} are back",
        outage.until,
        fell=outage.fell,
        of=outage.of,
        drop=rule.drop,
        window_seconds=rule.window_seconds,
        had=silent.work,
        source=outage.source or None,
    )


def loss(release: Release) -> Refusal | None:
    """No decrease of a model that has just lost replicas with a node: less work then is lost work, not calm.

    One that has no node yet serves nobody: taking it back is no loss.
    """
    if release.pod is not None and release.pod.node is None:
        return None
    scene, seconds = release.scene, release.scene.policy.nodes.loss_hold_seconds
    account = lost_with_node(scene.memory.accounts, release.model.entry.id, scene.doomed, scene.now, seconds)
    if account is None:
        return None
    until = None if account.drained_at is None else account.drained_at + seconds
    went = f"it loses replicas with {account.node}" if until is None else f"it lost replicas with {account.node}"
    return release.refuse(
        "loss", f"{went} ({account.kind}) and keeps what it has for {seconds:.0f} s", until, window_seconds=seconds
    )


def step(release: Release) -> Refusal | None:
    """A model loses at most `share` of its replicas per window."""
    rule = release.scene.policy.guards.step
    model = release.model
    past = lost(model.memory.losses, rule, release.scene.now, "step")
    gone = past + release.tally.step[model.entry.id]
    return _limited(release, "step", rule, gone, past + model.committed_replicas, [model])


def fleet(release: Release) -> Refusal | None:
    """All models together lose at most `share` of the replicas above floors per window."""
    rule = release.scene.policy.guards.fleet
    everybody = release.scene.models.values()
    return _limited(release, "fleet", rule, release.tally.fleet_lost, release.tally.fleet_base, everybody)


def shift(release: Release) -> Refusal | None:
    """A donor gives at most `share` of what it holds above its floor per window to others.

    Where one replica of the recipient takes the room of more than that, they go together or not at all: that many may,
    in as many windows as they would have taken one by one, so that the pace is the same; for a floor in one.
    """
    rule = release.scene.policy.guards.shift
    model = release.model
    above_floor = max(0, model.committed_replicas - model.floor)
    past = lost(model.memory.losses, rule, release.scene.now, "shift")
    alone = max(1, math.floor(rule.share * (past + above_floor) + 1e-9))
    if release.together > alone and not release.for_floor:
        windows = math.ceil(release.together / alone)
        rule = rule.model_copy(update={"window_seconds": windows * rule.window_seconds})
        past = lost(model.memory.losses, rule, release.scene.now, "shift")
    gone = past + release.tally.shift[model.entry.id]
    return _limited(release, "shift", rule, gone, past + above_floor, [model])


_LOSERS = {"step": "it has lost", "fleet": "all models together have lost", "shift": "it has given away"}


def _limited(  # noqa: PLR0913  # the numbers that the refusal prints
    release: Release, guard: str, rule: RateLimit, lost: int, base: int, losers: Iterable[ModelShare]
) -> Refusal | None:
    """Refuse when one more would exceed max(together, floor(share x base)) in the window and cut into present need."""
    limit = max(release.together, math.floor(rule.share * base + 1e-9))
    if not release.below_need:
        return None
    unknown = release.scene.memory.unknown_before
    if unknown is not None and release.scene.now - unknown < rule.window_seconds:
        return release.refuse(
            guard,
            f"the service started {release.scene.now - unknown:.0f} s ago and does not know what was lost before",
            unknown + rule.window_seconds,
            limit=limit,
            window_seconds=rule.window_seconds,
        )
    if lost + 1 <= limit:
        return None
    until = _passes_at(release, guard, rule, lost, base, losers)
    return release.refuse(
        guard,
        f"{_LOSERS[guard]} {lost} of at most {replicas(limit)} in {rule.window_seconds:.0f} s,"
        f" and {release.model.need_words}",
        until,
        lost=lost,
        limit=limit,
        base=base,
        window_seconds=rule.window_seconds,
        need=release.model.need_now,
    )


def _passes_at(  # noqa: PLR0913  # as above
    release: Release, guard: str, rule: RateLimit, lost: int, base: int, losers: Iterable[ModelShare]
) -> float:
    """The instant at which enough losses have left the window for one more to pass; they leave the base as well.

    Losses that this plan books leave it last, a whole window from now.
    """
    counts = "shift" if guard == "shift" else "step"
    inside = [
        loss
        for model in losers
        for loss in model.memory.losses
        if loss.counts == counts and release.scene.now - loss.at < rule.window_seconds
    ]
    for loss in sorted(inside, key=lambda each: each.at):
        lost, base = lost - loss.replicas, base - loss.replicas
        if lost + 1 <= max(release.together, math.floor(rule.share * base + 1e-9)):
            return loss.at + rule.window_seconds
    return release.scene.now + rule.window_seconds


GUARDS: dict[str, Callable[[Release], Refusal | None]] = {
    "floor": floor,
    "empty": empty,
    "start": start,
    "blind": blind,
    "agree": agree,
    "sudden": sudden,
    "loss": loss,
    "step": step,
    "fleet": fleet,
    "shift": shift,
}


# All that may stand in a refusal: those above judge one replica's release, the others a raise, an object or a plan.
EVERY_GUARD = (*GUARDS, "plausible", "budget", "fit", "nodes", "foreign", "owner", "gpus", "ratio", "marks", "stop")


def judge(release: Release) -> Refusal | None:
    """The first guard that declines this replica's release, None when it may go."""
    passed = PASSES[release.purpose]
    for name, guard in GUARDS.items():
        if name in passed:
            continue
        refusal = guard(release)
        if refusal is not None:
            return refusal
    return None


def budget(state: PoolFacts, promised: int, more: int) -> str | None:
    """What `more` GPUs wait for that cannot be promised in the pool beside the `promised` ones, None when they can."""
    if state.budget is not None and promised + more <= state.budget:
        return None
    if state.budget is None:
        return f"pool {state.pool.name}, whose budget is unknown"
    return f"room in pool {state.pool.name}, where {promised} of {gpus(state.budget)} are promised"


def stopped(scene: Scene[ModelShare]) -> str | None:
    """Why nothing at all may be written now: write stop, or lists of what must be known first are missing."""
    if scene.snapshot.write_stop is not None:
        stop = scene.snapshot.write_stop
        return f"{stop.actor or 'a person'} stopped the writes: {stop.reason or 'no reason given'}"
    missing = scene.snapshot.sync.missing
    if missing:
        return f"nothing is known yet of {listed(missing)}"
    return None


def stopped_by(scene: Scene[ModelShare]) -> str:
    """The guard behind `stopped`."""
    return "stop" if scene.snapshot.write_stop is not None else "start"

"""What was new when a cycle decided: the difference between what it saw and what the cycle before it saw, in words."""

from collections import Counter
from collections.abc import Iterator

from rebalancer.api.ports.page_data import RecordedCycle
from rebalancer.api.text.words import counted, goes, known, printable
from rebalancer.domain.people import Override
from rebalancer.domain.plan import Plan
from rebalancer.domain.snapshot import ModelView, Snapshot

MOST = 20  # triggers shown; what is beyond is counted


def triggers(before: RecordedCycle, now: RecordedCycle) -> tuple[str, ...]:
    """Sentences, what people and clouds did first; empty: nothing was new, and the cycle was only due."""
    news = [
        *_policy(before, now),
        *_people(before.snapshot, now.snapshot),
        *_notices(before.snapshot, now.snapshot),
        *_nodes(before.snapshot, now.snapshot),
        *_demands(before, now),
        *_replicas(before.snapshot, now.snapshot),
        *_room(before.plan, now.plan),
    ]
    more = [f"and {len(news) - MOST} more"] if len(news) > MOST else []
    return tuple(printable(each) for each in (*news[:MOST], *more))


def _policy(before: RecordedCycle, now: RecordedCycle) -> Iterator[str]:
    if before.policy_digest != now.policy_digest:
        yield f"another policy came into force ({before.policy_digest[:12] or '?'} -> {now.policy_digest[:12] or '?'})"


def _people(before: Snapshot, now: Snapshot) -> Iterator[str]:
    old, new = ({one.uid: one for one in each.overrides if one.expires_at > each.at} for each in (before, now))
    yield from (f"{new[uid].actor or 'somebody'} decided {_name(new[uid])}" for uid in new if uid not in old)
    yield from (f"{_name(old[uid])} by {old[uid].actor or 'somebody'} ended" for uid in old if uid not in new)
    if now.write_stop is not None and before.write_stop is None:
        yield f"{now.write_stop.actor or 'somebody'} stopped the writes"
    if now.write_stop is None and before.write_stop is not None:
        yield "writes were resumed"


def _name(one: Override) -> str:
    value = "" if one.value is None else f" {one.value}"
    return f"{one.kind}{value} of {one.subject_kind} {one.subject}"


def _notices(before: Snapshot, now: Snapshot) -> Iterator[str]:
    old, new = ({notice.node: notice for notice in each.notices} for each in (before, now))
    yield from (goes(new[node], now.at) for node in new if node not in old)
    yield from (f"the notice about {node} is over" for node in old if node not in new)
    for node, notice in new.items():
        if node in old and notice.counts(now.at) and not old[node].counts(before.at):
            yield f"the notice about {node} counts from now on"


def _nodes(before: Snapshot, now: Snapshot) -> Iterator[str]:
    old, new = ({node.name: pool.name for pool in each.pools for node in pool.nodes} for each in (before, now))
    yield from (f"node {node} came to pool {new[node]}" for node in new if node not in old)
    yield from (f"node {node} left pool {old[node]}" for node in old if node not in new)


def _demands(before: RecordedCycle, now: RecordedCycle) -> Iterator[str]:
    old = {each.model: each for each in before.plan.models}
    for each in now.plan.models:
        was = old.get(each.model)
        if was is None or was.demand == each.demand:
            continue
        surge = ", in a surge" if each.surge and not was.surge else ""
        why = next((step.said for step in each.steps if step.stage == "demand"), each.why)
        yield f"{each.model} needs {known(each.demand)} instead of {known(was.demand)}{surge}: {why}"


def _replicas(before: Snapshot, now: Snapshot) -> Iterator[str]:
    old = {model.id: _ready(model) for model in before.models}
    for model in now.models:
        came, went = _ready(model) - old.get(model.id, Counter()), old.get(model.id, Counter()) - _ready(model)
        if came:
            yield f"{counted(came.total(), 'replica')} of {model.id} became Ready"
        if went:
            yield f"{counted(went.total(), 'Ready replica')} of {model.id} went"


def _room(before: Plan, now: Plan) -> Iterator[str]:
    """GPUs that became free, and guards that let go: what a grant or a release had waited for."""
    free = {pool.pool: pool.free for pool in before.pools}
    for pool in now.pools:
        if pool.free > free.get(pool.pool, pool.free):
            yield f"{counted(pool.free - free[pool.pool], 'GPU')} more of pool {pool.pool} are free"
    held = {(each.guard, each.subject) for each in now.refusals}
    for each in before.refusals:
        if (each.guard, each.subject) not in held:
            yield f"guard {each.guard} holds {each.subject} no more"


def _ready(model: ModelView) -> Counter[str]:
    return Counter(pod.uid for target in model.targets for pod in target.pods if pod.phase == "ready")

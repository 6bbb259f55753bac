"""The mutants of the rules on facts: what is certain, who serves, whose number it is. Each undoes one rule."""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from rebalancer.domain import arithmetic, owners, parents
from rebalancer.domain.memory import Outage, Owed, SilentModel
from rebalancer.domain.readings import ModelLoad
from rebalancer.domain.snapshot import PodView, TargetView
from rebalancer.domain.victims import ends_just
from rebalancer.planning.actions import bounds, drains, evictions, moves, node_grants
from rebalancer.planning.allocation import allocate, donors, idle, loans, roles, seating
from rebalancer.planning.demand import deferral, demand, need, owed, votes, waiting
from rebalancer.planning.demand.demand import need_now
from rebalancer.planning.explanation import lacks
from rebalancer.planning.facts import build, holdings, pools, scene
from rebalancer.planning.guards import foreign, guards
from rebalancer.planning.memory import outages, outcomes
from rebalancer.planning.overrides import rulings
from rebalancer.planning.shares import before_gain, by_worth, sharers, swings
from rebalancer.state import absent, due, notices, views
from tests.mutants.mutant import Mutant

Patch = pytest.MonkeyPatch
Loads = Sequence[ModelLoad]


def rules() -> Iterator[Mutant]:
    """One or more a rule; the rule's name is that of the test class in `tests/planning`."""
    yield _instead(arithmetic, "node_gpus", "allocatable", "believes a node", lambda node, _: node.gpus)
    yield Mutant("allocatable", "owes at once", _owes_at_once)
    yield Mutant(
        "allocatable", "takes 0 for known", lambda patch: patch.setattr(pools, "unknown_gpus", lambda *_: None)
    )
    yield _property(
        scene.TargetFacts, "placed", "allocatable", "owes for who waits", lambda target: target.staying_replicas
    )
    yield _instead(arithmetic, "node_counts", "dead", "counts the dead", lambda *_: True)
    yield Mutant("others", "counts their maximum", _counts_their_maximum)
    yield _property(
        scene.TargetFacts, "obliging", "others", "is obliged by them", lambda target: target.staying_replicas
    )
    yield _instead(allocate, "_others_short", "others", "keeps what waits", lambda *_: False)
    yield Mutant("gpus", "sees no difference", lambda patch: patch.setattr(holdings, "gpus_differ", lambda *_: None))
    yield Mutant(
        "gpus", "counts the policy's", lambda patch: patch.setattr(holdings, "pod_gpus", lambda _, policy: policy)
    )
    yield _instead(holdings, "certain_pod_gpus", "gpus", "owes for the most", arithmetic.pod_gpus)
    yield _instead(arithmetic, "asleep", "asleep", "sees nobody asleep", lambda _: None)
    yield _instead(holdings, "other_on", "foreign", "sees no other installation", lambda _: "")
    yield _instead(holdings, "refusing", "owner", "sees no owner", lambda _: None)
    yield _instead(owners, "_rivals", "owner", "sees no rival", lambda _: ())
    yield _instead(parents.Parent, "verdict", "owner", "asks no consent", lambda *_: parents.REVERTS)
    yield _instead(owners, "REVERTS", "owner", "refuses who may", parents.MAY)
    yield _instead(seating.Seating, "_unclear", "marks", "asks twice", lambda *_: False)
    yield _instead(seating.Seating, "_unclear", "marks", "thinks the doomed go", _the_doomed_go)
    yield _instead(donors, "_outranks", "priority", "queues for ever", lambda recipient, _: recipient.share is None)
    yield _instead(donors, "TURNS", "priority", "queues for what is served", -math.inf)
    yield _instead(build, "certain_until", "allocatable", "makes no room", lambda *_: -math.inf)
    yield _instead(build, "certain_until", "allocatable", "makes room at once", lambda *_: math.inf)
    yield _instead(drains, "ends_just", "marks", "trusts to luck", _marked)
    yield _instead(drains, "ends_just", "gone", "releases the lost", lambda *_, **__: True)
    yield _instead(evictions, "outlasts", "ladder", "trusts a deadline that is over", lambda *_: False)
    yield _instead(node_grants, "_given", "given", "asks at once", lambda *_: {})
    yield _instead(moves, "held_back", "lending", "lends what is called", lambda *_: frozenset())
    yield _instead(allocate, "_homeless", "nowhere", "loads nowhere", lambda _: {})
    yield _instead(allocate, "_nodes_come", "nowhere", "awaits no node", lambda *_: False)
    yield _instead(allocate, "astray", "astray", "trusts the scheduler", lambda *_: {})
    yield _instead(foreign, "REPAIRED_AFTER_SECONDS", "repair", "ends no fight", math.inf)
    yield _instead(foreign, "REPAIRED_AFTER_SECONDS", "repair", "ends it at once", 0.0)
    yield _instead(foreign, "_stood_up_at", "standup", "forgets nothing", lambda *_: None)
    yield _instead(foreign, "_stood_up_at", "standup", "forgets for ever", lambda _, world: world.now)
    yield _instead(lacks, "keeps_borrowed", "borrower", "is not told", lambda *_: "")
    yield _instead(loans, "_overbooked", "lender", "stays who it was", lambda *_: {})
    yield _instead(roles.Roles, "_bearing", "ratio", "bears anything", lambda *_, **__: lambda _: True)
    yield _instead(bounds, "couples", "ratio", "pins nobody", lambda _: {})
    yield _instead(rulings, "_standing", "outranked", "lets all of them count", lambda by_kind: by_kind)
    yield from _rollouts()
    yield from _owed()
    yield from _used()
    yield from _deadlines()
    yield from _movers()
    yield from _swings()
    yield from _outages()
    yield from _nodes_that_go()


def _rollouts() -> Iterator[Mutant]:
    yield _property(scene.TargetFacts, "replaceable", "rollout", "replaces nothing", lambda _: 0)
    yield _instead(donors, "_needed_beside_a_rollout", "rollout", "takes what is needed", lambda *_: 0)
    yield _instead(holdings, "_hung", "rollout", "is over by its counts", lambda *_: frozenset())
    yield _instead(pools, "stranded_pods", "rollout", "promises what cannot be taken", lambda *_: 0)
    yield _instead(seating.Seating, "promisable", "rollout", "gives for who must wait", seating.Seating.headroom)
    beside = scene.PoolFacts.surging_beside
    yield _instead(
        scene.PoolFacts, "surging_beside", "rollout", "lets a floor wait", lambda pool, gpus: beside(pool, gpus or 8)
    )
    yield _instead(seating, "silent_nodes", "rollout", "counts on the silent", lambda _: frozenset())


def _marked(pod: PodView, staying: Collection[int], highest: int, **_: bool) -> bool:
    return ends_just(pod, staying, highest, marked=True)


def _outages() -> Iterator[Mutant]:
    rose, silent, concerned = outages._who_rose, outages._silent, outages._concerned  # noqa: SLF001  the very thing to break
    yield _instead(outages, "_who_rose", "sudden", "hears nobody rise", lambda *_: None)
    yield _instead(
        outages, "_who_rose", "sudden", "takes a return for a rise", lambda seen, _, look: rose(seen, (), look)
    )
    yield _instead(guards, "silence", "sudden", "holds everybody", _all_are_silent)
    yield _instead(outages, "_silent", "sudden", "names who fell first only", lambda *of: tuple(of[1]) or silent(*of))
    yield _instead(outages, "_concerned", "sudden", "knows no producers", lambda loads: {"": loads})
    yield _instead(outages, "_concerned", "sudden", "sees producers only", lambda loads: _no_front(concerned(loads)))
    yield _instead(
        outages, "_concerned", "sudden", "hears of everybody", lambda loads: dict.fromkeys(concerned(loads), loads)
    )


def _all_are_silent(outages: Sequence[Outage], model: str, *_: object) -> tuple[Outage, SilentModel] | None:
    return (outages[0], SilentModel(model, 1.0)) if outages else None


def _no_front(concerned: Mapping[str, Loads]) -> dict[str, Loads]:
    return {source: loads for source, loads in concerned.items() if source}


def _owed() -> Iterator[Mutant]:
    true, voted = owed._lower, owed.voted  # noqa: SLF001  the very thing to break
    yield _instead(
        demand, "voted", "owed", "believes votes alone", lambda votes, before, **_: voted(votes, before, surge=True)
    )
    yield _instead(votes, "CHANCE_ROOTS", "owed", "lends what chance calls", 0.0)
    yield _instead(owed, "OWED_AFTER_SECONDS", "owed", "believes each vote", 0.0)
    yield _instead(owed, "ERRORS", "owed", "believes chance", 0.0)
    yield _instead(owed, "_lower", "owed", "has no patience", lambda _, enough, *__: Owed(enough))
    yield _instead(owed, "_lower", "owed", "keeps all of it", lambda now, _, *more: true(now, now.replicas - 1, *more))


def _short(model: need.ModelNeed) -> float:
    return model.load.work.short or 0.0


def _used() -> Iterator[Mutant]:
    yield _instead(sharers, "in_use", "used", "goes to forecasts", lambda _pools, models, _gpus: (0,) * len(models))
    yield _instead(before_gain, "ROOM_ROOTS", "used", "has no room", (0.0,))
    yield _instead(before_gain, "ROOM_ROOTS", "used", "has all room or none", (0.5,))
    true = before_gain._work_of  # noqa: SLF001  the very thing to break
    yield _instead(before_gain, "_work_of", "used", "is of one window", lambda model: (_short(model),) * 2)
    yield _instead(before_gain, "_work_of", "used", "forgets the past", lambda model: (true(model)[1],) * 2)
    yield _instead(before_gain, "_short", "used", "holds off who is short", lambda *_: False)
    yield _instead(before_gain, "LIKELY", "used", "believes no rise", 1.0)
    yield _instead(before_gain, "BATCH", "used", "is of batch work", "none")


def _movers() -> Iterator[Mutant]:
    yield _instead(idle, "_places", "movers", "moves for nobody", lambda *_: 0)
    yield _instead(allocate, "paid_for", "movers", "lets it go while it loads", lambda _, least, *__: least)
    yield _instead(idle, "cost_of_one", "movers", "pays nothing", lambda _: -1.0)


def _swings() -> Iterator[Mutant]:
    yield _instead(swings, "_content_until", "swings", "is content with nothing", lambda *_: None)
    yield _instead(swings, "_has_room", "swings", "takes what others need", lambda _: False)
    yield _instead(swings, "_surges", "swings", "lets a surge wait", lambda _: False)
    yield _instead(swings, "givers", "swings", "takes back at once", lambda _: frozenset())
    yield _instead(idle, "givers", "swings", "takes back what is idle", lambda _: frozenset())
    yield _instead(outcomes, "_to_surge", "swings", "lends for ten minutes", lambda *_: False)
    yield _instead(swings, "MOST_DOUBLINGS", "swings", "is wrong as often as before", 0)


def _deadlines() -> Iterator[Mutant]:
    yield _instead(deferral, "WHOLE_AFTER", "deadline", "never grows urgent", math.inf)
    yield _instead(deferral, "WHOLE_AFTER", "deadline", "is urgent at once", 0.1)
    yield _instead(deferral, "DONE_WITHIN", "deadline", "keeps no time", 1.0)
    yield _instead(deferral, "DONE_WITHIN", "deadline", "takes no time", 0.5)
    yield _instead(deferral, "_deadlines", "deadline", "claims nothing", lambda *_: [])
    yield _instead(waiting, "_last", "deadline", "forgets who was served", lambda groups, _: groups)
    yield _instead(waiting, "_last", "deadline", "takes all for new", lambda *_: ())
    yield _instead(
        by_worth, "bound_due", "deadline", "takes what others need", lambda _scene, _pools, models: list(models)
    )
    yield _property(need.ModelNeed, "need_now", "deadline", "holds on to it", lambda holder: need_now(holder.load.work))


def _nodes_that_go() -> Iterator[Mutant]:
    true = views.pod_phase
    yield _instead(views, "pod_phase", "gone", "believes the lost", lambda pod, **_: true(pod))
    yield _instead(absent.Absent, "lost", "gone", "forgets the node", lambda *_: None)
    yield _instead(build, "doomed_nodes", "notice", "counts at once", lambda told, *_: arithmetic.noticed_nodes(told))
    yield _instead(due, "doomed_at", "notice", "counts too late", lambda deadline, *_: deadline)
    reasons = notices.VOLUNTARY_REASONS
    yield _instead(notices, "VOLUNTARY_REASONS", "disruption", "is voluntary", {*reasons, None})
    yield _instead(notices, "VOLUNTARY_REASONS", "disruption", "never is", reasons - {"Drifted"})
    yield _instead(notices, "REASON_WITHIN_SECONDS", "disruption", "waits for no reason", 0.0)
    yield _instead(evictions, "_enough_elsewhere", "elsewhere", "counts who loads", lambda *_: True)
    yield _instead(evictions, "_room_for_another", "elsewhere", "takes others' room", lambda *_: True)


def _instead(module: Any, name: str, rule: str, what: str, other: Any) -> Mutant:  # noqa: ANN401  anything may be broken
    return Mutant(rule, what, lambda patch: patch.setattr(module, name, other))


def _property(of: type, name: str, rule: str, what: str, other: Callable[[Any], Any]) -> Mutant:
    return Mutant(rule, what, lambda patch: patch.setattr(of, name, property(other)))


def _the_doomed_go(seats: seating.Seating, target: scene.TargetFacts) -> bool:
    return bool(target.leaving_pods and target.doomed) and not seats.candidates(target).predictable


def _owes_at_once(patch: Patch) -> None:
    true = arithmetic.pool_gpus

    def moved(*args: Any) -> arithmetic.PoolGpus:  # noqa: ANN401  as the true one
        found = true(*args)
        return found._replace(most=found.budget)

    patch.setattr(pools, "pool_gpus", moved)


def _counts_their_maximum(patch: Patch) -> None:
    true = arithmetic.converging

    def ours(target: TargetView) -> int:
        return true(replace(target, by_others=False))

    for module in (arithmetic, holdings):
        patch.setattr(module, "converging", ours)


RULES = tuple(rules())

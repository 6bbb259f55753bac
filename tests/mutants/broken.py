"""The mutants: each guard that lets everything pass, each of its limits moved by one step, and each rule undone."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial

import pytest
from msgspec import structs

from rebalancer.domain import policy as rules
from rebalancer.domain.plan import Refusal
from rebalancer.planning.actions import moves
from rebalancer.planning.demand import plausible
from rebalancer.planning.guards import foreign, guards
from rebalancer.planning.guards.release import PASSES, Purpose, Release
from rebalancer.planning.shares.share import ModelShare
from tests.mutants.around import AROUND
from tests.mutants.mutant import Mutant
from tests.mutants.rules import RULES

Patch = pytest.MonkeyPatch


def _never() -> Iterator[Mutant]:
    """Guards that decline nothing."""
    for name in guards.GUARDS:
        yield Mutant(name, "never refuses", partial(_deaf, name=name))
    yield Mutant("budget", "never refuses", lambda patch: patch.setattr(moves, "budget", lambda *_: None))
    yield Mutant("stop", "never refuses", lambda patch: patch.setattr(guards, "stopped", lambda _: None))
    yield Mutant("foreign", "never refuses", lambda patch: patch.setattr(foreign, "fight", lambda *_: ()))
    believes = plausible.Opinion()
    yield Mutant("plausible", "never refuses", lambda patch: patch.setattr(plausible, "opinion", lambda *_: believes))


def _deaf(patch: Patch, name: str) -> None:
    patch.setitem(guards.GUARDS, name, lambda _: None)


def _asked(patch: Patch, purpose: Purpose, passed: frozenset[str]) -> None:
    patch.setitem(PASSES, purpose, passed)


def _limits() -> Iterator[Mutant]:
    """Limits in replicas, GPUs, votes, samples and changes, moved by one."""
    for by in (1, -1):
        yield Mutant("floor", _said("floor", by), partial(_floor, by=by))
        yield Mutant("budget", _said("budget", by), partial(_budget, by=by))
        for name in ("step", "fleet", "shift"):
            yield Mutant(name, _said("limit", by), partial(_rate, name=name, by=by))
        for guard, rule, field in (
            ("start", rules.StartRule, "metric_intervals"),
            ("agree", rules.AgreeRule, "votes"),
            ("plausible", rules.PlausibleRule, "times"),
            ("plausible", rules.PlausibleRule, "samples"),
            ("sudden", rules.SuddenRule, "window_seconds"),
            ("sudden", rules.SuddenRule, "hold_seconds"),
            ("sudden", rules.SuddenRule, "least_models"),
            ("sudden", rules.SuddenRule, "usual_seconds"),
            ("foreign", rules.ForeignRule, "changes"),
            ("foreign", rules.ForeignRule, "window_seconds"),
            ("blind", rules.BlindRule, "stale_seconds"),
        ):
            yield _number(guard, rule, field, by)
        for name in ("step", "fleet", "shift"):
            yield _number(name, rules.RateLimit, "window_seconds", by)
        yield _number("blind", rules.BlindRule, "min_coverage", by * 0.01)
        yield _number("sudden", rules.SuddenRule, "drop", by * 0.01)
        yield _number("sudden", rules.SuddenRule, "models", by * 0.25)  # one of four
        yield _number("sudden", rules.SuddenRule, "least_work", by * 0.1)


def _said(what: str, by: float) -> str:
    return f"{what} {by:+g}"


def _number(guard: str, rule: type, field: str, by: float) -> Mutant:
    """A number of the policy as if everybody had written another one."""
    moved = property(lambda self: self.__dict__[field] + by)
    return Mutant(guard, _said(field, by), lambda patch: patch.setattr(rule, field, moved, raising=False))


def _floor(patch: Patch, by: int) -> None:
    true = guards.GUARDS["floor"]

    def moved(release: Release) -> Refusal | None:
        moved = structs.replace(release.model, floor=release.model.floor + by)
        models = (moved if model is release.model else model for model in release.scene.models.values())
        return true(replace(release, scene=release.scene.with_models(models)))

    patch.setitem(guards.GUARDS, "floor", moved)


def _budget(patch: Patch, by: int) -> None:
    true = guards.budget
    patch.setattr(moves, "budget", lambda state, promised, more: true(state, promised - by, more))


def _rate(patch: Patch, name: str, by: int) -> None:
    true = guards._limited  # noqa: SLF001  # the very thing to break

    def moved(  # as the true one
        release: Release, guard: str, rule: rules.RateLimit, lost: int, base: int, losers: Iterable[ModelShare]
    ) -> Refusal | None:
        return true(release, guard, rule, lost - by if guard == name else lost, base, losers)

    patch.setattr(guards, "_limited", moved)


def _passing() -> Iterator[Mutant]:
    """Who need not ask a guard but must, and who must but need not."""
    for purpose, passed in PASSES.items():
        for name in guards.GUARDS:
            other = passed - {name} if name in passed else passed | {name}
            what = f"{purpose.value} {'asks it' if name in passed else 'passes it'}"
            yield Mutant(name, what, partial(_asked, purpose=purpose, passed=other))


MUTANTS = tuple(sorted((*_never(), *_limits(), *_passing(), *RULES, *AROUND), key=lambda one: one.guard))

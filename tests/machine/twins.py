"""The product broken so that a fact of one pool, or a restart, reaches further than it may: undone by `undone`.

`tests.mutants` breaks guards and rules within one plan. These break what only two worlds beside each other show.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec import structs

from rebalancer.act import checks, gate
from rebalancer.act.restoring import Restoring
from rebalancer.app import past
from rebalancer.app.own_writes import OwnWrites
from rebalancer.domain import arithmetic
from rebalancer.domain.memory import Memory
from rebalancer.planning.allocation.seating import Seating
from rebalancer.planning.facts import holdings
from rebalancer.planning.facts.scene import ModelFacts, Scene
from rebalancer.planning.guards import foreign
from rebalancer.planning.memory import outcomes
from rebalancer.state import ClusterState
from rebalancer.state.foreign import ForeignChanges
from tests.mutants.mutant import Mutant
from tests.mutants.rules import RULES

Patch = pytest.MonkeyPatch


def twins() -> Iterator[Mutant]:
    """`apart`: one pool's trouble is everybody's. `restart`: a start knows less, and takes more."""
    yield Mutant("apart", "one fight stops everybody", _one_fight_stops_everybody)
    yield Mutant("apart", "one bad template fails the cycle", _one_bad_template_fails_the_cycle)
    yield Mutant("restart", "begins without memory", _resumes(lambda _memory: Memory()))
    yield Mutant("restart", "holds nothing back", _resumes(lambda memory: memory))
    yield Mutant("restart", "reads no writes", lambda patch: patch.setattr(OwnWrites, "since", lambda *_: ()))
    yield Mutant("restart", "forgets notices", _forgets("restore_notices"))
    yield Mutant("restart", "forgets who fought", _forgets("restore_foreign"))


def wholes() -> Iterator[Mutant]:
    """Rules that no mutant of `tests.mutants` undoes, for one world is enough to show them."""
    yield Mutant("stranger", "counts for somebody", lambda patch: patch.setattr(outcomes, "stranger", lambda *_: None))
    yield Mutant("restoring", "gives nothing back", lambda patch: patch.setattr(Restoring, "look", _nothing))
    yield Mutant("serves", "does not look again", lambda patch: patch.setattr(gate, "check", lambda *_, **__: None))
    yield Mutant("surplus", "counts who does not serve", _counts_who_does_not_serve)
    yield Mutant("allocatable", "believes a node, at once", _together("allocatable", "believes a node", "owes at once"))
    yield Mutant("gone", "sees nobody go", _together("gone", "believes the lost", "forgets the node"))
    yield Mutant("gpus", "counts the policy's everywhere", _counts_the_policys)
    yield Mutant("clock", "ages others' writes", lambda patch: patch.setattr(ForeignChanges, "stepped", _ignored))


def _together(rule: str, *whats: str) -> Any:  # noqa: ANN401  a patcher
    """Rules that cover each other: only all of them undone let anything through."""
    mutants = [one for one in RULES if one.guard == rule and one.what in whats]

    def undo(patch: Patch) -> None:
        for one in mutants:
            one.apply(patch)

    return undo


def _counts_the_policys(patch: Patch) -> None:
    """In plans and at the gate, which covers plans."""
    for module in (arithmetic, holdings, checks):
        patch.setattr(module, "pod_gpus", lambda _, by_policy: by_policy)


async def _nothing(_self: Restoring) -> None: ...


def _ignored(*_: object) -> None: ...


def _forgets(name: str) -> Any:  # noqa: ANN401  a patcher
    return lambda patch: patch.setattr(ClusterState, name, _ignored)


def _resumes(of: Any) -> Any:  # noqa: ANN401  a patcher
    return lambda patch: patch.setattr(past, "resume", lambda memory, *_, **__: of(memory))


def _counts_who_does_not_serve(patch: Patch) -> None:
    patch.setattr(Seating, "ready_of", Seating.left_of)


def _frozen(model: ModelFacts) -> ModelFacts:
    targets = tuple(dataclasses.replace(target, stuck=foreign.STANDS_DOWN) for target in model.targets)
    return structs.replace(model, targets=targets)


def _one_fight_stops_everybody(patch: Patch) -> None:
    true = foreign.stand_down

    def stand_down(scene: Scene[ModelFacts]) -> Scene[ModelFacts]:
        scene = true(scene)
        if any(target.stuck == foreign.STANDS_DOWN for model in scene.models.values() for target in model.targets):
            return scene.with_models(_frozen(model) for model in scene.models.values())
        return scene

    patch.setattr(foreign, "stand_down", stand_down)


def _one_bad_template_fails_the_cycle(patch: Patch) -> None:
    true = arithmetic.gpus_differ

    def gpus_differ(*args: Any) -> Any:  # noqa: ANN401  as the true one
        found = true(*args)
        if found is not None:
            raise ValueError("nobody understands this template")
        return found

    patch.setattr(holdings, "gpus_differ", gpus_differ)


TWINS = tuple(twins())
WHOLES = tuple(wholes())

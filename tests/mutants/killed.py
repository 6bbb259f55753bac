"""Runs the tests of a guard or rule while it is broken: classes `TestGuard` of `tests/planning`, or `PLACES`' modules.

Of a module those count that take parameters at most, or a rig: what wants more around it, or draws, is passed over.
"""

import asyncio
import importlib
import inspect
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark import ParameterSet
from structlog.testing import capture_logs

from tests.act.rig import a_rig
from tests.mutants.around import PLACES
from tests.mutants.mutant import Mutant

HERE = Path(__file__).parent.parent / "planning"


@dataclass(frozen=True, slots=True)
class Verdict:
    """`killers`: the tests that failed."""

    mutant: Mutant
    killers: tuple[str, ...]

    def __str__(self) -> str:
        first, *more = self.killers or ("NOBODY",)
        also = f" and {len(more)} more" if more else ""
        return f"{self.mutant.guard:12}{self.mutant.what:34}{first}{also}"


def verdict(mutant: Mutant) -> Verdict:
    """What the tests named after the guard say of the mutant."""
    sound = sound_tests(mutant.guard)
    with pytest.MonkeyPatch.context() as patch:
        mutant.apply(patch)
        return Verdict(mutant, tuple(name for name, test in sound if fails(test)))


@cache
def sound_tests(guard: str) -> tuple[tuple[str, Callable[[], None]], ...]:
    """Those named after the guard that pass while it is whole."""
    return tuple((name, test) for name, test in named_after(guard) if not fails(test))


def fails(test: Callable[[], None]) -> bool:
    """Whether the test notices something."""
    try:
        with capture_logs():  # the table is what is printed
            test()
    except (Exception, pytest.fail.Exception):  # noqa: BLE001  whatever a broken rule raises, the test noticed
        return True
    return False


@cache
def named_after(guard: str) -> tuple[tuple[str, Callable[[], None]], ...]:
    """The tests of the guard or rule, each ready to be called."""
    if guard in PLACES:
        return tuple(named for place in PLACES[guard] for named in _tests_of(importlib.import_module(place)))
    modules = [importlib.import_module(f"tests.planning.{path.stem}") for path in sorted(HERE.glob("test_*.py"))]
    classes = [found for module in modules if (found := getattr(module, f"Test{guard.capitalize()}", None))]
    return tuple(named for found in classes for named in _tests_of(found))


def _tests_of(place: Any) -> Iterator[tuple[str, Callable[[], None]]]:  # noqa: ANN401  a module or a class
    of = (place(),) if isinstance(place, type) else ()
    for name, function in inspect.getmembers(place, inspect.isfunction):
        if name.startswith("test_") and not hasattr(function, "hypothesis"):
            yield from ((name, call) for call in _calls(partial(function, *of), function))


def _calls(test: Callable[..., Any], function: Callable[..., Any]) -> Iterator[Callable[[], None]]:
    """The test once per parameter set."""
    sets: list[dict[str, Any]] = [{}]
    for mark in getattr(function, "pytestmark", ()):
        if mark.name == "parametrize":
            sets = [{**one, **values} for one in sets for values in _parameters(*mark.args)]
    for named in sets:
        missing = set(inspect.signature(test).parameters) - set(named)
        if not missing and not inspect.iscoroutinefunction(function):
            yield partial(test, **named)
        elif missing <= {"rig"} and inspect.iscoroutinefunction(function):
            yield partial(_awaited, partial(test, **named), with_rig=bool(missing))


def _parameters(names: str | tuple[str, ...], sets: Any) -> Iterator[dict[str, Any]]:  # noqa: ANN401  as pytest takes them
    many = (names,) if isinstance(names, str) else names
    for values in sets:
        plain = (values,) if isinstance(names, str) else values
        yield dict(zip(many, values.values if isinstance(values, ParameterSet) else plain, strict=True))


def _awaited(test: Callable[..., Coroutine[Any, Any, None]], *, with_rig: bool) -> None:
    async def run() -> None:
        if not with_rig:
            return await test()
        async with a_rig() as rig:
            return await test(rig=rig)

    asyncio.run(run())

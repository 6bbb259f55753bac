"""Runs the tests named after a guard while that guard is broken: classes `TestGuard` of `tests/planning`."""

import importlib
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import pytest

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
        return f"{self.mutant.guard:12}{self.mutant.what:22}{first}{also}"


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
        test()
    except (AssertionError, LookupError):  # LookupError: what it looks for in a plan is not there
        return True
    return False


@cache
def named_after(guard: str) -> tuple[tuple[str, Callable[[], None]], ...]:
    """The tests that bear the guard's name, each ready to be called."""
    modules = [importlib.import_module(f"tests.planning.{path.stem}") for path in sorted(HERE.glob("test_*.py"))]
    classes = [found for module in modules if (found := getattr(module, f"Test{guard.capitalize()}", None))]
    return tuple(
        (name, test)
        for found in classes
        for name, method in inspect.getmembers(found, inspect.isfunction)
        if name.startswith("test_")
        for test in _calls(found, method)
    )


def _calls(of: type, method: Callable[..., None]) -> Iterator[Callable[[], None]]:
    """The method once per parameter set."""
    marks = [mark for mark in getattr(method, "pytestmark", ()) if mark.name == "parametrize"]
    if not marks:
        yield partial(method, of())
        return
    (mark,) = marks
    names, sets = mark.args
    for values in sets:
        named = {names: values} if isinstance(names, str) else dict(zip(names, values, strict=True))
        yield partial(method, of(), **named)

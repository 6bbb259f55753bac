"""A pytest plugin that breaks the guard named by the environment: from then on it lets everything pass."""

import os

from rebalancer.planning import foreign, guards, moves, planner

VARIABLE = "BROKEN_GUARD"
NAMED = {  # guard -> the class of tests that must notice
    **dict.fromkeys(("floor", "budget", "step", "fleet", "shift"), "tests/planning/test_scenarios_guards.py"),
    **dict.fromkeys(("blind", "start", "empty", "stop"), "tests/planning/test_scenarios_unknown.py"),
    "foreign": "tests/planning/test_scenarios_foreign.py",
}
NAMED = {guard: f"{file}::Test{guard.capitalize()}" for guard, file in NAMED.items()}


def pytest_configure() -> None:
    """Break it before any test is collected."""
    guard = os.environ.get(VARIABLE, "")
    if guard in guards.GUARDS:
        guards.GUARDS[guard] = lambda _release: None
    elif guard == "budget":
        moves.budget = lambda _state, _promised, _more: None  # type: ignore[assignment,attr-defined]  # the very thing to break
    elif guard == "stop":
        planner.guards.stopped = lambda _scene: None  # type: ignore[attr-defined]  # likewise
    elif guard == "foreign":
        foreign.fight = lambda _target, _now: ()  # type: ignore[assignment]  # likewise
    elif guard:
        raise ValueError(f"{VARIABLE}={guard}: no such guard; there are {', '.join(NAMED)}")

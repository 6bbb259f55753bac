"""The mutants of rules that hold around a plan: at its input, at the gate, over a restart. Each undoes one rule.

`PLACES` has the tests that hold each of them; some of the mutants are the machine's (`tests.machine.twins`).
"""

import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from rebalancer.act import checks, restoring
from rebalancer.act.restoring import Restoring
from rebalancer.domain import victims
from rebalancer.domain.memory import Replaced
from rebalancer.domain.pinned import DEPARTED
from rebalancer.domain.snapshot import PodView, TargetView
from rebalancer.ingest import decode, gauges
from rebalancer.loop import gate_ports
from rebalancer.loop.clock import SteppedClock
from rebalancer.loop.gate_ports import GatePorts
from rebalancer.obs.metrics import registry
from rebalancer.planning import apart
from rebalancer.planning.demand import assess
from rebalancer.planning.facts import families, holdings
from rebalancer.planning.memory import outcomes
from rebalancer.settings import entries
from rebalancer.state import capacity, habit, pinned
from rebalancer.state.capacity import Capacity
from rebalancer.state.highest import Highest, Sides
from rebalancer.state.loads import Loads
from rebalancer.state.outlook import changepoint, rule
from rebalancer.state.sources import Sources
from tests.machine.twins import TWINS, WHOLES
from tests.mutants.mutant import Mutant

# The rule -> the modules of its tests.
PLACES: dict[str, tuple[str, ...]] = {
    "stranger": ("tests.planning.test_policy_edits", "tests.loop.test_hands"),
    "failed": ("tests.loop.test_hands",),
    "unworkable": ("tests.planning.test_unworkable",),
    "pools": ("tests.planning.test_apart",),
    "entries": ("tests.settings.test_entries",),
    "restart": ("tests.app.test_past", "tests.planning.test_resume", "tests.state.test_notices_kept"),
    "back": ("tests.planning.test_scenarios_came_back",),
    "restoring": ("tests.act.test_restoring",),
    "serves": ("tests.act.test_floor",),
    "sources": ("tests.state.test_disagreeing",),
    "impossible": ("tests.ingest.test_decode",),
    "clock": ("tests.state.test_clock_steps",),
    "carries": ("tests.state.test_capacity",),
    "lag": ("tests.state.test_habit",),
    "shifted": ("tests.state.outlook.test_changepoint",),
    "leaving": ("tests.act.test_restoring", "tests.obs.test_metrics"),
}


def around() -> Iterator[Mutant]:
    """One or more a rule; the rule's name is a key of `PLACES`."""
    yield from (one for one in (*TWINS, *WHOLES) if one.guard in PLACES)
    yield _instead(gate_ports, "stranger", "stranger", "is not told", lambda *_: None)
    yield _instead(GatePorts, "recover", "failed", "hands its input on", _ignored)
    yield _instead(gate_ports, "recall", "failed", "loses all it was told", lambda memory, *_: memory)
    yield _instead(assess, "_each_alone", "unworkable", "fails the cycle", _with_the_others)
    yield _instead(apart, "families", "pools", "fail together", lambda *_: ())
    yield _instead(families, "_bonds", "pools", "share nothing", lambda *_: ())
    yield _instead(apart, "_remembered", "pools", "are forgotten", lambda *its: its[2])
    yield _instead(entries._Parts, "in_entries", "entries", "refuse the file", lambda *_: False)  # noqa: SLF001  the very thing to break
    yield _instead(entries._Parts, "keep_what_is_not_named", "entries", "leave by a slip", _ignored)  # noqa: SLF001  as above
    yield _instead(entries, "renamed", "entries", "know no new name", lambda good, *_: good)
    yield _instead(holdings._Replaced, "of", "back", "believes it of any target", _believed("target"))  # noqa: SLF001  as above
    yield _instead(holdings._Replaced, "of", "back", "believes it of any number", _believed("replicas"))  # noqa: SLF001  as above
    yield _instead(outcomes, "_replaced", "back", "knows of no write since", lambda before, _: before)
    yield _instead(restoring, "AGAIN_SECONDS", "restoring", "tries it once", math.inf)
    yield _instead(Restoring, "_ask", "restoring", "looks at no policy again", lambda *_: _nothing)
    yield _instead(pinned, "state_of", "restoring", "takes what is another's", lambda *_, **__: DEPARTED)
    serving = victims.serving_after
    yield _instead(checks, "serving_after", "serves", "counts who was asked for", lambda _, replicas, *__: replicas)
    yield _instead(
        checks,
        "serving_after",
        "serves",
        "counts who goes",
        lambda pods, replicas, _, *first: serving(pods, replicas, (), *first),
    )
    yield _instead(Highest, "more", "sources", "are added up", _all_of_it)
    yield _instead(
        Sides,
        "_total",
        "sources",
        "speak by the whole alone",
        lambda _, cell: cell.whole if cell.whole_share else cell.pods,
    )
    yield _instead(Sides, "_total", "sources", "speak by pods alone", lambda _, cell: cell.pods)
    yield _instead(gauges, "impossible", "impossible", "spoils the sample", lambda _: {})
    yield _instead(gauges, "impossible", "impossible", "drops all of them", dict)
    yield _instead(decode, "without_faulty", "impossible", "is let through", lambda value: (value, {}, ()))
    yield _instead(SteppedClock, "_stepped", "clock", "tells of no step", _ignored)
    yield _instead(Sources, "stepped", "clock", "keeps a silent watch fresh", _ignored)
    yield _instead(Loads, "stepped", "clock", "ages readings", _ignored)
    yield _instead(Restoring, "_say", "leaving", "is not told", _ignored)
    yield _instead(Restoring, "_is_to_do", "leaving", "writes in shadow", lambda *_: True)
    yield _instead(capacity, "KNOWN_SECONDS", "carries", "is known too soon", 300.0)
    yield _instead(capacity, "FIGURE_SECONDS", "carries", "clings to the policy", 150.0)
    yield _instead(Capacity, "_bound", "carries", "hears no broken latency", lambda _: capacity.NOWHERE)
    yield _instead(capacity, "sqrt", "carries", "is as doubtful as ever", lambda _: 0.3)
    yield _instead(habit, "MOST_LAG_SECONDS", "lag", "is never learnt", 0.0)
    yield _instead(changepoint, "GROWS_ON_TOGETHER", "shifted", "goes on as far for many", rule.GROWS_ON)
    yield _instead(changepoint, "_usual", "shifted", "is judged by the level", _against_the_level)
    yield _instead(registry, "_wish", "leaving", "counts each plan's wish", lambda _: object())


def _instead(module: Any, name: str, rule: str, what: str, other: Any) -> Mutant:  # noqa: ANN401  anything may be broken
    return Mutant(rule, what, lambda patch: patch.setattr(module, name, other))


def _with_the_others(model: Any, scene: Any) -> Any:  # noqa: ANN401  as the true one
    return assess._need(model, assess._shown(model, scene), scene)  # noqa: SLF001  the very thing to break


def _against_the_level(x: Any, known: Any) -> Any:  # noqa: ANN401  as the true one
    return changepoint.TO_DEVIATION * np.median(np.abs(x), axis=0) + changepoint.LEAST_TYPICAL + 0.0 * known.sum(axis=0)


def _ignored(*_: object) -> None: ...


async def _nothing() -> None: ...


def _believed(field: str) -> Any:  # noqa: ANN401  a static method
    """Replaced pods as if what was asked for stood still: the same target, or the same number."""
    true = holdings._Replaced.of  # noqa: SLF001  the very thing to break

    def of(target: TargetView, alive: list[PodView], basis: Any, wanted: int) -> Any:  # noqa: ANN401  as the true one
        stands: dict[str, Any] = {field: {"target": target.uid, "replicas": wanted}[field]}
        entries = tuple(str(Replaced.of(entry)._replace(**stands)) for entry in basis.replaced)
        return true(target, alive, basis._replace(replaced=entries), wanted)

    return staticmethod(of)


def _all_of_it(_: Highest, seconds: Iterable[int], figure: float, share: float) -> Iterator[tuple[int, float, float]]:
    yield from ((second, figure, share) for second in seconds)


AROUND = tuple(around())

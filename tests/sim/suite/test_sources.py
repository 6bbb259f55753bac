"""What was played is kept by digests of all that decides it: no module and no value may be missing."""

import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from rebalancer.sim.scenario import NodeChange, Scenario
from rebalancer.sim.suite.cases import SuiteCase
from rebalancer.sim.suite.peers import BY_NAME
from rebalancer.sim.suite.row import BOUND
from rebalancer.sim.suite.run import _LEAVES, Task
from rebalancer.sim.suite.scenarios import s7
from rebalancer.sim.suite.sources import digest_of, digest_of_values, sources
from rebalancer.sim.suite.worlds import WORLDS, World

pytestmark = pytest.mark.slow  # 10 s

CASE = SuiteCase("S7", "generated", 24, 60)
LOADED = "import sys, {}; print(*(name for name in sys.modules if name.split('.')[0] == 'rebalancer'))"


def modules_of(controller: str, world: World = "fluid") -> set[str]:
    return set(sources(Task(CASE, controller, 0, world=world).modules, _LEAVES))


@pytest.mark.parametrize(
    "module",
    [
        "rebalancer.sim.fluid.fast",
        "rebalancer.sim.product",
        "rebalancer.sim.requests.plug",
        "rebalancer.sim.batching.plug",
        "rebalancer.sim.batching.world",
        "rebalancer.sim.limits.bound",
        *(module.__name__ for peer in BY_NAME.values() for module in peer.modules[:1]),
    ],
)
def test_everything_that_python_loads_with_a_module_is_found(module: str) -> None:
    command = [sys.executable, "-c", LOADED.format(module)]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()  # noqa: S603  # our own code

    assert set(loaded) - set(sources([module])) == set()


@pytest.mark.parametrize(
    ("controller", "world", "decisive"),
    [
        (
            "keda",
            "fluid",
            {
                "sim.peers.keda",
                "sim.peers.signals",
                "sim.fluid.fast",
                "sim.fluid.serving",
                "sim.fluid.fleet",
                "sim.score",
            },
        ),
        ("keda", "requests", {"sim.peers.keda", "sim.requests.passage", "sim.requests.minutes", "sim.fluid.fleet"}),
        ("keda", "batching", {"sim.peers.keda", "sim.batching.kernel", "sim.batching.heap", "sim.batching.arrivals"}),
        ("foresight", "fluid", {"sim.limits.foresight", "sim.limits.lookahead"}),
        ("faro", "requests", {"sim.peers.faro.solver", "sim.peers.faro.reactive"}),
        ("ours", "fluid", {"planning.planner", "act.gate", "state.signals", "world.world", "sim.product.policy"}),
        ("ours", "batching", {"planning.planner", "sim.batching.plug", "sim.batching.kernel"}),
        ("ours", "requests", {"planning.planner", "sim.requests.plug", "sim.requests.passage"}),
        (BOUND, "fluid", {"sim.limits.bound"}),
    ],
)
def test_what_decides_a_run_is_among_its_modules(controller: str, world: World, decisive: set[str]) -> None:
    found = modules_of(controller, world)

    assert {f"rebalancer.{name}" for name in decisive} - found == set()
    if controller != BOUND:
        assert {"rebalancer.sim.suite.worlds", "rebalancer.sim.suite.row"} <= found


@pytest.mark.parametrize("world", WORLDS)
def test_what_planning_does_is_nothing_to_a_peer(world: World) -> None:
    peers = [name for name in modules_of("hpa", world) if "planning" in name or "sim.product" in name]

    assert peers == []


def test_a_run_of_another_world_is_kept_under_another_name() -> None:
    names = {Task(CASE, "hpa", 0, world=world).file("data") for world in WORLDS}

    assert len(names) == len(WORLDS)
    assert len({Task(CASE, "hpa", 0).file(data) for data in ("one", "other")}) == 2


def test_code_counts_and_what_is_said_of_it_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def digest(name: str, text: str) -> str:
        (tmp_path / f"{name}.py").write_text(text)
        process = f"from rebalancer.sim.suite import sources; print(sources._done(sources.Path({str(tmp_path / f'{name}.py')!r})))"  # noqa: E501  # one line of code
        command = [sys.executable, "-c", process]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603  # our own code

    first = digest("first", '"""One."""\ndef f(x):\n    """Two."""\n    return x + 1\n')

    assert digest("told", '"""Other."""\n\ndef f(x):  # why\n    return x + 1\n') == first
    assert digest("other", '"""One."""\ndef f(x):\n    """Two."""\n    return x + 2\n') != first


def test_modules_that_are_none_are_refused() -> None:
    with pytest.raises(ValueError, match=r"no module rebalancer\.sim\.nothing"):
        digest_of(("rebalancer.sim.nothing",))


@dataclass(frozen=True)
class Given:
    """What a world may be given: arrays within sequences within dataclasses."""

    scenario: Scenario
    rows: tuple[np.ndarray, ...]


def test_every_value_that_is_played_counts() -> None:
    scenario = s7(24, 60)
    model = scenario.models[0]
    work = model.work.copy()
    work[7] += 1e-9
    others = [
        replace(scenario, nodes=(12, 12)),
        replace(scenario, seconds=scenario.seconds - 1),
        replace(scenario, by_model=True),
        replace(scenario, surges=scenario.surges[1:]),
        replace(scenario, changes=(NodeChange(5, 0, 3),)),
        replace(scenario, usd_per_gpu_hour=1.0),
        *(
            replace(scenario, models=(replace(model, **change), scenario.models[1]))
            for change in ({"work": work}, {"first": 3}, {"release_seconds": 30}, {"patience_seconds": 29.0})
        ),
    ]

    digests = [digest_of_values(scenario), *map(digest_of_values, others)]

    assert len(set(digests)) == len(digests)
    assert digest_of_values(s7(24, 60)) == digests[0]


def test_arrays_inside_count_to_the_last_digit() -> None:
    scenario, rows = s7(24, 60), (np.zeros(5000), np.ones(3))
    other = rows[0].copy()
    other[2500] = 1e-12  # in the middle, where a printed array has dots

    assert digest_of_values(Given(scenario, rows)) != digest_of_values(Given(scenario, (other, rows[1])))
    assert digest_of_values(np.zeros(4)) != digest_of_values(np.zeros((2, 2)))
    assert digest_of_values([1, 2], 3) != digest_of_values([1], [2, 3])

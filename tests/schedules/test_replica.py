"""A replica of schedules takes over, leads and ends by the same steps as the service, in the same order."""

import ast
import inspect
import textwrap
from collections.abc import Callable

from rebalancer.app.service import Service
from tests.schedules.replica import Replica

# Clocks, logs, where the past lies (`Standby`: tests/app/test_leadership.py), and tasks, which each spawns in its way.
ASIDE = {
    "RuntimeError",
    "asyncio.ensure_future",
    "asyncio.gather",
    "clock.monotonic",
    "clock.now",
    "files.paths",
    "kube.identify",
    "len",
    "log.info",
    "read_succession",
    "round",
    "state.peek",
    "task.cancel",
    "tasks.spawn",
}
STANDING = ("leadership.stand", "elector.run", "Standby", "asyncio.Event", "asyncio.Event().wait")
"""What the service does before it leads, or where it is alone: a replica's elector stands as one of its parts."""


def steps(method: Callable[..., object], *aside: str) -> list[str]:
    """What a method calls and what it sets, in the order in which it stands there; no underscores before names."""
    names: list[tuple[int, int, str]] = []
    for each in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(method)))):
        if isinstance(each, ast.Call):
            names.append((each.lineno, each.col_offset, ast.unparse(each.func)))
        if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Attribute):
            names.append((each.lineno, each.col_offset, ast.unparse(each)))
    names.sort(key=lambda one: one[:2])
    bare = [name.removeprefix("self.").lstrip("_") for _, _, name in names]
    return [name for name in bare if name not in ASIDE | {*aside}]


def test_a_replica_takes_over_by_the_steps_of_the_service() -> None:
    ours, service = steps(Replica._succeed), steps(Service._succeed)  # noqa: SLF001  # neither is called by others
    assert ours == service
    assert {"gate.inherit", "ports.succeed", "leadership.succeeded = True"} <= {*service}


def test_a_replica_leads_by_the_steps_of_the_service() -> None:
    ours = ["checkpoints.run" if name == "kept" else name for name in steps(Replica._lead)]  # noqa: SLF001  # as above
    assert ours == steps(Service._lead, *STANDING)  # noqa: SLF001  # as above


def test_a_replica_that_ends_in_order_takes_the_first_steps_of_the_service() -> None:
    ours, service = steps(Replica.end_in_order), steps(Service.stop)
    assert ours == service[: service.index("leadership.release") + 1]

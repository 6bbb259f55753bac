"""The runner's timing, to the exact virtual second."""

import asyncio
from itertools import pairwise

import looptime
import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from rebalancer.domain.memory import Memory
from rebalancer.domain.outcome import Outcome
from rebalancer.domain.plan import Decision
from rebalancer.domain.policy import Policy
from rebalancer.domain.snapshot import Snapshot
from rebalancer.ledger.books import ALL_TIME, Books
from rebalancer.loop.runner import Runner
from rebalancer.planning import Memo
from rebalancer.state.wakes import GATHER_SECONDS
from tests.builders import NOW, a_model, a_node, a_policy, a_pool, a_snapshot

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]


class LoopClock:
    """The event loop's own (virtual) time as UTC."""

    def now(self) -> float:
        return NOW + asyncio.get_running_loop().time()

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class CountingPorts:
    """Ports that note when they were asked to look, and to recover; `fails` makes the next looks raise.

    `spoils`: so many of the next looks see nodes of pool h100 on which planning fails. `unreadable`: all of them see
    node groups of which no sentence can be made.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.memory = Memory()
        self.memo = Memo()
        self.books = Books(ALL_TIME)
        self.looks: list[float] = []
        self.recovered: list[float] = []
        self.recovers = True
        self.fails = 0
        self.spoils = 0
        self.unreadable = False
        self.write_seconds = 0.0
        self.writes_ended = 0

    def look(self, now: float) -> Snapshot:
        self.looks.append(round(now - NOW, 6))
        if self.fails:
            self.fails -= 1
            raise RuntimeError("nothing to see")
        seen = a_snapshot(self.policy, at=now, cycle=len(self.looks))
        if self.unreadable:
            return replace(seen, pools=tuple(replace(view, node_groups=None) for view in seen.pools))
        if self.spoils:
            self.spoils -= 1
            nobody_knows = replace(a_node(), gpus=None)
            spoilt = (replace(view, nodes=(nobody_knows,)) if view.name == "h100" else view for view in seen.pools)
            return replace(seen, pools=tuple(spoilt))
        return seen

    def recover(self, now: float) -> None:
        self.recovered.append(round(now - NOW, 6))
        if not self.recovers:
            raise RuntimeError("nothing to recover")

    def remember(self, snapshot: Snapshot, before: Memory, memory: Memory) -> None:
        assert snapshot.cycle == len(self.looks)
        assert before is self.memory
        self.memory = memory

    def note(self, snapshot: Snapshot, decision: Decision) -> None:
        assert snapshot.cycle == decision.plan.cycle
        assert decision.memory is self.memory
        assert decision.plan.models

    async def carry_out(self, decision: Decision) -> tuple[Outcome, ...]:
        assert decision.memory is self.memory
        assert not decision.plan.models  # a write waits for no explanation
        await asyncio.sleep(self.write_seconds)
        self.writes_ended += 1
        return ()


@pytest.fixture
def ports() -> CountingPorts:
    return CountingPorts(a_policy(plan_every_seconds=10.0))


@pytest.fixture
def runner(ports: CountingPorts) -> Runner:
    return Runner(ports, LoopClock())


async def run_for(runner: Runner, seconds: float) -> asyncio.Task[None]:
    task = asyncio.create_task(runner.run())
    await asyncio.sleep(seconds)
    return task


async def end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_plan_is_made_at_once_and_then_each_planning_period(ports: CountingPorts, runner: Runner) -> None:
    task = await run_for(runner, 31.0)
    await end(task)
    assert ports.looks == [0.0, 10.1, 20.2, 30.3]


async def test_something_urgent_is_answered_at_once_when_the_last_cycle_is_over_100_ms_ago(
    ports: CountingPorts, runner: Runner
) -> None:
    task = await run_for(runner, 5.0)
    runner.wake()
    await asyncio.sleep(0)
    await asyncio.sleep(0.01)
    await end(task)
    assert ports.looks == [0.0, 5.0]


async def test_a_flood_of_urgent_things_turns_the_wheel_at_most_every_100_ms(
    ports: CountingPorts, runner: Runner
) -> None:
    task = await run_for(runner, 1.0)
    for _ in range(100):
        runner.wake()
        await asyncio.sleep(0.01)
    await end(task)
    urgent = [look for look in ports.looks if look >= 1.0]
    assert 9 <= len(urgent) <= 11
    assert all(later - earlier >= 0.1 - 1e-6 for earlier, later in pairwise(urgent))


async def test_what_is_freed_within_100_ms_is_planned_together(ports: CountingPorts, runner: Runner) -> None:
    task = await run_for(runner, 5.0)
    for _ in range(5):  # five pods of one shift go, 20 ms apart
        runner.wake(GATHER_SECONDS)
        await asyncio.sleep(0.02)
    await asyncio.sleep(1.0)
    await end(task)
    assert ports.looks == [0.0, 5.1]


async def test_what_goes_on_being_freed_puts_no_turn_off(ports: CountingPorts, runner: Runner) -> None:
    task = await run_for(runner, 5.0)
    for _ in range(20):
        runner.wake(GATHER_SECONDS)
        await asyncio.sleep(0.05)
    await end(task)
    assert ports.looks[1:4] == [5.1, 5.25, 5.4]  # at most 100 ms after the first since the last turn


async def test_what_is_urgent_does_not_wait_for_what_is_gathered(ports: CountingPorts, runner: Runner) -> None:
    task = await run_for(runner, 5.0)
    runner.wake(GATHER_SECONDS)
    await asyncio.sleep(0.03)
    runner.wake()
    await asyncio.sleep(0.5)
    await end(task)
    assert ports.looks == [0.0, 5.03]


async def test_a_period_that_ends_while_it_gathers_is_not_put_off(ports: CountingPorts, runner: Runner) -> None:
    task = await run_for(runner, 10.05)
    runner.wake(GATHER_SECONDS)
    await asyncio.sleep(0.5)
    await end(task)
    assert ports.looks == [0.0, 10.1]


async def test_while_no_turns_are_wanted_none_begins_and_what_cannot_wait_follows_at_once(
    ports: CountingPorts, runner: Runner
) -> None:
    task = await run_for(runner, 9.0)
    with runner.no_turns(2.0):
        runner.wake()
        await asyncio.sleep(1.5)  # the period ends meanwhile as well
    await asyncio.sleep(0.5)
    await end(task)
    assert ports.looks == [0.0, 10.5]


async def test_turns_are_put_off_for_so_long_at_most(ports: CountingPorts, runner: Runner) -> None:
    task = await run_for(runner, 5.0)
    with runner.no_turns(2.0):
        runner.wake()
        await asyncio.sleep(4.0)
    await asyncio.sleep(0.5)
    await end(task)
    assert ports.looks == [0.0, 7.0]


async def test_that_no_turns_are_wanted_keeps_nobody_from_stopping(ports: CountingPorts, runner: Runner) -> None:
    task = await run_for(runner, 5.0)
    with runner.no_turns(60.0):
        began = asyncio.get_running_loop().time()
        await runner.stop(deadline_seconds=30.0)
        assert asyncio.get_running_loop().time() - began < 0.2
    await end(task)


async def test_a_cycle_that_fails_is_followed_by_the_next_one(ports: CountingPorts, runner: Runner) -> None:
    ports.fails = 2
    task = await run_for(runner, 21.0)
    await end(task)
    assert len(ports.looks) == 3
    assert ports.memory.models


async def test_only_a_cycle_that_planned_counts_as_one(ports: CountingPorts, runner: Runner) -> None:
    task = await run_for(runner, 1.0)
    assert (runner.planned_monotonic, runner.failed_in_a_row) == (0.0, 0)
    ports.fails = 2
    await asyncio.sleep(20.0)
    assert runner.planned_monotonic == 0.0
    assert runner.ended_monotonic == pytest.approx(20.2)
    assert (runner.failed_in_a_row, runner.failure) == (2, "RuntimeError: nothing to see")
    assert ports.recovered == [10.1, 20.2]
    await asyncio.sleep(10.0)
    await end(task)
    assert runner.planned_monotonic == pytest.approx(30.3)
    assert runner.failed_in_a_row == 0


async def test_a_pool_on_which_planning_fails_is_counted_alone_and_logged_whole_once() -> None:
    models = (a_model("a"), a_model("x", pools=("h100",)))
    ports = CountingPorts(a_policy(*models, pools=(a_pool(), a_pool("h100")), plan_every_seconds=10.0))
    runner = Runner(ports, LoopClock())
    ports.spoils = 2
    with capture_logs() as logs:
        task = await run_for(runner, 11.0)
        assert (runner.failed_in_a_row, runner.pools_failed_in_a_row) == (0, {"h100": 2})
        assert (runner.planned_monotonic, ports.recovered) == (10.1, [])
        (told,) = [line for line in logs if line["log_level"] == "error"]
        assert isinstance(told["exc_info"], TypeError)
        assert told["exc_info"].__traceback__ is not None
        assert "pool h100" in told["why"]
        await asyncio.sleep(10.0)
        await end(task)
    assert runner.pools_failed_in_a_row == {}


async def test_a_cycle_that_cannot_be_explained_has_planned_and_the_log_has_why_once(
    ports: CountingPorts, runner: Runner
) -> None:
    ports.unreadable = True
    with capture_logs() as logs:
        await end(await run_for(runner, 11.0))
    assert (len(ports.looks), runner.failed_in_a_row, ports.recovered) == (2, 0, [])
    (told,) = [line for line in logs if line["log_level"] == "error"]
    assert isinstance(told["exc_info"], TypeError)


async def test_the_hook_hears_whether_a_cycle_planned(ports: CountingPorts) -> None:
    heard: list[bool] = []
    ports.fails = 1
    task = await run_for(Runner(ports, LoopClock(), lambda _seconds, ok: heard.append(ok)), 11.0)
    await end(task)
    assert heard == [False, True]


async def test_the_wheel_turns_on_where_nothing_can_be_recovered(ports: CountingPorts, runner: Runner) -> None:
    ports.fails, ports.recovers = 2, False
    task = await run_for(runner, 21.0)
    await end(task)
    assert len(ports.looks) == 3
    assert runner.failed_in_a_row == 0


async def test_stopping_waits_for_the_write_under_way_and_starts_no_other_cycle(
    ports: CountingPorts, runner: Runner, looptime: looptime.LoopTimeEventLoop
) -> None:
    ports.write_seconds = 3.0
    task = await run_for(runner, 1.0)
    await runner.stop(deadline_seconds=10.0)
    assert ports.writes_ended == 1
    assert looptime == pytest.approx(3.1)
    assert ports.looks == [0.0]
    await end(task)


async def test_stopping_gives_up_on_a_write_that_does_not_end(ports: CountingPorts, runner: Runner) -> None:
    ports.write_seconds = 1e6
    task = await run_for(runner, 1.0)
    await runner.stop(deadline_seconds=2.0)
    assert ports.writes_ended == 0
    await end(task)

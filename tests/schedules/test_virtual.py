"""The virtual loop: time jumps, a stopped process finds everything later, a dead one does nothing more."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from rebalancer.obs.effects import When, effect
from tests.machine.test_oracle import Bench
from tests.schedules.api import ApiServer
from tests.schedules.links import ApiLink
from tests.schedules.virtual import START, Host, VirtualLoop
from tests.schedules.watching import BOOKMARKS, Watching


def played(play: Coroutine[Any, Any, None]) -> float:
    """Seconds that it took, of the loop's."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(play)
        return runner.get_loop().time()


def test_an_hour_goes_by_at_once() -> None:
    assert played(asyncio.sleep(3600.0)) == 3600.0


def test_a_stopped_process_goes_on_when_it_is_continued_though_its_timers_were_due() -> None:
    came: list[tuple[str, float]] = []

    async def process() -> None:
        for name in ("first", "second"):
            await asyncio.sleep(2.0)
            came.append((name, asyncio.get_running_loop().time()))

    async def play() -> None:
        host = Host("a")
        running = host.run(process())
        await asyncio.sleep(1.0)
        host.pause()
        await asyncio.sleep(9.0)
        assert came == []
        host.resume()
        await running

    played(play())
    assert came == [("first", 10.0), ("second", 12.0)]


def test_a_deadline_that_was_due_while_its_process_was_stopped_is_met_by_what_came_in_time() -> None:
    async def process(answer: asyncio.Future[str]) -> str:
        async with asyncio.timeout(3.0):
            return await answer

    async def play() -> None:
        host, heard = Host("a"), list[str]()
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def listens() -> None:
            heard.append(await process(answer))

        running = host.run(listens())
        await asyncio.sleep(1.0)
        host.pause()
        answer.set_result("in time")
        await asyncio.sleep(9.0)
        host.resume()
        await running
        assert heard == ["in time"]

    played(play())


def test_a_process_dies_at_an_effect_and_with_it_whatever_ran_beside() -> None:
    done: list[str] = []

    async def write(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        with effect(name, ""):
            done.append(name)

    async def process() -> None:
        await asyncio.gather(write("first", 1.0), write("second", 2.0), write("third", 1.0))

    def dies(name: str, when: When) -> bool:
        return (name, when) == ("first", "after")

    async def play() -> None:
        host = Host("a")
        host.dies = dies
        await asyncio.wait([host.run(process())])
        await asyncio.sleep(5.0)
        assert not host.alive

    played(play())
    assert done == ["first"]


def test_a_watch_that_was_late_is_behind_until_all_of_it_has_arrived() -> None:
    behind: dict[float, bool] = {}

    async def play() -> None:
        link = ApiLink(watch_seconds=7.5)
        watching = Watching(Bench().world, ApiServer(lambda: START), link, lambda: None)
        watching.tell([*BOOKMARKS])
        await asyncio.sleep(1.0)
        link.watch_seconds = 0.0
        watching.tell([*BOOKMARKS])
        for _ in range(4):
            behind[asyncio.get_running_loop().time()] = watching.behind
            await asyncio.sleep(3.0)

    played(play())
    assert behind == {1.0: True, 4.0: True, 7.0: True, 10.0: False}

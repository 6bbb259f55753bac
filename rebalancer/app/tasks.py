"""The parts of the service that run side by side, each as a task; the end of one is the end of all."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import structlog

log = structlog.get_logger()


async def end(*tasks: asyncio.Task[Any]) -> None:
    """Cancel them, and wait until all are over.

    Cancelled and left alone, a client of Kafka that comes up is cancelled again by the end of the loop, which cuts off
    its tidying: its connection stays open.
    """
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class Tasks:
    """`failed` resolves, with the reason, when a part ended that must not."""

    def __init__(self) -> None:
        self.failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._tasks: list[asyncio.Task[Any]] = []

    def spawn(self, name: str, work: Coroutine[Any, Any, Any]) -> None:
        """Run `work` until `stop`."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        task.add_done_callback(self._ended)
        self._tasks.append(task)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        if task.cancelled() or self.failed.done():
            return
        why = f"{task.get_name()} ended: {task.exception() or 'without an error'}"
        log.error("a part ended that must not", part=task.get_name(), exc_info=task.exception())
        self.failed.set_result(why)

    async def stop(self) -> None:
        """Cancel every part, the last one first, and wait until all have ended."""
        await end(*reversed(self._tasks))

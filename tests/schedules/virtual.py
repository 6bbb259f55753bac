"""One event loop for everybody, whose time jumps to whatever comes next; and processes in it that stop and die."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine, Mapping
from contextvars import Context, ContextVar, copy_context
from typing import Any, Final, TypeVar

from rebalancer.obs.effects import WATCH, When

A = TypeVar("A")
START: Final = 1_800_000_000.0
"""UTC when the loop's time is 0."""


class Killed(asyncio.CancelledError):
    """The process has ended: whatever of it still runs ends at the next thing that it would do outside of itself."""


class Host:
    """One process: whatever begins in a task of it is its own.

    `paused`: as by SIGSTOP; nothing of it goes on, its timers wait, and all that came meanwhile it finds later.
    `dies`: asked at each effect, before and after, whether the process ends there.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.paused = False
        self.dies: Callable[[str, When], bool] = lambda _name, _when: False
        self._held: list[_Step] = []
        self._root: asyncio.Task[None] | None = None

    def run(self, root: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Begin."""
        self._root = self.beside(root)
        return self._root

    def beside(self, part: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """A signal's handler, beside what runs."""
        context = copy_context()
        context.run(HOST.set, self)
        context.run(WATCH.set, self._passes)
        return asyncio.get_running_loop().create_task(part, context=context)

    def pause(self) -> None:
        """SIGSTOP."""
        self.paused = True

    def resume(self) -> None:
        """SIGCONT."""
        self.paused = False
        held, self._held = self._held, []
        for step in held:
            step.again()

    def hold(self, step: "_Step") -> None:
        """It goes on when the process does."""
        self._held.append(step)

    def kill(self) -> None:
        """SIGKILL: nothing leaves it from now on; what it sent is on its way."""
        self.alive = False
        self.resume()
        if self._root is not None:
            self._root.cancel()

    def must_live(self) -> None:
        """Raises Killed."""
        if not self.alive:
            raise Killed

    def _passes(self, name: str, _key: str, when: When) -> None:
        self.must_live()
        if self.dies(name, when):
            self.kill()
            raise Killed


HOST: Final[ContextVar[Host | None]] = ContextVar("host", default=None)


class _Step:
    """One call of the loop that belongs to a process."""

    __slots__ = ("_args", "_callback", "_context", "_host", "_loop", "handle")

    def __init__(
        self, loop: "VirtualLoop", host: Host, callback: Callable[..., object], args: tuple[Any, ...], context: Context
    ) -> None:
        self._loop, self._host, self._callback, self._args, self._context = loop, host, callback, args, context
        self.handle: asyncio.Handle | None = None

    def __call__(self) -> None:
        if self._host.paused:
            self._host.hold(self)
        elif self.handle is None or not self.handle.cancelled():  # held, it may be cancelled when it comes
            self._callback(*self._args)

    def again(self) -> None:
        """In the next turn of the loop."""
        self._loop.call_soon(self, context=self._context)


class _Jumps(selectors.SelectSelector):
    """Waits for nobody: its time is at once what it was to wait for."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("everybody waits for somebody else")
        self.now += max(0.0, timeout)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """No input, no output, no thread: whatever happens is due at an instant, and comes in the order of instants."""

    def __init__(self) -> None:
        self._jumps = _Jumps()
        self.failures: list[str] = []
        super().__init__(self._jumps)
        self.set_exception_handler(self._failed)

    def time(self) -> float:
        """Seconds since it was made."""
        return self._jumps.now

    def _failed(self, _loop: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, asyncio.CancelledError):
            self.failures.append(f"{context.get('message')}: {error!r}")

    def call_soon(  # type: ignore[override]  # typeshed's TypeVarTuple; any callback passes
        self,
        callback: Callable[..., object],
        *args: Any,  # noqa: ANN401  # the callback's own
        context: Context | None = None,
    ) -> asyncio.Handle:
        """As any loop, but for processes that are stopped."""
        context = copy_context() if context is None else context
        host = context.get(HOST)
        if host is None or isinstance(callback, _Step):
            return super().call_soon(callback, *args, context=context)
        step = _Step(self, host, callback, args, context)
        step.handle = super().call_soon(step, context=context)
        return step.handle

    def call_at(  # type: ignore[override]  # typeshed's TypeVarTuple; any callback passes
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,  # noqa: ANN401  # the callback's own
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """As any loop, but for processes that are stopped."""
        context = copy_context() if context is None else context
        host = context.get(HOST)
        if host is None:
            return super().call_at(when, callback, *args, context=context)
        step = _Step(self, host, callback, args, context)
        handle = super().call_at(when, step, context=context)
        step.handle = handle
        return handle

    def run_in_executor(self, executor: object, func: Callable[..., A], *args: object) -> asyncio.Future[A]:
        """At once: there is no thread, and what threads do takes no time."""
        done: asyncio.Future[A] = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:  # noqa: BLE001  # whoever awaits it gets it
            done.set_exception(error)
        return done

    def elsewhere(self, seconds: float, deed: Callable[[], object]) -> None:
        """In so many seconds `deed` happens in no process: on the network, in a server."""
        self.call_at(self.time() + seconds, deed, context=Context())


class MachineClock:
    """Implements `obs.clock.Clock`: of the machine under a process, whose UTC somebody may set."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.offset_seconds = 0.0
        self._loop = loop

    def now(self) -> float:
        """UTC epoch seconds."""
        return START + self._loop.time() + self.offset_seconds

    def monotonic(self) -> float:
        """Seconds that never step; they go by while a process is stopped."""
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(max(0.0, seconds))

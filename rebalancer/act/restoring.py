"""Gives objects back that we wrote to and that the policy in force does not name, until all of them are given back.

A model or a pool that leaves the policy, also while we were down, leaves bounds and limits of ours behind, and their
own controllers stand still between them. The watched objects are looked through every 2 s; an attempt that fails is
repeated, each time after twice as long, a minute at most. In shadow nothing is given back: a log line names it.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

import structlog

from rebalancer.act.driver import Refused
from rebalancer.act.events import Events
from rebalancer.act.hand_back import Ask, Restore, restorer, values_text, write_back
from rebalancer.act.led import Led
from rebalancer.act.originals import named
from rebalancer.act.permission import Permission
from rebalancer.act.port import Port
from rebalancer.domain.pinned import DEPARTED, HELD, OTHER, UNNAMED, Pinned
from rebalancer.kube.errors import NotFound
from rebalancer.kube.resources import HPAS, NODEPOOLS, SCALEDOBJECTS, Ref, Resource
from rebalancer.leader.right import Right
from rebalancer.obs.backoff import doubled
from rebalancer.obs.clock import Clock

LOOK_SECONDS: Final = 2.0
AGAIN_SECONDS: Final = 2.0
AT_MOST_SECONDS: Final = 60.0
AT_ONCE: Final = 8  # objects under way at a time

RESOURCES: Final[Mapping[str, Resource]] = {each.kind: each for each in (SCALEDOBJECTS, HPAS, NODEPOOLS)}
TOLD: Final = {
    HELD: "writeMode is shadow, so nothing moves it beyond the values of ours; `rebalancer hand-back` gives it back",
    DEPARTED: "writeMode is shadow, and the policy does not name it; `rebalancer hand-back` gives it back",
    UNNAMED: "it carries no installation's name; `rebalancer hand-back --unnamed` gives it back",
    OTHER: "another installation holds what our policy names: take it out of one of the two policies",
}

log = structlog.get_logger()


@dataclass(frozen=True)
class _Failed:
    times: int
    again_monotonic: float


class Restoring:
    """`run()` until it is cancelled. `pinned`: what the last look found.

    `find` says what carries values of ours by the policy in force *at that moment*: a new policy is in force before
    anything is given back, so that the gate refuses whatever a plan under the old one would still write there. What
    it wrote before meets the revision that is asked for with each write, here and there.
    """

    def __init__(  # noqa: PLR0913  # the parts it works with
        self,
        kube: Port,
        find: Callable[[], tuple[Pinned, ...]],
        clock: Clock,
        events: Events,
        right: Right,
        write_mode: Literal["shadow", "act"],
        installation: str,
        *,
        unnamed: bool = False,
    ) -> None:
        self.pinned: tuple[Pinned, ...] = ()
        self._kube = Led(kube, right)
        self._find = find
        self._clock = clock
        self._events = events
        self._permission = Permission(kube, clock, right)
        self._write_mode = write_mode
        self._installation = installation
        self._unnamed = unnamed
        self._failed: dict[tuple[str, str], _Failed] = {}
        self._logged: set[Pinned] = set()
        self._slots = asyncio.Semaphore(AT_ONCE)

    async def run(self) -> None:
        """Look and put right, for ever."""
        while True:
            await self.look()
            await self._clock.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Look once: put right what may be, tell the rest once per object."""
        self.pinned = self._find()
        ours = [each for each in self.pinned if self._is_to_do(each)]
        self._say(set(self.pinned) - set(ours))
        self._failed = {key: each for key, each in self._failed.items() if key in {_key(one) for one in ours}}
        now = self._clock.monotonic()
        due = [one for one in ours if _key(one) not in self._failed or self._failed[_key(one)].again_monotonic <= now]
        if due and await self._may_write():
            await asyncio.gather(*(self._put_right(each) for each in due))

    def _is_to_do(self, one: Pinned) -> bool:
        """Whether it is ours to write: to be given back, or taken over by name since the policy names it."""
        if self._write_mode != "act":
            return False
        if one.state == HELD:
            return one.by != self._installation
        return one.state == DEPARTED or (one.state == UNNAMED and self._unnamed)

    def _say(self, others: set[Pinned]) -> None:
        others = {each for each in others if each.state != HELD or self._write_mode == "shadow"}
        for each in sorted(others - self._logged):
            log.warning("still pinned", object=str(each), by=each.by, why=TOLD[each.state])
        self._logged = others

    async def _may_write(self) -> bool:
        """A write stop, or a WriteStop that cannot be ruled out: it waits for the end of that, and that is told."""
        try:
            await self._permission.ask()
        except Refused:
            return False
        return True

    async def _put_right(self, one: Pinned) -> None:
        ref = Ref(RESOURCES[one.kind], one.namespace or None, one.name)
        try:
            async with self._slots:
                body = await write_back(self._kube, ref, await self._kube.get(ref), self._patch(one), self._ask(one))
        except (NotFound, _NotNow):
            return
        except Exception as error:  # noqa: BLE001  # it is logged; an object that cannot be understood concerns itself alone
            self._again(one, ref, error)
            return
        self._failed.pop(_key(one), None)
        if body is not None and one.state != HELD:
            values = values_text(body)
            log.info("given back", object=str(one), restored=values)
            self._events.tell_given_back(ref, one.uid, f"the policy moves it no more: {values}", self._clock.now())

    def _patch(self, one: Pinned) -> Restore:
        if one.state == HELD:
            return lambda obj: named(obj, self._installation)
        return restorer(RESOURCES[one.kind], self._installation, unnamed=one.state == UNNAMED)

    def _ask(self, one: Pinned) -> Ask:
        async def ask() -> None:
            if not await self._may_write() or one not in self._find():
                raise _NotNow

        return ask

    def _again(self, one: Pinned, ref: Ref, error: Exception) -> None:
        times = self._failed[_key(one)].times if _key(one) in self._failed else 0
        wait_seconds = doubled(AGAIN_SECONDS, AT_MOST_SECONDS, times)
        self._failed[_key(one)] = _Failed(times + 1, self._clock.monotonic() + wait_seconds)
        log.warning("not given back", object=str(one), error=str(error), again_in_seconds=wait_seconds)
        self._events.tell_given_back(ref, one.uid, str(error), self._clock.now(), failed=True)


class _NotNow(Exception):
    """A write stop has come since it was found, or the policy names it again, or the object is another one."""


def _key(one: Pinned) -> tuple[str, str]:
    return one.uid, one.state

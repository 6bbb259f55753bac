"""Tells people what their Override does: `status` of the object, written when it changes."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

from rebalancer.act.port import Port
from rebalancer.domain.people import Override
from rebalancer.domain.plan import OverrideState
from rebalancer.kube.errors import KubeError
from rebalancer.kube.moment import written_as
from rebalancer.kube.resources import OVERRIDES, Object, Ref

AT_ONCE: Final = 8
MOST_CHARACTERS: Final = 1024  # of a message, by the CRD


class OverrideStatus:
    """Remembers what it told, and at which revision: while the watch shows that one it has not shown the answer."""

    def __init__(self, kube: Port) -> None:
        self._kube = kube
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._answered: dict[str, tuple[str, OverrideState]] = {}  # by UID of the override

    async def tell(self, states: Iterable[OverrideState], seen: Iterable[Override], now: float) -> None:
        """Patch the status of each override whose state is not what it shows. What fails is told again next time."""
        shown = {override.uid: override for override in seen}
        due = [(state, shown[state.uid].resource_version) for state in states if self._news(state, shown)]
        self._answered = {uid: answer for uid, answer in self._answered.items() if uid in shown}
        await asyncio.gather(*(self._patch(state, version, now) for state, version in due))

    def _news(self, state: OverrideState, shown: Mapping[str, Override]) -> bool:
        override = shown.get(state.uid)
        if override is None or self._answered.get(state.uid) == (override.resource_version, state):
            return False
        return (override.phase, override.message) != (state.phase, state.message[:MOST_CHARACTERS])

    async def _patch(self, state: OverrideState, version: str, now: float) -> None:
        """At the revision seen: an override made again under the same name has a state of its own.

        (A uid in the body would be no precondition: the API server takes no metadata in a status patch.)
        """
        ref = Ref(OVERRIDES, state.namespace, state.name)
        message = state.message[:MOST_CHARACTERS]
        status: Object = {"phase": state.phase, "message": message, "observedAt": written_as(now)}
        try:
            async with self._slots:
                await self._kube.patch_status(ref, {"status": status}, resource_version=version)
        except KubeError:
            return  # gone or changed meanwhile: the next cycle tells it
        self._answered[state.uid] = version, state

"""Three outages, each played once: what happened when, for tests to look into."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import cache

from msgspec import Struct

from rebalancer.domain.policy import Policy
from rebalancer.kube.errors import KubeError
from rebalancer.sandbox.demo_cluster import demo_policy
from tests.outages.stage import Stage

HOUR = 3600
TEN_MINUTES = 600
PATIENT = 5  # seconds at a step where nothing is to happen; a leader renews within 7


class Play(Struct):
    """What is left of it. Instants: of the cut, of its end, and of the play's end.

    refused_people: what kubectl answered to whoever wanted to decide while the API server was away.
    waited: what a start waited for when the link came back; None: for nothing.
    """

    stage: Stage
    cut: float
    back: float
    end: float
    refused_people: str = ""
    waited: str | None = None


async def _lend(stage: Stage) -> float:
    """Chat has borrowed four of code's five replicas when the link is cut; the instant."""
    stage.users("chat", 4)
    await stage.live(60)
    stage.users("chat", 0.2)  # and from now on it is code that needs them
    stage.users("code", 4)
    await stage.live(6)  # which is hardly seen
    return stage.clock.now()


async def _kafka(policy: Policy) -> Play:
    async with Stage(policy) as stage:
        cut = await _lend(stage)
        async with stage.without_kafka():
            await stage.live(300, step=2)
            stage.door.kubectl("cap", "chat", 5, seconds=1200)
            stage.door.kubectl("floor", "code", 5, seconds=900)
            await stage.live(300, step=2)
            stage.sign("pin", "code", 5, seconds=3600)
            stage.tell("a100-2", 120)
            await stage.live(1200, step=PATIENT)  # the cap is over
            stage.door.kubectl("pin", "chat", 4, seconds=600)
            await stage.live(120, step=2)
            await stage.live(1560, step=PATIENT)
            stage.sign("floor", "image", 3, seconds=900)
            stage.tell(stage.spot_node, 300)
            await stage.live(120, step=2)
        back = stage.clock.now()
        await stage.live(120)
        stage.users("code", 12)
        await stage.live(120)
        return Play(stage, cut, back, stage.clock.now())


async def _api_server(policy: Policy) -> Play:
    async with Stage(policy) as stage:
        cut = await _lend(stage)
        async with stage.without_api_server():
            await stage.live(60)
            stage.sign("floor", "image", 3, seconds=900)
            stage.tell(stage.spot_node, 900)
            said = _kubectl(stage)
            await stage.live(TEN_MINUTES - 60, step=2)
        back = stage.clock.now()
        await stage.live(240)
        return Play(stage, cut, back, stage.clock.now(), said)


async def _both(policy: Policy) -> Play:
    async with Stage(policy) as stage:
        cut = await _lend(stage)
        async with stage.without_kafka():
            await stage.live(300, step=2)
            async with stage.without_api_server():
                said = _kubectl(stage)
                await stage.live(TEN_MINUTES, step=2)
            stage.door.kubectl("cap", "chat", 5, seconds=1200)
            await stage.live(HOUR - 300 - TEN_MINUTES, step=PATIENT)
        back, waited = stage.clock.now(), stage.waits
        await stage.live(240)
        return Play(stage, cut, back, stage.clock.now(), said, waited)


def _kubectl(stage: Stage) -> str:
    try:
        stage.door.kubectl("cap", "chat", 5, seconds=1200)
    except KubeError as error:
        return str(error)
    return ""


PLAYS: dict[str, Callable[[Policy], Awaitable[Play]]] = {"kafka": _kafka, "api": _api_server, "both": _both}


@cache
def played(name: str) -> Play:
    """The outage of that name."""
    policy = demo_policy()  # a file, which the event loop does not wait for

    async def play() -> Play:
        return await PLAYS[name](policy)

    return asyncio.run(play())

"""Beyond the catalogue: what else the link to the broker can do to a client, each for some seconds."""

import time
from collections.abc import Callable

from tests.faults import wire
from tests.faults.row import Deed, Group, Row
from tests.faults.scene import Scene

_SECONDS = 6.0
_ASKS_ANEW_SECONDS = 2.0


def _for_a_while(meddle: wire.Meddle) -> Deed:
    async def deed(scene: Scene) -> None:
        async with scene.wire.meddling(meddle):
            await scene.silent(_SECONDS)

    return deed


def _to_answers(api: int, made: Callable[[Scene], wire.Meddle]) -> Deed:
    """The fault befalls the answers of one API, of which some come meanwhile."""

    async def deed(scene: Scene) -> None:
        async with scene.wire.meddling(made(scene)):
            before, until = scene.wire.answers[api], time.monotonic() + _SECONDS
            while time.monotonic() < until:
                if api == wire.METADATA:  # asked for anew each 30 s alone, but for connections that are lost
                    scene.wire.cut()
                await scene.silent(_ASKS_ANEW_SECONDS)
            assert scene.wire.answers[api] > before, "no answer met the fault"

    return deed


def _wrong(api: int) -> Deed:
    return _to_answers(api, lambda scene: wire.spoiled(api, scene.chance))


def _cut(api: int) -> Deed:
    return _to_answers(api, lambda _: wire.only(api, wire.truncate))


def _late(api: int) -> Deed:
    return _to_answers(api, lambda _: wire.reordered(api))


def _lost(api: int) -> Deed:
    return _to_answers(api, lambda _: wire.only(api, wire.silence))


_HOLDS = "I4 I5 I7 I11"
_ANY = "one byte of each, by the seed"
_ANEW = "connections are lost every 2 s, so that it is asked"
_BEHIND = "each behind the next answer of any kind, on its connection"

LINKS = Group(
    "links",
    "Beyond the catalogue: the link to Kafka",
    (
        Row("W01", "each frame half a second late", _HOLDS, _for_a_while(wire.slowly(0.5))),
        Row("W02", "connections reset", _HOLDS, _for_a_while(wire.reset)),
        Row("W03", "answers cut in their middle", _HOLDS, _for_a_while(wire.truncate)),
        Row("W04", "wrong bytes in answers to Fetch", _HOLDS, _for_a_while(wire.spoiled(wire.FETCH))),
        Row("W05", "answers in another order", _HOLDS, _for_a_while(wire.reordered())),
        Row("W06", "black hole", _HOLDS, _for_a_while(wire.silence)),
        Row("W07", "wrong bytes in answers to Produce", _HOLDS, _wrong(wire.PRODUCE), _ANY),
        Row("W08", "wrong bytes in answers to Metadata", _HOLDS, _wrong(wire.METADATA), f"{_ANY}; {_ANEW}"),
        Row("W09", "answers to Produce cut in their middle", _HOLDS, _cut(wire.PRODUCE)),
        Row("W10", "answers to Metadata cut in their middle", _HOLDS, _cut(wire.METADATA), _ANEW),
        Row("W11", "answers to Produce behind later ones", _HOLDS, _late(wire.PRODUCE), _BEHIND),
        Row("W12", "answers to Metadata behind later ones", _HOLDS, _late(wire.METADATA), f"{_BEHIND}; {_ANEW}"),
        Row("W13", "no answer to Produce arrives", _HOLDS, _lost(wire.PRODUCE), "what was sent is stored"),
        Row("W14", "no answer to Metadata arrives", _HOLDS, _lost(wire.METADATA), _ANEW),
    ),
)

"""Beyond the catalogue: what else the link to the broker can do to a client, each for some seconds."""

from tests.faults import wire
from tests.faults.row import Deed, Group, Row
from tests.faults.scene import Scene

_SECONDS = 6.0


def _for_a_while(meddle: wire.Meddle) -> Deed:
    async def deed(scene: Scene) -> None:
        async with scene.wire.meddling(meddle):
            await scene.silent(_SECONDS)

    return deed


_HOLDS = "I4 I5 I7 I11"

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
    ),
)

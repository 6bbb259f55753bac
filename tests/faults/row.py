"""One row of the catalogue: a fault, how it is injected, what must hold; and how a row is played."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random

from tests.faults.evidence import Evidence, Span
from tests.faults.gathering import begin, gather, looked_at
from tests.faults.invariants import Broken, judged
from tests.faults.scene import Scene
from tests.testbed.kube import NotYet

Deed = Callable[[Scene], Awaitable[None]]

QUIET_SECONDS = 5.0


class Unfit(AssertionError):
    """The scene did not come to rest: whatever is played on it next would say nothing."""


@dataclass(frozen=True)
class Row:
    """A row of reliability.md, section 7, under its id there.

    fault: what goes wrong, in a few words.
    holds: what must hold, as invariants and in words.
    deed: injects the fault while GPUs change hands, lets it last and ends it; None where this suite plays it not.
    as_played: where the play differs from the catalogue's words, and how.
    elsewhere: tests that inject it on other parts, as FILE::NAME below `tests/`.
    cannot: why it cannot be run on one machine without containers.
    fast: whether `make test` plays it.
    turns: whether the tide turns before it; else the deed sees to that.
    """

    id: str
    fault: str
    holds: str
    deed: Deed | None = None
    as_played: str = ""
    elsewhere: tuple[str, ...] = ()
    cannot: str = ""
    fast: bool = False
    turns: bool = True

    @property
    def state(self) -> str:
        """played, elsewhere, cannot, or not built yet."""
        if self.deed is not None:
            return "played"
        if self.elsewhere:
            return "elsewhere"
        return "cannot" if self.cannot else "not built yet"


@dataclass(frozen=True)
class Group:
    """Rows of one table of the catalogue. `name` is what `-k` looks for, `title` what the page says."""

    name: str
    title: str
    rows: tuple[Row, ...]


def chance(row: Row, seed: int) -> Random:
    """What a seed draws for a row: the moment of the fault, and whatever else is left to chance."""
    return Random(f"{row.id}-{seed}")


async def play(row: Row, scene: Scene, seed: int) -> dict[str, Broken]:
    """Turn the tide, inject the fault, wait for rest; what broke, by invariant. Raises what the row itself expects."""
    assert row.deed is not None
    scene.chance = chance(row, seed)
    await begin(scene)
    async with looked_at(scene) as evidence:
        pid = scene.service.pid
        if row.turns:
            await scene.turns()
        try:
            await row.deed(scene)
        finally:
            scene.door.heal()
            scene.wire.meddle = None
        if scene.service.pid != pid and evidence.kills == 0:
            evidence.ended_by_itself += 1
        await _come_to_rest(scene, evidence)
    await gather(scene)
    evidence.span = Span(evidence.span.since, time.time())
    return judged(evidence)


def told(evidence: Evidence) -> str:
    """All writes to numbers, for whoever looks into what broke."""
    scaled = [write for write in evidence.writes if write.subresource == "scale"]
    return "\n".join(
        f"{write.received - evidence.span.since:7.2f} {write.name:5} {write.request.get('spec')} stored"
        f" {write.response.get('spec')} {write.code} {write.user.rpartition(':')[2]}"
        for write in scaled
    )


async def _come_to_rest(scene: Scene, evidence: Evidence) -> None:
    try:
        await scene.hears()
        evidence.quiet_since = await scene.rests()
        await scene.service.wait_ready(30.0)
    except NotYet as late:
        await gather(scene)
        raise Unfit(f"{late}; now {await scene.replicas()}\n{told(evidence)}") from late
    await scene.silent(QUIET_SECONDS)
    if await scene.replicas() != scene.desired:
        raise Unfit(f"it did not stay: {await scene.replicas()}, desired is {scene.desired}")

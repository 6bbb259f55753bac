"""`--watch`: the same answer again and again, redrawn on a terminal, a line of JSON per change in a pipe."""

import asyncio
import sys
from collections.abc import Callable

import msgspec
import typer

from rebalancer.api.text.words import span
from rebalancer.cli.failure import UNREACHABLE, CannotSay, Failed
from rebalancer.cli.remote.client import Api, open_api
from rebalancer.cli.remote.where import Where
from rebalancer.cli.terminal.output import Output
from rebalancer.cli.terminal.paint import painted
from rebalancer.loop.clock import RealClock

PERIOD_SECONDS = 2.0
CLEAR = "\x1b[H\x1b[2J\x1b[3J"

Draw = Callable[[tuple[bytes, ...]], str]


def watch(where: Where, paths: tuple[str, ...], output: Output, draw: Draw) -> None:
    """Show the answers at `paths` each 2 s until interrupted; the first of them is what a pipe gets.

    Raises Failed when the service is not there, or cannot say, at the start; later it says so and tries again.
    """
    asyncio.run(_watch(where, paths, output, draw))


async def _watch(where: Where, paths: tuple[str, ...], output: Output, draw: Draw) -> None:
    clock, last = RealClock(), b""
    drawn = sys.stdout.isatty() and output.for_people
    async with open_api(where) as api:
        bodies, answered_at, trouble = await _bodies(api, paths), clock.monotonic(), ""
        while True:
            if drawn:
                typer.echo(CLEAR + painted(_picture(draw(bodies), trouble, clock.monotonic() - answered_at)))
            elif trouble:
                typer.echo(trouble, err=True)
            elif bodies[0] != last:
                last = bodies[0]
                typer.echo(msgspec.json.format(last, indent=-1).decode())
            await clock.sleep(PERIOD_SECONDS)
            try:
                bodies, answered_at, trouble = await _bodies(api, paths), clock.monotonic(), ""
            except Failed as failed:  # nobody answers, or the service cannot say: what was last said stays
                if failed.code != UNREACHABLE and not isinstance(failed, CannotSay):
                    raise
                trouble = f"{failed}; trying again"


def _picture(table: str, trouble: str, age_seconds: float) -> str:
    """What was last said; while nobody says anything newer, how old it is above it, and why below it."""
    return f"NOT LIVE: {span(age_seconds)} old\n{table}\n{trouble}" if trouble else table


async def _bodies(api: Api, paths: tuple[str, ...]) -> tuple[bytes, ...]:
    return tuple([await api.get(path) for path in paths])

"""Every play of `protocol`, shortest first: `python -m tests.leader.plays --troubles 2 --ticks 5 --wishes 3`."""

import argparse
import sys
from collections import deque
from typing import NamedTuple

from rebalancer.leader.candidate import UNKNOWN
from tests.leader.protocol import BUDGET, FLOORS, Rules, World, first_world, least, steps


class Extent(NamedTuple):
    """How much of the adversary is looked at: faults, ticks, and writes that leaders wish for."""

    troubles: int
    ticks: int
    wishes: int


class Verdict(NamedTuple):
    """How many worlds were seen, what broke first ("": nothing), and the shortest way there."""

    worlds: int
    broken: str
    way: tuple[str, ...] = ()


def explore(rules: Rules, extent: Extent, only: str = "") -> Verdict:
    """Each world that can come about is seen once. `only`: the one thing whose break ends it; "": any does."""
    first = first_world(extent.troubles, extent.wishes)
    came: dict[World, tuple[World | None, str]] = {first: (None, "")}
    waiting = deque([first])
    while waiting:
        world = waiting.popleft()
        for what, after in steps(world, rules, extent.ticks):
            if after in came:
                continue
            came[after] = (world, what)
            broken = judged(after)
            if broken and only in {"", broken}:
                return Verdict(len(came), broken, _way(came, after))
            waiting.append(after)
    return Verdict(len(came), "")


def judged(world: World) -> str:
    """What is broken in this world, "" where all holds."""
    for targets, floor in FLOORS:
        if sum(world.targets[each].replicas for each in targets) < floor:
            return "floor"
    if sum(target.replicas for target in world.targets) + world.ending > BUDGET:
        return "budget"
    if sum(replica.candidate.may_act(world.at) for replica in world.replicas) > 1:
        return "two lead"
    if _forgets_a_release(world):
        return "release forgotten"
    return "" if _terms_rise(world) else "term"


def _terms_rise(world: World) -> bool:
    """Whether who holds the Lease has a higher number than all before."""
    lease = world.lease
    if lease is None or lease.holder in {"", UNKNOWN}:
        return True
    return (lease.epoch, lease.holder) == world.latest


def _forgets_a_release(world: World) -> bool:
    """Whether a release may still be written that somebody who may write now does not count."""
    for request in world.requests:
        target = world.targets[request.target]
        if request.replicas >= target.replicas or request.revision != target.revision:
            continue
        for replica in world.replicas:
            acts = replica.inherited and replica.candidate.may_act(world.at)
            if acts and least(replica, request.target) > request.replicas:
                return True
    return False


def _way(came: dict[World, tuple[World | None, str]], last: World) -> tuple[str, ...]:
    way: list[str] = []
    world: World | None = last
    while world is not None:
        world, what = came[world]
        way.append(what)
    return tuple(reversed(way[:-1]))


def main() -> None:
    """Print what was seen."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in zip(Extent._fields, (2, 4, 2), strict=True):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--late", type=int, default=0, help="ticks that a write arrives after its leader gave it up")
    args = parser.parse_args()
    verdict = explore(Rules(late_ticks=args.late), Extent(args.troubles, args.ticks, args.wishes))
    sys.stdout.write(f"{verdict.worlds:,} worlds: {verdict.broken or 'nothing'} broken\n")
    for what in verdict.way:
        sys.stdout.write(f"  {what}\n")


if __name__ == "__main__":
    main()

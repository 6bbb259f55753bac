"""Storms of notices beside Karpenter alone: the same nodes go on both sides at the same instants of one run.

`python -m pytest -s -m proof tests/real/test_storms_beside_karpenter.py` prints the page of results.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field

import pytest

from tests.machine.page import commit_now
from tests.real.karpenter_sides import LOAD_SECONDS, Side
from tests.real.occupancy import failed, scaled
from tests.real.policies import model, policy, pool
from tests.real.service import Service
from tests.real.storms import ANSWERED_EDGES, SPARE_EDGES, accounts_of, histogram, instant, told
from tests.real.traffic import Traffic
from tests.testbed.karpenter import INSTANCE_TYPES, Karpenter
from tests.testbed.kube import Kube

WANTED = {"chat": 12, "code": 8}
REPLICAS = sum(WANTED.values())
GIVING = {"chat": 12, "code": 2}  # floors: code, of lower priority, may have to give what it needs
# Less than a load, a grace of 30 s and a minute: it counts at once, as two minutes do where loads take longer.
NOTICE_SECONDS = 100.0
KARPENTER_SECONDS = 1.7  # from a warning to Karpenter's first eviction, as in docs/notices.md
ANSWERED_WITHIN_SECONDS = 2.0
AFTER_SECONDS = 20.0  # how long we look on when the last node has gone


@dataclass(frozen=True)
class Storm:
    """`doomed` nodes by model, told one after another `within` so many seconds; they go `early` by so many.

    `floors` by model: else as many as there are. `budgets`: PodDisruptionBudgets on each pod, which let one replica of
    a model go at a time. `sold_out`: the cloud has no node any more.
    """

    name: str
    doomed: Mapping[str, int]
    floors: Mapping[str, int] = field(default_factory=lambda: WANTED)
    within: float = 0.0
    early: float = 0.0
    budgets: int = 0
    sold_out: bool = False


HALF = {"chat": 6, "code": 4}
STORMS = [
    Storm("one notice", {"chat": 1}),
    Storm("ten at once", HALF),
    Storm("half of all nodes in 10 s", HALF, within=10.0),
    Storm("half in 10 s, a budget on each pod", HALF, within=10.0, budgets=1),
    Storm("half in 10 s, two budgets on each pod, gone 30 s early", HALF, within=10.0, early=30.0, budgets=2),
    Storm("one notice, code may have to give", {"chat": 1}, floors=GIVING),
    Storm("six of chat and no node to be had, code may have to give", {"chat": 6}, floors=GIVING, sold_out=True),
]


@dataclass
class Tally:
    """What all storms of this run came to."""

    rows: list[str] = field(default_factory=list)
    notices: int = 0
    answered: list[float] = field(default_factory=list)
    spare: list[float] = field(default_factory=list)

    def page(self) -> str:
        """For people."""
        day = time.strftime("%d %B %Y, %H:%M UTC", time.gmtime())
        return "\n".join(
            [
                f"commit {commit_now()}, {day}",
                "| storm | replicas short x seconds | Karpenter alone | least served | whole after | answered |",
                "| --- | ---: | ---: | --- | --- | ---: |",
                *self.rows,
                f"notice sent to first call: {histogram(self.answered, ANSWERED_EDGES)}; notices: {self.notices}",
                f"seconds to spare: {histogram(self.spare, SPARE_EDGES)}",
            ]
        )


@pytest.fixture(scope="module")
def tally() -> Iterator[Tally]:
    tally = Tally()
    yield tally
    print(tally.page())


@pytest.fixture
async def sides(kube: Kube, karpenter: Karpenter, namespace: str, ours: dict[str, str]) -> AsyncIterator[list[Side]]:
    """Ours first: its namespace is the test's own. Nodes of both go with the test."""
    other = f"{namespace}-alone"
    await kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": other}})
    yield [Side(kube, name, ours | {"side": name}, WANTED) for name in (namespace, other)]
    await kube.delete("Namespace", other)


@dataclass
class Course:
    """A storm as it goes: what is due is done, and who serves is looked at, at every turn."""

    storm: Storm
    sides: list[Side]
    traffic: Traffic
    doomed: list[list[str]]  # by side
    began: float = field(default_factory=time.time)
    sent: dict[str, float] = field(default_factory=dict)  # ours
    done: set[tuple[str, str]] = field(default_factory=set)

    @property
    def ends(self) -> float:
        """When the last node goes."""
        return self.began + self.storm.within + NOTICE_SECONDS - self.storm.early

    async def turn(self) -> bool:
        """Whether it is over: both sides have what they had, and nothing is still to come."""
        for number in range(len(self.doomed[0])):
            at = self.began + self.storm.within * number / len(self.doomed[0])
            await self._due(number, at)
        await asyncio.gather(*(side.look() for side in self.sides))
        over = time.time() > self.ends + AFTER_SECONDS
        gone = [await self._gone(side, nodes) for side, nodes in zip(self.sides, self.doomed, strict=True)]
        return over or (all(gone) and all(side.whole_at is not None for side in self.sides))

    async def _due(self, number: int, at: float) -> None:
        """Of one node on either side."""
        ours = self.doomed[0][number]
        if self._first("told", ours, at):
            self.sent[ours] = time.time()
            await told(self.traffic, ours, at + NOTICE_SECONDS)
        for side, nodes in zip(self.sides, self.doomed, strict=True):
            if self._first("interrupted", nodes[number], at + KARPENTER_SECONDS):
                await side.interrupted(nodes[number])
            if self._first("ended", nodes[number], at + NOTICE_SECONDS - self.storm.early):
                await side.end(nodes[number])

    def _first(self, what: str, node: str, at: float) -> bool:
        """Whether it is time for it, for the first time."""
        if time.time() < at or (what, node) in self.done:
            return False
        self.done.add((what, node))
        return True

    async def _gone(self, side: Side, nodes: list[str]) -> bool:
        there = {node["metadata"]["name"] for node in await side.kube.items("Node")}
        return not there & {*nodes}


@pytest.mark.proof
@pytest.mark.timeout(900, func_only=True)
@pytest.mark.parametrize("storm", STORMS, ids=lambda storm: storm.name.replace(" ", "-"))
async def test_in_a_storm_no_more_replicas_are_short_than_with_karpenter_alone(
    storm: Storm, sides: list[Side], service: Service, traffic: Traffic, kube: Kube, karpenter: Karpenter, tally: Tally
) -> None:
    """Both sides have the same nodes, models, budgets and Karpenter; only one has the service."""
    with_us, alone = sides
    for side in sides:
        await side.set_up(2 * REPLICAS, storm.budgets)
    for side in sides:
        await side.settled()
    await _serve(service, traffic, with_us, storm.floors)
    if storm.sold_out:
        await asyncio.to_thread(karpenter.offer, [])
        await asyncio.to_thread(karpenter.process.restart)
    course = Course(storm, sides, traffic, [side.nodes_of(storm.doomed) for side in sides])
    try:
        await kube.wait_for(course.turn, "the end of the storm", NOTICE_SECONDS + 120)
    finally:
        if storm.sold_out:
            await asyncio.to_thread(karpenter.offer, INSTANCE_TYPES)
            await asyncio.to_thread(karpenter.process.restart)

    accounts = await accounts_of(service, course.doomed[0])
    acted = {node: at for node, account in accounts.items() if (at := instant(account, "actedAt")) is not None}
    answered = [at - course.sent[node] for node, at in acted.items()]
    drained = [(instant(account, "drainedAt"), instant(account, "deadline")) for account in accounts.values()]
    spare = [until - at for at, until in drained if at is not None and until is not None]
    tally.notices += len(accounts)
    tally.answered += answered
    tally.spare += spare
    writes = await service.writes(kube)
    print(f"\n{storm.name}")
    for name in WANTED:
        print(name, [(round(at - course.began, 2), replicas) for at, replicas in scaled(writes, name)])
    print("answered", histogram(answered, ANSWERED_EDGES), "spare", histogram(spare, SPARE_EDGES))
    tally.rows.append(_row(course, len(answered)))
    print(tally.rows[-1])
    assert failed(writes) == []
    for name, floor in storm.floors.items():
        assert min((replicas for _, replicas in scaled(writes, name)), default=floor) >= floor, "never under its floor"
    # Each side's Karpenter launches for itself, a batch of two seconds sooner or later: of a tenth nothing is said.
    assert with_us.short_seconds["chat"] <= 1.1 * alone.short_seconds["chat"]
    assert answered, "some are asked for before Karpenter evicts"
    assert max(answered) <= ANSWERED_WITHIN_SECONDS
    if storm.within == 0.0 and not storm.sold_out:
        assert len(answered) == len(accounts)


async def _serve(service: Service, traffic: Traffic, side: Side, floors: Mapping[str, int]) -> None:
    """The service for one side, once it has made a plan."""
    gpus = pool("gpus", dict(side.labels), 2 * REPLICAS, capacityType="spot", nodePools=[side.name], gpusPerNode=1)
    models = [
        model(name, side.name, floors[name], wanted, 2 * wanted, priority=priority, loadSeconds=LOAD_SECONDS)
        for (name, wanted), priority in zip(WANTED.items(), (100, 10), strict=True)
    ]
    await service.policy(policy([gpus], models))
    await asyncio.gather(*(traffic.past(name, running=9.6 * wanted) for name, wanted in WANTED.items()))
    await service.start()


def _row(course: Course, answered: int) -> str:
    def cell(side: Side) -> str:
        return " + ".join(f"{side.short_seconds[name]:.0f}" for name in WANTED)

    def whole(side: Side) -> str:
        return "not" if side.whole_at is None else f"{side.whole_at - course.began:.0f} s"

    ours, alone = course.sides
    least = "; ".join(", ".join(f"{side.least[name]} of {WANTED[name]}" for name in WANTED) for side in course.sides)
    of = f"{answered} of {len(course.doomed[0])}"
    return f"| {course.storm.name} | {cell(ours)} | {cell(alone)} | {least} | {whole(ours)}; {whole(alone)} | {of} |"

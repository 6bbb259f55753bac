"""The cluster, its API server, its brokers, and two seats on which replicas of the service run."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Final

from rebalancer.domain.cluster import ClusterObject
from rebalancer.domain.outcome import Intent
from rebalancer.domain.policy import Policy
from rebalancer.kube.resources import EVENTS, OVERRIDES, Call
from rebalancer.leader.watchdog import GRACE_SECONDS
from rebalancer.planning.overrides.rulings import IN_FORCE
from rebalancer.world import Deployment, WorldNode, WorldPod
from rebalancer.world.values import value
from tests.machine.judged import JudgedPort
from tests.machine.oracle import Oracle
from tests.machine.scene import Scene
from tests.machine.verdicts import Verdict
from tests.machine.worlds import WorldSpec, policy_of
from tests.schedules.api import ApiServer, ApiWay
from tests.schedules.judge import Fail, Terms, View
from tests.schedules.kafka import KafkaWay, Logs
from tests.schedules.links import ApiLink, KafkaLink
from tests.schedules.replica import Disk, NoDisk, Replica
from tests.schedules.told import Told
from tests.schedules.virtual import START, Host, MachineClock, VirtualLoop
from tests.schedules.watching import Watching

TICK_SECONDS: Final = 1.0
ROUNDING_SECONDS: Final = 1e-6  # of sums of instants: nothing happens within it
RESTART_SECONDS: Final = 3.0
NAMES: Final = ("a", "b")


class Port(JudgedPort):
    """The judged API as one seat's writes meet it. `wrote` is told of each number that it changes."""

    def __init__(self, stage: "Stage", view: View, wrote: Callable[[str], None]) -> None:
        super().__init__(stage.world, view, stage.refuse)
        self._view, self._wrote = view, wrote

    def _tell(
        self, owner: Deployment, before: int, after: int, taken: list[WorldPod], given_away: list[WorldPod]
    ) -> None:
        super()._tell(owner, before, after, taken, given_away)
        for other in self._view.others:
            other.ended(pod.uid for pod in taken)
        self._wrote(f"{owner.ref.name} {before} -> {after}")


class Seat:
    """A node with its links, and the process that runs there now; `lives` counts them."""

    def __init__(self, stage: "Stage", name: str) -> None:
        self.name, self._stage = name, stage
        self.clock = MachineClock(stage.loop)
        self.api, self.kafka = ApiLink(), KafkaLink()
        self.view = View(stage.world, stage.policy, {model.name: model.level for model in stage.spec.models})
        self.port = Port(stage, self.view, lambda what: stage.trace(f"{name} {what}"))
        self.journal = Disk() if stage.keeps_journals else NoDisk()
        self.lives = 0
        self._newer = False
        self.host: Host | None = None
        self.replica: Replica | None = None
        self.watching: Watching | None = None
        self.way: KafkaWay | None = None

    def start(self) -> None:
        """A process comes up, unless one runs."""
        if self.host is not None and self.host.alive:
            return
        stage = self._stage
        self.lives += 1
        name = f"{self.name}{self.lives}"
        self.host = host = Host(name)
        self.watching = Watching(stage.world, stage.server, self.api, self._seen)
        self.way = KafkaWay(stage.logs, self.kafka, host, stage.loop)
        api = ApiWay(stage.server, self.port, self.api, host, stage.loop, self._sends)
        self.replica = Replica(
            name,
            stage.policy,
            self.clock,
            api,
            self.way,
            self.watching,
            partial(stage.failed, name),
            self._intends,
            self.journal,
        )
        stage.trace(f"{name} starts")
        host.run(self.replica.run()).add_done_callback(lambda _task: self._ended(host))

    def _ended(self, host: Host) -> None:
        host.alive = False
        self._stage.trace(f"{host.name} ends")
        if not self._stage.over:
            self._stage.loop.elsewhere(RESTART_SECONDS, self.start)

    def kill(self) -> None:
        """SIGKILL."""
        if self.host is not None:
            self.host.kill()

    def lose_journal(self) -> None:
        """What the process wrote here is gone."""
        if isinstance(self.journal, Disk):
            self.journal.lose()

    def heal(self) -> None:
        """Its links are whole, its process goes on, its clock is right."""
        self.api.heal()
        self.kafka.heal()
        self.clock.offset_seconds = 0.0
        self.reach_kafka()
        if self.host is not None:
            self.host.dies = lambda _name, _when: False
            self.host.resume()

    def reach_kafka(self) -> None:
        """The brokers answer it again."""
        self.kafka.away = False
        if self.way is not None:
            self.way.back()
        self.hear()

    def hear(self) -> None:
        """There may be records."""
        if self.replica is not None:
            self.replica.news.set()

    def acts(self) -> bool:
        """Whether its process may write at this moment."""
        return self.host is not None and self.host.alive and self.replica is not None and self.replica.acts()

    def is_up(self) -> bool:
        """Whether its process has read its past and follows what happens."""
        alive = self.host is not None and self.host.alive
        return alive and self.replica is not None and self.replica.runner is not None

    def _seen(self) -> None:
        """All that there is was heard; while a plan is written the view waits for the next intent."""
        replica = self.replica
        self._newer = replica is not None and replica.runner is not None and replica.ports.busy
        if not self._newer:
            self._look()

    def _look(self) -> None:
        self.view.clock_is_wrong = self.clock.offset_seconds != 0.0
        self.view.saw_more = False
        self.view.look()

    def _intends(self, intent: Intent) -> None:
        """The gate has just checked a change."""
        if self._newer:
            self._newer = False
            self._look()
            self.view.saw_more = self._stage.befell
        self._stage.terms.intends(f"{self.name}{self.lives}", intent)

    def _sends(self, call: Call) -> AbstractContextManager[None]:
        stage, replica = self._stage, self.replica
        assert replica is not None
        name, epoch = replica.leadership.instance, replica.leadership.epoch or 0
        stage.terms.sent(name, call, replica.leadership.why_not())
        if call.resource not in {EVENTS, OVERRIDES}:
            stopped_at = min((stop.created_at for stop in stage.server.stops.values()), default=None)
            stage.terms.stopped(name, call, None if stopped_at is None else START + stage.loop.time() - stopped_at)
        return self._arriving(name, call, epoch, stage.world.now)

    @contextmanager
    def _arriving(self, name: str, call: Call, epoch: int, sent_at: float) -> Iterator[None]:
        """While the server answers a write that left at `sent_at`."""
        self.view.sent_at = sent_at
        try:
            yield
        finally:
            self.view.sent_at = None
        self._stage.terms.taken(name, call, epoch, self._stage.loop.time())

    def tick(self, told: list[Told]) -> None:
        """A second has gone by."""
        if self.host is None or not self.host.alive or self.watching is None:
            return
        self.watching.tell(told)
        self.view.behind = self.watching.behind
        elector = self.replica.elector if self.replica is not None else None
        if elector is not None and not self.host.paused and elector.ended_seconds() >= GRACE_SECONDS + TICK_SECONDS:
            self._stage.trace(f"{self.host.name} is ended by its watchdog")
            self.kill()


class Stage(Scene):
    """Call `start()`, then `live` from instant to instant. Instants are seconds of the loop.

    `wide`: whether a process finds the journal of the one before it on its node, and pools are drained by us.
    """

    def __init__(self, spec: WorldSpec, loop: VirtualLoop, *, wide: bool = False) -> None:
        super().__init__(spec)
        self.loop, self.keeps_journals = loop, wide
        self.policy = drained(policy_of(spec)) if wide else policy_of(spec)
        self.lines: list[str] = []
        self.met: Counter[str] = Counter()
        self.over = False
        self.befell = False  # since the last tick, so that nobody has heard of it
        self.fail = Fail(self.world)
        self.terms = Terms(self.fail)
        self.server, self.logs = ApiServer(lambda: START + loop.time()), Logs(loop)
        self.seats = [Seat(self, name) for name in NAMES]
        self.oracle: View = View(self.world, self.policy, {model.name: model.level for model in spec.models})
        a, b = (seat.view for seat in self.seats)
        a.others, b.others = [b], [a]
        b.shares(a.asked, a.ours)
        self.logs.news += [seat.hear for seat in self.seats]
        self.rng = random.Random(f"stage/{spec.seed}")

    # --- what happens

    def trace(self, what: str) -> None:
        """One line of what the schedule came to."""
        self.lines.append(f"{self.loop.time():9.3f} {what}")

    def failed(self, name: str, why: str) -> None:
        """A process could not do what it is there for."""
        self.trace(f"{name} {why}")
        self.fail("f", f"{name}: {why}")

    def noticed(self, node: WorldNode, deadline: float) -> None:
        """Each view is told; whether a replica has heard of it is another matter."""
        for view in self._views():
            view.deadlines[node.name] = min(deadline, view.deadlines.get(node.name, deadline))

    def spared(self, node: WorldNode) -> None:
        """It stays. Which replica has heard of that before the deadline is another matter, too."""
        self.oracle.deadlines.pop(node.name, None)
        for seat in self.seats:
            seat.view.taken_back.add(node.name)

    def _views(self) -> list[Oracle]:
        return [self.oracle, *(seat.view for seat in self.seats)]

    def leading(self) -> Seat | None:
        """The seat whose process may write."""
        return next((seat for seat in self.seats if seat.acts()), None)

    def heal(self) -> None:
        """Everything that schedules break."""
        super().heal()
        self.logs.losing = self.logs.doubling = False
        self.logs.late_seconds = 0.0
        self.logs.release()
        self.server.lift_stops()
        for seat in self.seats:
            seat.heal()

    # --- time

    async def live(self, until: float) -> None:
        """Tick by tick, until then or until the first verdict."""
        while (left_seconds := until - self.loop.time()) > ROUNDING_SECONDS and not self.verdicts():
            await asyncio.sleep(min(TICK_SECONDS, left_seconds))
            self.tick()

    def tick(self) -> None:
        """The world lives until now; what came of it is shown and sent."""
        world = self.world
        world.advance(START + self.loop.time())
        self.befell = False
        told = [Told(*_shown(value(thing, world.revision(thing))), gone=gone) for thing, gone in world.take_changes()]
        told += self.server.take_told()
        for notice in world.take_notices():
            self.logs.notice(notice)
        for sample in world.take_samples():
            self.logs.sample(sample)
        rates = {model: dial.rate(world.now) for model, dial in self.dials.items()}
        self.oracle.measure(rates)
        for seat in self.seats:
            seat.view.measure(rates)
            seat.tick(told)
        if sum(seat.acts() for seat in self.seats) > 1:
            self.fail("w", "two replicas may act at one instant")

    def verdicts(self) -> list[Verdict]:
        """What was broken. The oracle's (c) is left out, which assumes that every plan has seen the last tick."""
        judged = [one for seat in self.seats for one in seat.view.verdicts if one.rule != "c"]
        return [*self.fail.verdicts, *judged]

    def restless(self, least_seconds: float) -> str:
        """Why the service is not at rest, "" where it is."""
        if sum(seat.acts() for seat in self.seats) != 1:
            return f"{sum(seat.acts() for seat in self.seats)} replicas lead"
        for seat in self.seats:
            if not seat.is_up():
                return f"{seat.name} never came up"
        self.oracle.wrote_at = max(seat.view.wrote_at for seat in self.seats)
        self.oracle.verdicts.clear()
        self.oracle.look()
        self.oracle.pinned = {one.subject for one in self.server.overrides.values() if one.phase == IN_FORCE}
        self.oracle.judge_rest(least_seconds)
        return next((one.text for one in self.oracle.verdicts), "") or self._untold() or self._cordoned()

    def _untold(self) -> str:
        """Which override's status is not what it is, "" where each is told."""
        for one in self.server.overrides.values():
            phases = {"Expired"} if one.expires_at <= self.world.now else {IN_FORCE, "Superseded"}
            if one.phase not in phases:
                return f"{one.name} of {one.subject} is told to be {one.phase or 'nothing'}, not {min(phases)}"
        return ""

    def _cordoned(self) -> str:
        """Which node is cordoned by the service without a notice, "" where none is."""
        nodes = (one for one in self.world.nodes.values() if one.cordoned_by and one.name not in self.oracle.deadlines)
        return next((f"{one.name} is cordoned by {one.cordoned_by}, and nothing is told of it" for one in nodes), "")

    def end(self) -> None:
        """Nothing happens any more."""
        self.over = True
        for seat in self.seats:
            seat.kill()


def drained(policy: Policy) -> Policy:
    """The same, and the service may empty the nodes that nobody else does."""
    pools = tuple(pool.model_copy(update={"drain": pool.kind == "primary"}) for pool in policy.pools)
    return policy.model_copy(update={"pools": pools})


def _shown(seen: tuple[str, ClusterObject]) -> tuple[str, ClusterObject]:
    return seen

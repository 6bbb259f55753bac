"""One process of the service: its own parts from watches and records to writes, put together as `app.service` does."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import NoReturn, cast

from rebalancer.act.gate import Gate
from rebalancer.act.restoring import Restoring
from rebalancer.act.succession import settled
from rebalancer.app.checkpoints import Checkpoints
from rebalancer.app.cycle_ports import ServicePorts
from rebalancer.app.decisions_topic import DecisionsTopic
from rebalancer.app.leadership import Leadership
from rebalancer.app.past import Start, await_start, read_start, read_succession
from rebalancer.app.service import STOP_SECONDS, SUCCESSION_SECONDS, LeadLost
from rebalancer.app.sources import await_pods
from rebalancer.domain.events import Event
from rebalancer.domain.outcome import Intent, Outcome
from rebalancer.domain.plan import Decision
from rebalancer.domain.policy import Policy
from rebalancer.ingest.intake import KafkaIntake
from rebalancer.ingest.reader import Reader
from rebalancer.kafka.dead_letters import DeadLetters
from rebalancer.kafka.topic_past import TopicPast
from rebalancer.leader.elector import Elector
from rebalancer.leader.lease import LeaseObject
from rebalancer.loop.clock import SteppedClock
from rebalancer.loop.gate_ports import GatePorts, mark_unconfirmed
from rebalancer.loop.runner import Runner
from rebalancer.obs.clock import Clock
from rebalancer.obs.journal_files import JournalFiles
from rebalancer.obs.metrics import Metrics
from rebalancer.obs.recorder import Recorder
from rebalancer.settings.service import ServiceSettings
from rebalancer.state import ClusterState
from rebalancer.state.wakes import patience_seconds
from tests.machine.service import INSTALLATION
from tests.schedules.api import ApiWay
from tests.schedules.kafka import BROKER, DECODERS, KafkaWay, MemoryOutbox, frontiers
from tests.schedules.watching import Watching

KEYFRAME_SECONDS = 300.0


@cache
def settings() -> ServiceSettings:
    """Those of both replicas."""
    return ServiceSettings(
        kafka_bootstrap="none:1",
        kafka_security_protocol="PLAINTEXT",
        policy_path=Path("policy.yaml"),
        lease_name="rebalancer",
        write_mode="act",
        drain_nodes=True,
        dev=True,
    )


class NoDisk(JournalFiles):
    """A journal that nobody finds again: each process begins on another node."""

    def __init__(self) -> None:
        self.trouble = None

    def paths(self) -> tuple[Path, ...]:
        """None there are."""
        return ()

    @property
    def full(self) -> bool:
        """Never."""
        return False

    def rotate(self) -> None:
        """Nothing is kept."""

    def append(self, line: bytes) -> None:
        """Nothing is kept."""

    async def flushed(self) -> bool:
        """At once."""
        return True


class Disk(NoDisk):
    """A journal of one file in memory, which the next process on its node finds again."""

    def __init__(self) -> None:
        super().__init__()
        self._lines = b""

    def paths(self) -> tuple[Path, ...]:
        """The file, once there are lines."""
        return (cast("Path", self),) if self._lines else ()  # of which a reader asks the next two alone

    def is_file(self) -> bool:
        """As a path says."""
        return True

    def open(self, _mode: str) -> BytesIO:
        """To be read."""
        return BytesIO(self._lines)

    def append(self, line: bytes) -> None:
        """Written at once."""
        self._lines += line

    def lose(self) -> None:
        """The node is another one."""
        self._lines = b""


class ToldRecorder(Recorder):
    """`intends` is told of each intent before it is recorded."""

    def __init__(self, journal: JournalFiles, decisions: DecisionsTopic, intends: Callable[[Intent], None]) -> None:
        super().__init__(journal, decisions.publish, decisions.tell, KEYFRAME_SECONDS)
        self._intends = intends

    async def intent(self, intent: Intent, *, wait_seconds: float) -> bool:
        """As the recorder does."""
        self._intends(intent)
        return await super().intent(intent, wait_seconds=wait_seconds)


class BusyPorts(GatePorts):
    """`busy`: whether what a plan asks for is being written."""

    busy = False

    async def carry_out(self, decision: Decision) -> tuple[Outcome, ...]:
        """Through the gate."""
        self.busy = True
        try:
            return await super().carry_out(decision)
        finally:
            self.busy = False


class Replica:
    """Run `run()` in its host. `acts`: whether it may write at this moment; `cycles`: how many it has turned.

    `failed` is told what a cycle raised.
    """

    state: ClusterState
    ports: BusyPorts
    reader: Reader

    def __init__(
        self,
        name: str,
        policy: Policy,
        clock: Clock,
        api: ApiWay,
        kafka: KafkaWay,
        watching: Watching,
        failed: Callable[[str], None],
        intends: Callable[[Intent], None],
        journal: JournalFiles,
    ) -> None:
        self.clock = SteppedClock(clock)
        self.leadership = Leadership(settings(), self.clock)
        self.leadership.instance = name
        self.api, self.kafka, self.watching = api, kafka, watching
        self.runner: Runner | None = None
        self.cycles = 0
        self.news = asyncio.Event()
        self._policy, self._failed = policy, failed
        self._outbox = MemoryOutbox(kafka, self.clock)
        self._decisions = DecisionsTopic(self._outbox)
        self._journal = journal
        self._recorder = ToldRecorder(journal, self._decisions, intends)
        self._checkpoints: Checkpoints | None = None

    @property
    def elector(self) -> Elector | None:
        """None before it stands."""
        return self.leadership.elector

    def acts(self) -> bool:
        """Whether it may write at this moment."""
        return self.leadership.leads()

    async def run(self) -> None:
        """Until a part ends that must not."""
        self._recorder.policy(self._policy, self.clock.now())
        past = await await_start(self._start, self.clock, lambda _why: None)
        now = self.clock.now()
        self.state = ClusterState(
            self._policy,
            now,
            INSTALLATION,
            marks_victims=settings().write_deletion_cost,
            drains_nodes=settings().drain_nodes,
        )
        past.into(self.state, now)
        gate, restoring = self._hands()
        self.ports = ports = BusyPorts(
            self._policy,
            past.memory,
            self.state,
            self._recorder,
            gate,
            self.clock,
            lambda: runner.wake(),  # noqa: PLW0108  the runner is made of these ports, below
            past.first_cycle,
        )
        ports.leads = self.leadership.leads
        self.runner = runner = Runner(ports, self.clock, self._turned)
        self.clock.steps += (self.state.stepped, gate.stepped, ports.stepped)
        letters = DeadLetters(self._outbox, self.clock, random.Random(1))
        self.reader = Reader(DECODERS, self._sink, letters)
        self.reader.frontiers = frontiers(past.offsets)
        self._checkpoints = Checkpoints(
            settings(),
            self.clock,
            self.state,
            cast("ServicePorts", ports),  # those of the loop are all that it asks
            cast("KafkaIntake", self),  # of which it asks the consumer's offsets alone
            self._outbox,
            Metrics(),
            past.slot,
            self.leadership.leads,
            past.rings,
        )
        lease = LeaseObject(self.api, settings().own_namespace, settings().lease_name, self.clock)
        self.leadership.elector = elector = Elector(lease, self.clock, self.leadership.instance)
        await self._all(elector, gate, restoring, runner)

    async def _all(self, elector: Elector, gate: Gate, restoring: Restoring, runner: Runner) -> None:
        parts = (
            elector.run(),
            runner.run(),
            self.watching.run(self._sink, self.clock),
            self._consume(),
            self._lead(elector, gate, restoring),
        )
        tasks = [asyncio.ensure_future(part) for part in parts]
        try:
            ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                if not isinstance(task.exception(), LeadLost):
                    self._failed(f"a part ended with {task.exception()!r}")
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # --- the past

    async def _read(self, name: str, since: float | None) -> list[TopicPast]:
        return self.kafka.past(BROKER.topic(name), since)

    async def _start(self) -> Start:
        now, files = self.clock.now(), self._journal.paths()
        return await read_start(self._read, self._policy, now, files, KEYFRAME_SECONDS, settings().installation)

    async def _succession(self) -> Start:
        now, files, checkpoints = self.clock.now(), self._journal.paths(), settings().checkpoint_seconds
        return await read_succession(self._read, self._policy, now, files, KEYFRAME_SECONDS, checkpoints)

    # --- its parts

    def _hands(self) -> tuple[Gate, Restoring]:
        gate = Gate(
            self.api,
            facts=self.state.peek,
            clock=self.clock,
            recorder=self._recorder,
            right=self.leadership,
            write_mode="act",
            on_written=mark_unconfirmed(self.state),
            instance=self.leadership.instance,
            installation=INSTALLATION,
        )
        restoring = Restoring(
            self.api, self.state.pinned, self.clock, gate.events, self.leadership, "act", INSTALLATION
        )
        return gate, restoring

    async def _lead(self, elector: Elector, gate: Gate, restoring: Restoring) -> NoReturn:
        """As `app.service` does (`test_replica.py`). Raises LeadLost."""
        await elector.elected.wait()
        await self._succeed(gate)
        beside = [asyncio.ensure_future(one) for one in (gate.events.run(), restoring.run(), self._kept())]
        try:
            raise LeadLost(await elector.lost)
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)

    async def _succeed(self, gate: Gate) -> None:
        assert self.runner is not None, "it stands by, so it turns"
        with self.runner.no_turns(SUCCESSION_SECONDS):
            past = await await_start(self._succession, self.clock, lambda _why: None)
            outcomes = await settled(self.api, past.outcomes, lambda: self.state.peek(self.clock.now()), self._policy)
        replace(past, outcomes=outcomes).over(self.state, self.clock.now())
        gate.inherit(outcomes)
        if self._checkpoints is not None:
            self._checkpoints.succeed(past)
        self.ports.succeed(past.memory, past.first_cycle)
        self._recorder.succeed(past.untold(outcomes), past.journaled)
        self.leadership.succeeded = True
        self.runner.wake()

    async def _kept(self) -> None:
        if self._checkpoints is not None:
            await self._checkpoints.run()

    async def end_in_order(self) -> None:
        """SIGTERM."""
        if self.runner is not None:
            await self.runner.stop(STOP_SECONDS)
        if self._checkpoints is not None:
            await self._checkpoints.last(rings=False)
        await self._decisions.stop()
        await self.leadership.release()

    async def _consume(self) -> NoReturn:
        await await_pods(self.state, self.clock)
        while True:
            self.news.clear()
            if not self.kafka.turn(self.reader, self.clock.now()):
                await self.news.wait()

    def _sink(self, events: list[Event]) -> None:
        self.state.apply_all(events, self.clock.now())
        if self.state.wakes and self.runner is not None:
            self.runner.wake(patience_seconds(self.state.wakes))

    def _turned(self, _seconds: float, planned: bool) -> None:  # noqa: FBT001  # as the runner calls it
        self.cycles += 1
        if not planned and self.runner is not None:
            self._failed(f"a cycle raised {self.runner.failure}")
        elif self.runner is not None and self.runner.pools_failed_in_a_row:
            self._failed(f"a cycle failed on {', '.join(self.runner.pools_failed_in_a_row)}")

    # --- what `Checkpoints` asks of the intake

    @property
    def consumer(self) -> "Replica":
        """Itself."""
        return self

    def safe_offsets(self) -> dict[tuple[str, int], int]:
        """Where another process may read on."""
        return {(one.topic, one.partition): each.safe for one, each in self.reader.frontiers.items()}

"""The whole service in one object: parts made in the order in which data flows, and ended in the reverse one."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import structlog

from rebalancer.act.gate import Gate
from rebalancer.act.restoring import Restoring
from rebalancer.api.access import Trusting
from rebalancer.api.doors import DOORS
from rebalancer.api.reception import Reception
from rebalancer.api.reviews import Reviews
from rebalancer.api.server import Servers
from rebalancer.api.stream import page_parts
from rebalancer.app.archive import Archive
from rebalancer.app.checkpoints import Checkpoints
from rebalancer.app.doors import ServiceDoors
from rebalancer.app.followed import FollowedPolicy
from rebalancer.app.foresight import Known
from rebalancer.app.hands import ServiceHands
from rebalancer.app.history import History
from rebalancer.app.insight import Insight
from rebalancer.app.kafka_door import KafkaDoor, follow_keys, look_for_keys
from rebalancer.app.looks import ServiceLooks
from rebalancer.app.past import Start, read_start
from rebalancer.app.topics import broker_of
from rebalancer.domain.events import Event
from rebalancer.domain.plan import Plan
from rebalancer.domain.policy import Policy
from rebalancer.ingest.kafka import KafkaIntake
from rebalancer.ingest.past import PastUnreadable
from rebalancer.ingest.prometheus import PrometheusReadings, Server
from rebalancer.ingest.signed import Signatures
from rebalancer.ingest.watches import Watches
from rebalancer.kube.access import find_access
from rebalancer.kube.client import KubeClient
from rebalancer.loop.clock import SteppedClock
from rebalancer.loop.hands import asked_of
from rebalancer.loop.runner import Runner
from rebalancer.obs.clock import Clock
from rebalancer.obs.journal import code_digest
from rebalancer.obs.journal_files import JournalFiles
from rebalancer.obs.metrics import Metrics
from rebalancer.obs.metrics.lag import watch_lag
from rebalancer.obs.outbox import Outbox
from rebalancer.obs.recorder import Recorder
from rebalancer.settings.policy_file import PolicyFile
from rebalancer.settings.service import ServiceSettings
from rebalancer.state import ClusterState
from rebalancer.state.wakes import patience_seconds

START_AGAIN_SECONDS = 2.0
PODS_LOOK_SECONDS = 0.05
STOP_SECONDS = 10.0
MIB = 1024 * 1024
LARGEST_RECORD = 900 * 1024  # brokers take 1 MiB by default; a longer journal line stays in the local file alone

log = structlog.get_logger()


class Service:
    """`await start()`, then it runs until `stop()`. `failed` resolves when a part ended that must not.

    `journal` names one journal file instead of the rotated ones in the settings' folder.
    """

    def __init__(
        self, settings: ServiceSettings, clock: Clock, rng: random.Random | None = None, journal: Path | None = None
    ) -> None:
        self.settings = settings
        self.clock = clock = SteppedClock(clock)
        self.clock.steps.append(_clock_was_set)
        self.metrics = Metrics()
        self.failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._rng = rng or random.Random()  # noqa: S311  # jitter of back-offs, no secret
        policy_file = PolicyFile(settings.policy_path, allow_empty_policy=settings.allow_empty_policy)
        self._broker = broker_of(settings)
        self.outbox = Outbox(self._broker, clock, self._rng)
        files = JournalFiles(settings.journal_dir, settings.journal_max_mib * MIB, single=journal)
        self._files = files
        self.recorder = Recorder(files, self._publish, self._tell, settings.keyframe_seconds)
        self.insight = Insight(settings, clock, self.metrics, policy_file, self.outbox, self.recorder)
        self._policy = FollowedPolicy(policy_file, self._broker, clock, self.recorder)
        self.history = History()
        self._reviews = Reviews(clock)
        looks = ServiceLooks(self.insight, clock, self._policy.in_force, self.history, Archive(files.paths, clock))
        self._signatures = Signatures(settings.cluster_name, {})
        self.doors = ServiceDoors(settings, clock, self.insight.instance, self._policy.in_force)
        self.servers = Servers(
            self.insight,
            Reception(
                self._reviews if settings.api_auth == "kubernetes" else Trusting(),
                clock,
                settings.api_names,
                settings.own_namespace,
            ),
            (settings.api_host, settings.api_port),
            (settings.probe_host, settings.probe_port),
            parts={
                **page_parts(looks),
                DOORS: self.doors,
            },
        )
        self._tasks: list[asyncio.Task[Any]] = []
        self._telling: set[asyncio.Task[bool]] = set()
        self._kube: KubeClient | None = None
        self._runner: Runner | None = None
        self._checkpoints: Checkpoints | None = None
        self.hands: ServiceHands | None = None

    @property
    def plan(self) -> Plan | None:
        """The last plan, None before the first."""
        return self.insight.plan

    async def start(self) -> None:
        """Come up: policy, ports, past, then the wheel. Returns when the wheel turns.

        Raises NoPolicy, OSError when a port is taken, kube.errors.Invalid when there is no way to the API server.
        While Kafka is away it waits for it, and /readyz says so.
        """
        self.recorder.code = await asyncio.to_thread(code_digest)
        policy = await self._policy.first()
        self._files.start()
        await self.servers.start()
        self._spawn("outbox", self.outbox.run())
        self._kube = KubeClient(
            await find_access(self.settings.kubeconfig, self.settings.kube_context or None), self.clock, self._rng
        )
        self.insight.kube = self._reviews.kube = self.doors.kube = self._kube
        if self.settings.override_keys_dir is not None:
            await look_for_keys(self.settings.override_keys_dir, self._signatures)
        past = await self._past(policy)
        now, settings = self.clock.now(), self.settings
        state = ClusterState(policy, now, settings.installation, marks_victims=settings.write_deletion_cost)
        past.into(state, now)
        self._turn(policy, past, state, self._kube)
        log.info("started", cycle=past.first_cycle, write_mode=self.settings.write_mode, replayed=len(past.outcomes))

    async def _past(self, policy: Policy) -> Start:
        """What Kafka kept for us. Without it guards' windows are unknown, so nothing starts before it is read."""
        while True:
            try:
                past = await read_start(
                    self._broker, policy, self.clock.now(), self._files.paths(), self.settings.keyframe_seconds
                )
            except PastUnreadable as error:
                self.insight.waiting = str(error)
                log.warning("waiting for Kafka", error=str(error))
                await self.clock.sleep(START_AGAIN_SECONDS)
            else:
                self.insight.waiting = None
                for problem in past.problems:
                    log.warning("checkpoint", problem=problem)
                return past

    def _turn(self, policy: Policy, past: Start, state: ClusterState, kube: KubeClient) -> None:
        """Connect the parts and set them going."""
        gate = Gate(
            kube,
            facts=state.peek,
            clock=self.clock,
            recorder=self.recorder,
            may_write=_may_write,
            write_mode=self.settings.write_mode,
            on_written=asked_of(state),
            instance=self.insight.instance,
            installation=self.settings.installation,
        )
        restoring = Restoring(
            kube,
            state.pinned,
            self.clock,
            gate.events,
            _may_write,
            self.settings.write_mode,
            self.settings.installation,
            unnamed=self.settings.hand_back_unnamed,
        )
        self.hands = hands = ServiceHands(
            policy,
            past.memory,
            state,
            self.recorder,
            gate,
            self.metrics,
            self.clock,
            self._wake,
            past.first_cycle,
            self.history,
        )
        self.clock.steps += (state.stepped, gate.stepped, hands.stepped)
        self._runner = runner = Runner(hands, self.clock, self.metrics.cycle)

        def sink(events: list[Event]) -> None:
            state.apply_all(events, self.clock.now())
            if state.wakes:
                runner.wake(patience_seconds(state.wakes))

        door = KafkaDoor(kube, self._policy.in_force, self.settings.own_namespace)
        intake = KafkaIntake(
            self._broker, self.clock, self._rng, sink, self.outbox, past.offsets, signed=(self._signatures, door)
        )
        watches = Watches(kube, self.clock, self._rng, sink)
        self._checkpoints = Checkpoints(
            self.settings,
            self.clock,
            state,
            hands,
            intake,
            self.outbox,
            self._no_checkpoint,
            past.slot,
        )
        self.insight.connect(state, hands, runner, intake, watches, self._checkpoints, restoring)
        self.doors.known = lambda: Known(state.peek(self.clock.now()), hands.policy, hands.memory)
        if self.settings.override_keys_dir is not None:
            self._spawn("keys", follow_keys(self.settings.override_keys_dir, self._signatures, self.clock))
        self._spawn("intake", self._read_when_pods_are_known(state, intake))
        self._spawn("watches", watches.run())
        self._spawn("events", gate.events.run())
        self._spawn("restoring", restoring.run())
        if self.settings.prometheus_url:
            self._spawn("prometheus", self._second_source(state, hands, sink).run())
        self._spawn("checkpoints", self._checkpoints.run())
        self._spawn("policy", self._policy.follow(state, hands, runner))
        self._spawn("lag", watch_lag(self.clock, self.metrics))
        self._spawn("runner", runner.run())

    def _no_checkpoint(self, what: str) -> None:
        log.warning("no checkpoint", of=what)
        self.metrics.count("rebalancer_checkpoint_failures_total")

    async def _read_when_pods_are_known(self, state: ClusterState, intake: KafkaIntake) -> None:
        """A sample of a pod counts for its model: before the pods are listed nobody could say whose it is."""
        while {"pods", "deployments"} & set(state.sync(self.clock.now()).missing):
            await self.clock.sleep(PODS_LOOK_SECONDS)
        await intake.run()

    def _second_source(
        self, state: ClusterState, hands: ServiceHands, sink: Callable[[list[Event]], None]
    ) -> PrometheusReadings:
        """Prometheus, asked for the pods of the policy's namespaces."""
        settings = self.settings
        self.insight.prometheus = source = PrometheusReadings(
            Server(settings.prometheus_url, settings.prometheus_token_file, settings.prometheus_ca_file),
            settings.prometheus_interval_seconds,
            self.clock,
            sink,
            lambda: {model.namespace for model in hands.policy.models},
            state.pod_named,
        )
        return source

    def _wake(self) -> None:
        if self._runner is not None:
            self._runner.wake()

    async def _publish(self, key: bytes, line: bytes) -> bool:
        return await self.outbox.send("decisions", key, line)

    def _tell(self, key: bytes, line: bytes) -> None:
        """Send without waiting; the outbox bounds what it holds, and counts what it drops."""
        if len(line) > LARGEST_RECORD:
            return
        task = asyncio.get_running_loop().create_task(self.outbox.send("decisions", key, line))
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    def _spawn(self, name: str, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.get_running_loop().create_task(work, name=name)
        task.add_done_callback(self._ended)
        self._tasks.append(task)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        if task.cancelled() or self.failed.done():
            return
        why = f"{task.get_name()} ended: {task.exception() or 'without an error'}"
        log.error("a part ended that must not", part=task.get_name(), exc_info=task.exception())
        self.failed.set_result(why)

    async def _last_checkpoint(self) -> None:
        """What the next start reads; without it that start reads more of `decisions` and `metrics`."""
        if self._checkpoints is None or self.outbox.trouble is not None:
            return
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await self._checkpoints.full()
        except Exception:  # stopping goes on: without a checkpoint the next start reads more
            log.exception("the last checkpoint could not be written")

    async def stop(self) -> None:
        """Go down in order: no new cycle, the last write finished, a checkpoint, then everything else.

        Changes nothing in the cluster: HPAs keep the last bounds.
        """
        if self._runner is not None:
            await self._runner.stop(STOP_SECONDS)
        await self._last_checkpoint()
        if self._telling:
            await asyncio.wait(self._telling, timeout=STOP_SECONDS / 5)
        for task in reversed(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.outbox.close()
        await self.recorder.close()
        await self.servers.stop()
        if self._kube is not None:
            await self._kube.close()
        if not self.failed.done():
            self.failed.cancel()
        log.info("stopped")


def _clock_was_set(seconds: float) -> None:
    log.warning("the clock was set; what came in stays as old as it is", seconds=round(seconds, 3))


def _may_write() -> str | None:
    """Why this replica may not write. One replica leads: the elector comes with the second."""
    return None

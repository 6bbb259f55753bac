"""The whole service in one object: parts made in the order in which data flows, and ended in the reverse one."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import structlog

from rebalancer.act.gate import Gate
from rebalancer.act.restoring import Restoring
from rebalancer.act.succession import settled
from rebalancer.api.auth.authentication import Authentication
from rebalancer.api.auth.authority import Trusting
from rebalancer.api.auth.token_reviews import Reviews
from rebalancer.app.archive import Archive
from rebalancer.app.checkpoints import Checkpoints
from rebalancer.app.clock_offset import ClockOffset
from rebalancer.app.cycle_ports import ServicePorts
from rebalancer.app.decisions_topic import DecisionsTopic
from rebalancer.app.followed import FollowedPolicy
from rebalancer.app.foresight import Known
from rebalancer.app.history import History
from rebalancer.app.leadership import Leadership
from rebalancer.app.operator_port import ServiceOperatorPort
from rebalancer.app.page_data import ServicePageData
from rebalancer.app.past import Start, await_start, read_start, read_succession, reading
from rebalancer.app.predicting import predict_days
from rebalancer.app.recording import journal_of, ledger_of
from rebalancer.app.refilled import DAY_SECONDS, refilled
from rebalancer.app.served import servers_of
from rebalancer.app.signed_overrides import SignedOverrideWriter, follow_keys, look_for_keys
from rebalancer.app.sources import notice_queue_of, prometheus_of, read_when_pods_are_known, sink_of
from rebalancer.app.standby import Standby
from rebalancer.app.status_reporter import StatusReporter
from rebalancer.app.tasks import Tasks
from rebalancer.app.topics import broker_of
from rebalancer.app.trap_looks import TrapLooks
from rebalancer.domain.plan import Plan
from rebalancer.domain.policy import Policy
from rebalancer.ingest.intake import KafkaIntake
from rebalancer.ingest.signed import Signatures
from rebalancer.ingest.watches import Watches
from rebalancer.kafka.outbox import Outbox
from rebalancer.kube.access import find_access
from rebalancer.kube.client import KubeClient
from rebalancer.leader.watchdog import end_process
from rebalancer.loop.clock import SteppedClock
from rebalancer.loop.gate_ports import mark_unconfirmed
from rebalancer.loop.runner import Runner
from rebalancer.obs.clock import Clock
from rebalancer.obs.journal import code_digest
from rebalancer.obs.metrics import Metrics
from rebalancer.obs.metrics.lag import watch_lag
from rebalancer.obs.recorder import Recorder
from rebalancer.settings.policy_file import PolicyFile
from rebalancer.settings.service import ServiceSettings
from rebalancer.state import ClusterState

STOP_SECONDS = 10.0  # for the cycle under way to end
# No cycle beside reading what the leader before us did: at 1,000 models that took 0.8 s instead of 0.1. Where Kafka is
# away it takes longer than this, and plans are made meanwhile.
SUCCESSION_SECONDS = 2.0

log = structlog.get_logger()


class LeadLost(Exception):
    """Another replica may lead by now: this process ends, for what it knows is not what that one does."""


class Service:
    """`await start()`, then it runs until `stop()`. `failed` resolves when a part ended that must not.

    `journal` names one journal file instead of the rotated ones in the settings' folder. `end` is called from a thread
    where the right to act has ended and the process has not.
    """

    def __init__(
        self,
        settings: ServiceSettings,
        clock: Clock,
        rng: random.Random | None = None,
        journal: Path | None = None,
        end: Callable[[], None] = end_process,
    ) -> None:
        self.settings = settings
        self.clock = clock = SteppedClock(clock)
        self.clock.steps.append(_clock_was_set)
        self.metrics = Metrics()
        self._rng = rng or random.Random()  # noqa: S311  # jitter of back-offs, no secret
        self._tasks = Tasks()
        self.failed = self._tasks.failed
        self._broker = broker_of(settings)
        self.outbox = Outbox(self._broker, clock, self._rng)
        self._decisions = DecisionsTopic(self.outbox)
        self._files = journal_of(settings, journal)
        tells = self._decisions.publish, self._decisions.tell
        ledger = None if journal else ledger_of(settings)
        self.recorder = Recorder(self._files, *tells, settings.keyframe_seconds, ledger)
        policy_file = PolicyFile(settings.policy_path, allow_empty_policy=settings.allow_empty_policy)
        self._policy = FollowedPolicy(policy_file, self._broker, clock, self.recorder, settings.installation)
        self.history = History()
        self.leadership = lead = Leadership(settings, clock, end)
        self.reporter = StatusReporter(settings, clock, self.metrics, policy_file, self.outbox, self.recorder, lead)
        self.operator = ServiceOperatorPort(settings, clock, lead.instance, lead.leader, self._policy.in_force)
        archive = Archive(self._files.paths, clock)
        self._traps = TrapLooks(clock, self._policy.in_force, self.reporter.snapshot)
        page_data = ServicePageData(self.reporter, clock, self._policy, self.history, archive, self._traps)
        self._reviews = Reviews(clock)
        authority = self._reviews if settings.api_auth == "kubernetes" else Trusting()
        authentication = Authentication(authority, clock, settings.api_names, settings.own_namespace)
        self.servers = servers_of(settings, self.reporter, page_data, self.operator, authentication)
        self._kube: KubeClient | None = None
        self._runner: Runner | None = None
        self._checkpoints: Checkpoints | None = None
        self.cycle_ports: ServicePorts | None = None

    @property
    def plan(self) -> Plan | None:
        """The last plan, None before the first."""
        return self.reporter.plan

    async def start(self) -> None:
        """Come up: policy, ports, past, then the cycles. Returns when they run.

        Raises NoPolicy, OSError when a port is taken, kube.errors.Invalid when there is no way to the API server.
        While Kafka is away it waits for it, and /readyz says so.
        """
        settings = self.settings
        self.recorder.code = await asyncio.to_thread(code_digest)
        await self._policy.first()
        self.recorder.start()
        await self.servers.start()
        self._tasks.spawn("outbox", self.outbox.run())
        access = await find_access(settings.kubeconfig, settings.kube_context or None)
        self._kube = kube = KubeClient(access, self.clock, self._rng)
        self.reporter.kube = self._reviews.kube = self.operator.kube = self._traps.kube = kube
        signatures = Signatures(settings.cluster_name, {})
        if settings.override_keys_dir is not None:
            await look_for_keys(settings.override_keys_dir, signatures)
            self._tasks.spawn("keys", follow_keys(settings.override_keys_dir, signatures, self.clock))
        past = await await_start(self._read_start, self.clock, self.reporter.waits_for)
        policy, now = self._policy.in_force(), self.clock.now()
        state = ClusterState(
            policy,
            now,
            settings.installation,
            marks_victims=settings.write_deletion_cost,
            drains_nodes=settings.drain_nodes,
        )
        past.into(state, now)
        if not settings.lease_name:  # else who takes the Lease does it, having asked the objects
            self.recorder.succeed(past.untold(past.outcomes), past.journaled)
        self._run(policy, past, state, kube, signatures)
        self._tasks.spawn("history", self._remember(policy, past.first_cycle))
        log.info("started", cycle=past.first_cycle, write_mode=settings.write_mode, replayed=len(past.outcomes))

    async def _read_start(self) -> Start:
        """The past that the policy to go on with needs. Raises PastUnreadable."""
        return await read_start(
            reading(self._broker),
            await self._policy.go_on(),
            self.clock.now(),
            self._files.paths(),
            self.settings.keyframe_seconds,
            self.settings.installation,
        )

    def _run(self, policy: Policy, past: Start, state: ClusterState, kube: KubeClient, signatures: Signatures) -> None:
        """Connect what decides and writes with what feeds it, and set all of it going."""
        settings, clock = self.settings, self.clock
        gate = Gate(
            kube,
            facts=state.peek,
            clock=clock,
            recorder=self.recorder,
            right=self.leadership,
            write_mode=settings.write_mode,
            on_written=mark_unconfirmed(state),
            instance=self.reporter.instance,
            installation=settings.installation,
        )
        restoring = Restoring(
            kube,
            state.pinned,
            clock,
            gate.events,
            self.leadership,
            settings.write_mode,
            settings.installation,
            unnamed=settings.hand_back_unnamed,
        )
        self.cycle_ports = ports = ServicePorts(
            policy,
            past.memory,
            state,
            self.recorder,
            gate,
            self.metrics,
            clock,
            lambda: runner.wake(),  # noqa: PLW0108  the runner is made of these ports, below
            past.first_cycle,
            self.history,
        )
        ports.leads = self.leadership.leads
        self._runner = runner = Runner(ports, clock, self.metrics.cycle)
        sink = sink_of(state, runner, clock)
        offset = ClockOffset(kube, sink, clock)
        clock.steps += (state.stepped, gate.stepped, ports.stepped, kube.stepped, offset.stepped)
        writer = SignedOverrideWriter(kube, self._policy.in_force, settings.own_namespace)
        intake = KafkaIntake(
            self._broker,
            clock,
            self._rng,
            sink,
            self.outbox,
            past.offsets,
            signed=(signatures, writer),
            aggregated=settings.aggregated,
        )
        intake.follow(policy)
        watches = Watches(kube, clock, self._rng, sink)
        watches.follow(policy)
        self._checkpoints = checkpoints = Checkpoints(
            settings,
            clock,
            state,
            ports,
            intake,
            self.outbox,
            self.metrics,
            past.slot,
            self.leadership.leads,
            past.rings,
        )
        self.reporter.connect(state, ports, runner, watches, intake, checkpoints, restoring)
        self.operator.gone = self.history.gone
        self.operator.known = lambda: Known(state.peek(clock.now()), ports.policy, ports.memory)
        if settings.prometheus_url:
            self.reporter.prometheus = prometheus = prometheus_of(settings, clock, sink, state, ports)
            self._tasks.spawn("prometheus", prometheus.run())
        if settings.notices_queue_url:
            self.reporter.notice_queue = queue = notice_queue_of(settings, clock, self._rng, self.outbox, kube)
            self._tasks.spawn("notice-queue", queue.run())
        self._tasks.spawn("intake", read_when_pods_are_known(intake, state, clock))
        self._tasks.spawn("watches", watches.run())
        self._tasks.spawn("policy", self._policy.follow(state, ports, runner, watches, intake, checkpoints.policy))
        self._tasks.spawn("lag", watch_lag(clock, self.metrics))
        self._tasks.spawn("clock", offset.run())
        self._tasks.spawn("predictions", self.reporter.predictions.run())
        if settings.predict_days:
            self._tasks.spawn("predicting", predict_days(self.reporter.predictions, settings.journal_dir, clock))
        self._tasks.spawn("runner", runner.run())
        self._tasks.spawn("leading", self._lead(kube, state, gate, restoring, checkpoints))

    async def _remember(self, policy: Policy, first_cycle: int) -> None:
        """What the timeline and the charts showed before the start, beside the wheel that turns already."""
        since = self.clock.now() - DAY_SECONDS
        self.history.put_before(await asyncio.to_thread(refilled, self._files.paths(), policy, since, first_cycle))
        await asyncio.Event().wait()

    async def _lead(
        self, kube: KubeClient, state: ClusterState, gate: Gate, restoring: Restoring, checkpoints: Checkpoints
    ) -> None:
        """Act, once this replica leads and knows what the one before it did. Raises LeadLost when another one may."""
        elector = self.leadership.stand(kube)
        if elector is not None:
            self._tasks.spawn("elector", elector.run())
            settings = self.settings
            async with Standby(
                self._broker, self.clock, settings.checkpoint_seconds, settings.keyframe_seconds
            ) as standby:
                await elector.elected.wait()
                kube.identify(f"rebalancer ({elector.identity} epoch {elector.epoch})")
                await self._succeed(kube, state, gate, checkpoints, standby)
        self._tasks.spawn("events", gate.events.run())
        self._tasks.spawn("restoring", restoring.run())
        self._tasks.spawn("checkpoints", checkpoints.run())
        if elector is None:
            await asyncio.Event().wait()
        else:
            raise LeadLost(await elector.lost)

    async def _succeed(
        self, kube: KubeClient, state: ClusterState, gate: Gate, checkpoints: Checkpoints, standby: Standby
    ) -> None:
        """Take over memory and last writes of the leader before us; the next cycle is the first that acts.

        Between what is read and the first cycle nothing is waited for.
        """
        settings, ports = self.settings, self.cycle_ports
        if ports is None or self._runner is None:
            raise RuntimeError("nothing runs that could lead")
        policy = ports.policy
        began = self.clock.monotonic()
        with self._runner.no_turns(SUCCESSION_SECONDS):
            past = await await_start(
                lambda: read_succession(
                    standby.read,
                    policy,
                    self.clock.now(),
                    self._files.paths(),
                    settings.keyframe_seconds,
                    settings.checkpoint_seconds,
                ),
                self.clock,
                self.reporter.waits_for,
            )
            outcomes = await settled(kube, past.outcomes, lambda: state.peek(self.clock.now()), policy)
        now = self.clock.now()
        replace(past, outcomes=outcomes).over(state, now)
        gate.inherit(outcomes)
        checkpoints.succeed(past)
        ports.succeed(past.memory, past.first_cycle)
        self.recorder.succeed(past.untold(outcomes), past.journaled)
        self.leadership.succeeded = True
        self._runner.wake()
        seconds = round(self.clock.monotonic() - began, 3)
        log.info("acts", cycle=ports.next_cycle, epoch=self.leadership.epoch, writes=len(outcomes), seconds=seconds)

    async def stop(self) -> None:
        """Go down in order: no new cycle, the last write finished, a checkpoint, then everything else.

        Changes nothing in the cluster: HPAs keep the last bounds.
        """
        if self._runner is not None:
            await self._runner.stop(STOP_SECONDS)
        if self._checkpoints is not None:
            await self._checkpoints.last(rings=self.leadership.elector is None)
        await self._decisions.stop()
        await self.leadership.release()
        await self._tasks.stop()
        await self._traps.stop()
        await self.outbox.close()
        await self.recorder.close()
        await self.servers.stop()
        if self._kube is not None:
            await self._kube.close()
        if not self.failed.done():
            self.failed.cancel()
        self.leadership.close()
        log.info("stopped")


def _clock_was_set(seconds: float) -> None:
    log.warning("the clock was set; what came in stays as old as it is", seconds=round(seconds, 3))

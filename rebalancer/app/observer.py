"""The service without Kafka: it reads Kubernetes and Prometheus, decides, explains, and has no way to write.

No gate is made, nothing that gives back, no Lease and no writer for people; the Kubernetes client has no writing verb
(`kube.reader`). The journal is on local disk alone, and a start learns from Prometheus' past in place of a checkpoint.
"""

import asyncio
import random
from collections.abc import Mapping
from typing import Final

import structlog

from rebalancer.act.shadow import Shadow
from rebalancer.api.auth.authentication import Authentication
from rebalancer.api.auth.authority import Trusting
from rebalancer.app.archive import Archive
from rebalancer.app.backfill import backfill, store_past
from rebalancer.app.cycle_ports import ServicePorts
from rebalancer.app.followed import FollowedPolicy
from rebalancer.app.foresight import Known
from rebalancer.app.history import History
from rebalancer.app.leadership import Leadership
from rebalancer.app.observed_operator import ObserverOperatorPort
from rebalancer.app.onlooker import LoggedOnlooker, Onlooker
from rebalancer.app.page_data import ServicePageData
from rebalancer.app.predicting import predict_days
from rebalancer.app.recording import journal_of, ledger_of
from rebalancer.app.served import servers_of
from rebalancer.app.sources import await_pods, prometheus_of, server_of, sink_of
from rebalancer.app.status_reporter import StatusReporter
from rebalancer.app.tasks import Tasks
from rebalancer.app.trap_looks import TrapLooks
from rebalancer.domain.memory import Memory
from rebalancer.domain.plan import Plan
from rebalancer.domain.policy import Policy
from rebalancer.ingest.past.asking import PastUnanswered
from rebalancer.ingest.watches import Watches
from rebalancer.kube.access import find_access
from rebalancer.kube.reader import KubeReader
from rebalancer.loop.clock import SteppedClock
from rebalancer.loop.runner import Runner
from rebalancer.obs.clock import Clock
from rebalancer.obs.journal import code_digest
from rebalancer.obs.journal_tail import read_tail
from rebalancer.obs.metrics import Metrics
from rebalancer.obs.metrics.lag import watch_lag
from rebalancer.obs.recorder import Recorder
from rebalancer.settings.policy_file import PolicyFile
from rebalancer.settings.service import ServiceSettings
from rebalancer.state import ClusterState

STOP_SECONDS = 10.0  # for the cycle under way to end
TELL_SECONDS = 5.0  # between two words about what a start waits for

OFF: Final[Mapping[str, str]] = {
    "overrides": "Overrides are off: a service that only observes makes no objects for people, and signed records need "
    "Kafka.",
    "decisions topic": "The decisions topic is off: without Kafka decisions are in the local journal alone.",
    "checkpoints": "Checkpoints are off: without Kafka a start learns from Prometheus' past in their place.",
    "dead letters": "Dead letters are off: without Kafka there are no records that could be refused.",
}
"""What needs Kafka, each with the sentence that says why it is not there."""

log = structlog.get_logger()


class Observer:
    """`await start()`, then it runs until `stop()`. `failed` resolves when a part ended that must not."""

    def __init__(
        self,
        settings: ServiceSettings,
        clock: Clock,
        onlooker: Onlooker | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self.settings = settings
        self.clock = clock = SteppedClock(clock)
        self.metrics = Metrics()
        self._onlooker = onlooker or LoggedOnlooker()
        self._rng = rng or random.Random()  # noqa: S311  # jitter of back-offs, no secret
        self._tasks = Tasks()
        self.failed = self._tasks.failed
        self._files = journal_of(settings)
        self.recorder = Recorder(self._files, _unacknowledged, _untold, settings.keyframe_seconds, ledger_of(settings))
        policy_file = PolicyFile(settings.policy_path, allow_empty_policy=settings.allow_empty_policy)
        self._policy = FollowedPolicy(policy_file, None, clock, self.recorder, settings.installation)
        self.history = History()
        leadership = Leadership(settings, clock)
        self.reporter = StatusReporter(settings, clock, self.metrics, policy_file, None, self.recorder, leadership)
        self.reporter.off = OFF
        self.operator = ObserverOperatorPort(
            settings, clock, leadership.instance, leadership.leader, self._policy.in_force
        )
        archive = Archive(self._files.paths, clock)
        self._traps = TrapLooks(clock, self._policy.in_force, self.reporter.snapshot)
        page_data = ServicePageData(self.reporter, clock, self._policy, self.history, archive, self._traps)
        authentication = Authentication(Trusting(), clock, settings.api_names, settings.own_namespace)
        self.servers = servers_of(settings, self.reporter, page_data, self.operator, authentication)
        self._kube: KubeReader | None = None
        self._runner: Runner | None = None

    @property
    def plan(self) -> Plan | None:
        """The last plan, None before the first."""
        return self.reporter.plan

    async def start(self) -> None:
        """Come up: policy, ports, watches, Prometheus' past, then the cycles. Returns when they run.

        Raises NoPolicy, OSError when a port is taken, kube.errors.Invalid when there is no way to the API server.
        """
        settings = self.settings
        self.recorder.code = await asyncio.to_thread(code_digest)
        policy = await self._policy.first()
        self.recorder.start()
        await self.servers.start()
        self._onlooker.serves(self.servers.api_port)
        access = await find_access(settings.kubeconfig, settings.kube_context or None)
        self.reporter.kube = self._traps.kube = self._kube = kube = KubeReader(access, self.clock, self._rng)
        now = self.clock.now()
        tail = await asyncio.to_thread(read_tail, self._files.paths(), now)
        state = ClusterState(policy, now, settings.installation, observes=True)
        await self._run(policy, state, kube, tail.last_cycle + 1)
        log.info("started", cycle=tail.last_cycle + 1, write_mode=settings.write_mode)

    async def _run(self, policy: Policy, state: ClusterState, kube: KubeReader, first_cycle: int) -> None:
        """Connect what decides with what feeds it; set it going once the cluster and the past are known."""
        settings, clock = self.settings, self.clock
        ports = ServicePorts(
            policy,
            Memory(),
            state,
            self.recorder,
            Shadow(clock, self.recorder),
            self.metrics,
            clock,
            lambda: runner.wake(),  # noqa: PLW0108  the runner is made of these ports, below
            first_cycle,
            self.history,
        )
        self._runner = runner = Runner(ports, clock, self.metrics.cycle)
        clock.steps += (state.stepped, ports.stepped)
        sink = sink_of(state, runner, clock)
        watches = Watches(kube, clock, self._rng, sink)
        watches.follow(policy)
        self._tasks.spawn("watches", watches.run())
        await self._pods_known(state)
        await self._look_back(policy, state)
        self.reporter.prometheus = prometheus = prometheus_of(settings, clock, sink, state, ports)
        self.reporter.connect(state, ports, runner, watches)
        self.operator.gone = self.history.gone
        self.operator.known = lambda: Known(state.peek(clock.now()), ports.policy, ports.memory)
        self._tasks.spawn("prometheus", prometheus.run())
        self._tasks.spawn("policy", self._policy.follow(state, ports, runner, watches))
        self._tasks.spawn("lag", watch_lag(clock, self.metrics))
        self._tasks.spawn("predictions", self.reporter.predictions.run())
        if settings.predict_days:
            self._tasks.spawn("predicting", predict_days(self.reporter.predictions, settings.journal_dir, clock))
        self._tasks.spawn("runner", runner.run())

    async def _look_back(self, policy: Policy, state: ClusterState) -> None:
        """What Prometheus knows of the past; without it the service begins to learn now."""
        settings = self.settings
        if not settings.backfill_hours:
            return
        self.reporter.waits_for(f"the last {settings.backfill_hours:g} h of Prometheus")
        interval_seconds = settings.prometheus_interval_seconds
        try:
            past = await backfill(
                server_of(settings),
                policy,
                state,
                self.clock,
                settings.backfill_hours,
                interval_seconds,
                self._onlooker.reads,
            )
        except PastUnanswered as error:
            self._onlooker.knows_nothing(str(error))
        else:
            try:
                await asyncio.to_thread(store_past, settings.journal_dir, past)
            except OSError as error:
                log.warning("the past is not kept for reports", why=str(error))
            self._onlooker.knows(past)  # whoever reads it may ask for a report at once

    async def _pods_known(self, state: ClusterState) -> None:
        """Wait for the lists that say whose a pod is; what keeps them away is told every few seconds."""
        self.reporter.waits_for("the cluster's pods and deployments")
        known = asyncio.ensure_future(await_pods(state, self.clock))
        try:
            while not (await asyncio.wait({known}, timeout=TELL_SECONDS))[0]:
                missing = state.sync(self.clock.now()).missing
                why = {source: why for source, why in state.troubles().items() if source in missing}
                for what in [f"{source}: {trouble}" for source, trouble in why.items()] or ["the cluster's objects"]:
                    self.reporter.waits_for(what)
                    self._onlooker.waits(what)
        finally:
            known.cancel()

    async def stop(self) -> None:
        """Go down in order: no new cycle, the journal on disk, then everything else."""
        if self._runner is not None and self._runner.began_monotonic is not None:
            await self._runner.stop(STOP_SECONDS)
        await self._tasks.stop()
        await self._traps.stop()
        await self.recorder.close()
        await self.servers.stop()
        if self._kube is not None:
            await self._kube.close()
        if not self.failed.done():
            self.failed.cancel()
        log.info("stopped")


async def _unacknowledged(key: bytes, line: bytes) -> bool:  # noqa: ARG001  `recorder.Publish`
    """Nobody keeps a line but the local journal."""
    return False


def _untold(key: bytes, line: bytes) -> None:
    """Nobody hears of a line but the local journal."""

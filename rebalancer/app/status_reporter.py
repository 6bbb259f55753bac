"""What the service says about itself: implements `api.ports.status.StatusPort` over the running parts."""

from collections.abc import Iterator, Mapping

from rebalancer.act.restoring import Restoring
from rebalancer.api.ports.status import LEASE, UNPLANNED, Status, Unready
from rebalancer.app.checkpoints import Checkpoints
from rebalancer.app.cycle_ports import ServicePorts
from rebalancer.app.figures import (
    build_figures,
    input_figures,
    output_figures,
    people_figures,
    pinned_figures,
    policy_figures,
    prometheus_figures,
    queue_figures,
    sync_figures,
    watch_figures,
)
from rebalancer.app.leadership import Leadership
from rebalancer.app.predictions import StoredPredictions
from rebalancer.domain.cluster import CLOCK, SOURCES
from rebalancer.domain.pinned import HELD, Pinned
from rebalancer.domain.plan import Plan
from rebalancer.domain.policy import Policy
from rebalancer.domain.snapshot import Snapshot
from rebalancer.domain.sync import Sync
from rebalancer.domain.words import listed
from rebalancer.ingest.intake import KafkaIntake
from rebalancer.ingest.notice_queue import NoticeQueue
from rebalancer.ingest.prometheus import PrometheusReadings
from rebalancer.ingest.watches import Watches
from rebalancer.kafka.outbox import Outbox
from rebalancer.kube.reader import KubeReader
from rebalancer.loop.clock import SteppedClock
from rebalancer.loop.runner import Runner
from rebalancer.obs.metrics import Figure, Metrics
from rebalancer.obs.metrics.figures import (
    latency_figures,
    ledger_figures,
    notice_figures,
    plan_figures,
    prediction_figures,
    start_figures,
)
from rebalancer.obs.recorder import Recorder
from rebalancer.settings.policy_file import PolicyFile
from rebalancer.settings.service import ServiceSettings
from rebalancer.state import ClusterState

SILENT_SECONDS = 15.0  # a broker that is there answers for each partition ten times a second
PEEK_SECONDS = 0.5  # with fresh readings of 1,000 models a look costs 80 ms of the event loop; many may ask
DEAD_SECONDS = 180.0  # a wheel that stood still this long is turned again only by a restart
FRUITLESS_SECONDS = 900.0  # cycles that fail for so long may do so for what is in memory: a restart has it anew
OWN_TOPIC = "passed over: the topic is one of our own and is read as such; take it out of the policy's producers"
BEHIND = "behind: read to where it ended {:.0f} s ago"
UNSEEN = "not seen for {:.0f} s: there is no such topic, or no right to see it (Describe), so nothing of it is read"
UNSUCCEEDED = "this replica holds the Lease, and acts once it knows what the leader before it did"
LATE_SECONDS = 60.0  # a plan is due every planning period, and writes take some seconds of it


class StatusReporter:
    """Before `connect` only probes have something to say. `waiting`: what the start, or a takeover, waits for.

    `kube`: the way to the API server, once there is one; `prometheus`: the source of readings besides Kafka, if it is
    asked; `notice_queue`: the reader of a queue of SQS, if there is one. `off`: parts that this service does not have,
    each with the reason. `outbox` None: there is no Kafka.
    """

    def __init__(  # noqa: PLR0913  # the parts it looks into
        self,
        settings: ServiceSettings,
        clock: SteppedClock,
        metrics: Metrics,
        policy_file: PolicyFile,
        outbox: Outbox | None,
        recorder: Recorder,
        leadership: Leadership,
    ) -> None:
        self.instance = leadership.instance
        self.waiting: str | None = None
        self.off: Mapping[str, str] = {}
        self.kube: KubeReader | None = None
        self.prometheus: PrometheusReadings | None = None
        self.notice_queue: NoticeQueue | None = None
        self.predictions = StoredPredictions(settings.journal_dir, clock)
        self._settings = settings
        self._clock = clock
        self._metrics = metrics
        self._policy_file = policy_file
        self._outbox = outbox
        self._recorder = recorder
        self._leadership = leadership
        self._state: ClusterState | None = None
        self._cycle_ports: ServicePorts | None = None
        self._runner: Runner | None = None
        self._intake: KafkaIntake | None = None
        self._watches: Watches | None = None
        self._checkpoints: Checkpoints | None = None
        self._restoring: Restoring | None = None
        self._since: dict[str, float] = {}
        self._advised: dict[str, float] = {}
        self._seen: Snapshot | None = None
        self._started_at = clock.now()
        self._started_monotonic = clock.monotonic()

    def connect(  # noqa: PLR0913  # the parts it looks into
        self,
        state: ClusterState,
        cycle_ports: ServicePorts,
        runner: Runner,
        watches: Watches,
        intake: KafkaIntake | None = None,
        checkpoints: Checkpoints | None = None,
        restoring: Restoring | None = None,
    ) -> None:
        """The wheel turns: these are its parts; the last three only where there is a Kafka."""
        self._state, self._cycle_ports, self._runner, self._intake = state, cycle_ports, runner, intake
        self._watches, self._checkpoints, self._restoring = watches, checkpoints, restoring
        self.waiting = None  # the start is over

    def waits_for(self, what: str | None) -> None:
        """The start, or this replica that took the Lease, waits for `what`; None: for nothing any more."""
        self.waiting = what

    @property
    def plan(self) -> Plan | None:
        """The last plan."""
        return self._cycle_ports.last_plan if self._cycle_ports else None

    def snapshot(self) -> Snapshot:
        """The world as it is known now, or was half a second ago."""
        now = self._clock.now()
        if self._state is None:
            return Snapshot(cycle=0, at=now)
        if self._seen is None or not 0 <= now - self._seen.at < PEEK_SECONDS:
            self._seen = self._state.peek(now)
        return self._seen

    def status(self) -> Status:
        """All of it at one instant."""
        return self.status_of(self.snapshot())

    def status_of(self, known: Snapshot) -> Status:
        """All of it now, with notices and people's decisions as in `known`: costs next to nothing."""
        now = self._clock.now()
        return Status(
            cluster=self._settings.cluster_name,
            instance=self.instance,
            leader=self.leader(),
            write_mode=self._settings.write_mode,
            writes_stopped=known.write_stop,
            at=now,
            cycle=known.cycle,
            policy_digest=self._policy_file.digest,
            policy_problems=tuple(str(problem) for problem in self._policy_file.problems),
            sync=self._state.sync(now) if self._state else known.sync,
            plan=self.plan,
            notices=known.notices,
            overrides=known.overrides,
            unready=(*self.unready(), *self._abstaining()),
            installation=self._settings.installation,
            pinned=self._pinned(),
            policy_refused=self.policy_refused(),
            unknown_signs=dict(self._state.signs.unknown()) if self._state else {},
            off=dict(self.off),
            elastic=self._elastic(),
            plan_every_seconds=self._period_seconds,
            namespace=self._settings.pod_namespace,
        )

    def _elastic(self) -> tuple[str, ...]:
        pools = self._cycle_ports.policy.pools if self._cycle_ports is not None else ()
        return tuple(pool.name for pool in pools if pool.kind == "elastic")

    def leader(self) -> str:
        """Name of the replica that acts; "": none does, or it is not known yet."""
        return self._leadership.leader()

    def why_not_acting(self) -> str | None:
        """Why this replica moves nobody."""
        if self._settings.write_mode == "shadow":
            return "it writes nothing (write mode shadow), so nobody is to follow it"
        return self._leadership.why_not()

    def policy_refused(self) -> tuple[str, ...]:
        """Entries of the policy file that are not in force as it has them."""
        return tuple(str(each) for each in self._policy_file.refused)

    def _pinned(self) -> tuple[Pinned, ...]:
        """What was written to and does not belong to the everyday work of a service that acts."""
        pinned = self._restoring.pinned if self._restoring else ()
        return tuple(each for each in pinned if each.state != HELD or self._settings.write_mode == "shadow")

    def unready(self) -> tuple[Unready, ...]:
        """What is not synced, connected or turning, since when."""
        now = self._clock.now()
        troubles = self._troubles(now)
        self._since = {what: self._since.get(what, now) for what in troubles}
        return tuple(Unready(what, self._since[what], detail) for what, detail in troubles.items())

    def _abstaining(self) -> tuple[Unready, ...]:
        """A second source without readings, rules or Lease unread, a topic late, unseen or passed over, a clock off.

        Or pools for which nothing is decided.

        We are ready, but somebody should know.
        """
        troubles = self._state.troubles() if self._state else {}
        beside = {*self._state.advisory, CLOCK} if self._state else {CLOCK}
        advisory = {source: why for source, why in troubles.items() if source in beside}
        advisory |= self._of_topics()
        advisory |= self._of_pools()
        if self._leadership.trouble is not None:
            advisory[LEASE] = self._leadership.trouble
        if self.kube is not None and self.kube.login_trouble is not None:
            advisory["kubernetes-login"] = f"what was read before stays in use: {self.kube.login_trouble}"
        passed_over = self._intake.passed_over if self._intake is not None else ()
        advisory |= {f"producer {topic}": OWN_TOPIC for topic in passed_over}
        self._advised = {source: self._advised.get(source, self._clock.now()) for source in advisory}
        rows = [Unready(source, self._advised[source], why) for source, why in advisory.items()]
        if self.prometheus is not None and self.prometheus.trouble is not None:
            rows.append(Unready("prometheus", self.prometheus.since, self.prometheus.trouble))
        if self.notice_queue is not None and self.notice_queue.trouble is not None:
            rows.append(Unready("notice-queue", self.notice_queue.since, self.notice_queue.trouble))
        return tuple(rows)

    def _of_pools(self) -> dict[str, str]:
        """Pools for which nothing is decided, while others are planned."""
        rows = (self.plan.unplanned or ()) if self.plan is not None else ()
        return {
            f"{UNPLANNED} {' '.join(row.pools)}": f"{row.why}: {listed(row.models)} stay as they are" for row in rows
        }

    def _of_topics(self) -> dict[str, str]:
        """Topics that are read late or are not there, while others are read."""
        if self._intake is None:
            return {}
        behind, missing = self._intake.consumer.behind_by_topic(), self._intake.consumer.missing_by_topic()
        late = {topic: BEHIND.format(seconds) for topic, seconds in behind.items() if seconds > SILENT_SECONDS}
        late |= {topic: UNSEEN.format(seconds) for topic, seconds in missing.items() if seconds > SILENT_SECONDS}
        return {f"kafka-in {topic}": why for topic, why in late.items()}

    def _troubles(self, now: float) -> dict[str, str]:
        if self._state is None or self._runner is None:
            return {"start": self.waiting or "coming up"}
        sync = self._state.sync(now)
        of_sources = self._state.troubles()
        troubles = {} if self.waiting is None else {"leading": f"{UNSUCCEEDED}: {self.waiting}"}
        troubles |= {source: of_sources.get(source, "not listed yet") for source in sync.missing}
        troubles |= {source: of_sources.get(source, "silent") for source in sync.silent}
        if self._intake is not None and self._intake.consumer.trouble is not None:
            troubles["kafka-in"] = self._intake.consumer.trouble
        elif self._intake is not None and self._intake.consumer.stuck_seconds() > SILENT_SECONDS:
            troubles["kafka-in"] = f"no progress for {self._intake.consumer.stuck_seconds():.0f} s"
        if self._outbox is not None and self._outbox.trouble is not None:
            troubles["kafka-out"] = self._outbox.trouble
        if self._recorder.trouble is not None:
            troubles["journal"] = self._recorder.trouble
        if (why := self.planless()) is not None:
            troubles["plan"] = why
        return troubles

    def planless(self) -> str | None:
        """Why the last plan does not stand for now; None when it does."""
        runner = self._runner
        if runner is None:
            return "nothing is decided yet"
        if runner.failed_in_a_row:
            return f"{runner.failed_in_a_row} cycles in a row failed, the last with {runner.failure}"
        if runner.planned_monotonic is None:
            return "nothing is decided yet"
        late = self._clock.monotonic() - runner.planned_monotonic
        if late > max(LATE_SECONDS, 3 * self._period_seconds):
            return f"no plan for {late:.0f} s"
        return None

    @property
    def _period_seconds(self) -> float:
        return self._cycle_ports.policy.plan_every_seconds if self._cycle_ports is not None else 0.0

    @property
    def _kept_monotonic(self) -> float:
        """The monotonic instant of the last checkpoint; before the first, of the start, which found one as it was."""
        acknowledged = self._checkpoints.acknowledged_monotonic if self._checkpoints is not None else None
        return self._started_monotonic if acknowledged is None else acknowledged

    def dead(self) -> str | None:
        """A wheel that stands still is helped by a restart, and so may be one that turns for nothing.

        The latter only where the cluster is seen: what cannot be seen is no better seen after a restart.
        """
        runner, began = self._runner, self._runner.began_monotonic if self._runner is not None else None
        if runner is None or self._state is None or began is None:
            return None
        monotonic = self._clock.monotonic()
        still = monotonic - (runner.ended_monotonic or began)
        if still > max(DEAD_SECONDS, 5 * self._period_seconds):
            return f"no cycle ended for {still:.0f} s"
        fruitless = monotonic - (runner.planned_monotonic or began)
        sync = self._state.sync(self._clock.now())
        if fruitless > max(FRUITLESS_SECONDS, 5 * self._period_seconds) and not (sync.missing or sync.stale):
            return f"no cycle planned for {fruitless:.0f} s, the last failed with {runner.failure}"
        return None

    def _pool_figures(self, policy: Policy) -> Iterator[Figure]:
        failed = self._runner.pools_failed_in_a_row if self._runner else {}
        for pool in policy.pools:
            yield Figure("rebalancer_pool_failed_cycles_in_a_row", failed.get(pool.name, 0), (pool.name,))

    def metrics(self) -> bytes:
        """Prometheus exposition format."""
        return self._metrics.text(self._figures(self._clock.now()))

    def _figures(self, now: float) -> Iterator[Figure]:
        known = self.snapshot()
        leads = self._leadership.leads()
        yield from build_figures(self._settings, leads=leads)
        yield Figure("rebalancer_start_timestamp_seconds", self._started_at)
        if self._period_seconds:
            yield Figure("rebalancer_plan_every_seconds", self._period_seconds)
        yield Figure("rebalancer_checkpoint_every_seconds", self._settings.checkpoint_seconds)
        yield Figure("rebalancer_failed_cycles_in_a_row", self._runner.failed_in_a_row if self._runner else 0)
        yield from policy_figures(self._policy_file)
        yield Figure("rebalancer_journal_good", self._recorder.trouble is None)
        if leads and self._outbox is not None:
            yield Figure("rebalancer_checkpoint_age_seconds", self._clock.monotonic() - self._kept_monotonic)
        yield from sync_figures(self._state.sync(now) if self._state else Sync(missing=tuple(SOURCES)))
        yield from people_figures(known)
        if self._watches is not None:
            yield from watch_figures(self._watches)
        yield Figure("rebalancer_clock_step_seconds", round(self._clock.stepped_seconds, 3))
        if self.kube is not None and self.kube.server_offset_seconds is not None:
            yield Figure("rebalancer_clock_offset_seconds", round(self.kube.server_offset_seconds, 1))
        yield from output_figures(self._outbox, self.kube)
        if self._restoring is not None:
            yield from pinned_figures(self._restoring.pinned)
        if self.prometheus is not None:
            yield from prometheus_figures(self.prometheus)
        if self.notice_queue is not None:
            yield from queue_figures(self.notice_queue)
        if self._state and self._cycle_ports:
            yield from input_figures(self._state, self._intake)
            yield from notice_figures(known, self._cycle_ports.memory)
            yield from start_figures(known)
            yield from latency_figures(known, self._cycle_ports.policy)
            yield from ledger_figures(self._cycle_ports.books, self._cycle_ports.policy)
            yield from self._pool_figures(self._cycle_ports.policy)
            yield from prediction_figures(self.predictions.known, self._cycle_ports.policy)
        if self.plan is not None:
            sees_replicas = self._state is not None and self._state.sync(now).sees_replicas
            yield from plan_figures(self.plan, now, sees_replicas=sees_replicas)

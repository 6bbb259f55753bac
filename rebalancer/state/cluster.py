"""The one writer: every event goes in here, every snapshot comes out.

Nothing is computed when an event comes but what the next event needs; views and readings are rebuilt when somebody
looks, and only where something changed.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from operator import attrgetter

from msgspec.structs import replace

from rebalancer.domain.arithmetic import doomed_nodes
from rebalancer.domain.cluster import OF_PEOPLE, Node, NodeClaim, Pod, Workload, sources_beside
from rebalancer.domain.events import (
    CapacityNotice,
    Event,
    MetricSample,
    ObjectChanged,
    ObjectGone,
    ObjectsListed,
    ObjectUnreadable,
    SourceState,
)
from rebalancer.domain.outcome import Outcome
from rebalancer.domain.people import Override, WriteStop
from rebalancer.domain.pinned import Pinned
from rebalancer.domain.policy import Policy
from rebalancer.domain.snapshot import Snapshot
from rebalancer.domain.sync import Sync
from rebalancer.domain.target_kinds import DEPLOYMENT
from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.state import wakes
from rebalancer.state.checkpoint import ModelPast
from rebalancer.state.devices import Devices
from rebalancer.state.foreign import ForeignPast
from rebalancer.state.holdings import Holdings
from rebalancer.state.loads import Loads
from rebalancer.state.named import named
from rebalancer.state.notices import NoticePast, Notices
from rebalancer.state.objects import Change, Objects
from rebalancer.state.outlooks import Outlooks
from rebalancer.state.pinned import pinned_objects
from rebalancer.state.pools import Pools
from rebalancer.state.quotas import Quotas
from rebalancer.state.sources import Sources
from rebalancer.state.unchanged import unchanged

EARLY_AT_MOST = 50_000  # samples: some 30 MB, for as long as a start takes


class ClusterState:
    """What the service knows. `wakes`: why the runner should not wait; `offsets`: next offset per (topic, partition).

    `offsets` is the intake's to move, past records that are in here or safe in the dead-letter topic; it goes into the
    checkpoint with them. `installation`: our name on what we write to. `marks_victims`, `drains_nodes`: as the snapshot
    has them. `observes`: nothing is ever written, so our CRDs need not be there. The rest is as its owner has it.
    """

    def __init__(  # noqa: PLR0913  # what it is, and what the snapshot has of the settings
        self,
        policy: Policy,
        started_at: float,
        installation: str = "",
        *,
        marks_victims: bool = True,
        drains_nodes: bool = False,
        observes: bool = False,
    ) -> None:
        self.wakes: set[str] = set()
        self.offsets: dict[tuple[str, int], int] = {}
        self._objects = Objects()
        self._sources = Sources(others=OF_PEOPLE if observes else ())
        self.advisory = self._sources.advisory
        self._devices = Devices(self._objects)
        self._holdings = Holdings(policy, self._objects, self._devices, installation)
        self.succeed_foreign, self.foreign_changes = self._holdings.succeed_foreign, self._holdings.foreign_changes
        self.starts, self.pod_named = self._holdings.starts, self._holdings.pod_named
        self._pools = Pools(policy, self._objects, self._holdings.model_of, self._devices, installation)
        self._quotas = Quotas(policy, self._objects)
        self._notices = Notices(policy, self._objects, self._holdings, self._pools)
        self.signs = self._notices.signs
        self._loads = Loads(policy, started_at)
        self.unknown_models = self._loads.unknown_models
        self._outlooks = Outlooks(policy, self._loads.columns)
        self._early: list[MetricSample] | None = []  # samples that came before the pods they speak of
        self._policy, self._installation = policy, installation
        self._marks_victims, self._drains_nodes = marks_victims, drains_nodes
        self._notices_touched = False
        self._under_notice: frozenset[tuple[str, float, bool, str]] = frozenset()
        self._counters: Counter[str] = Counter()
        self._noted: list[Outcome] = []
        self._handed: tuple[Outcome, ...] = ()
        self._cycle = 0
        self._last = Snapshot(cycle=0, at=started_at)
        self._follow_kinds(started_at)

    def set_policy(self, policy: Policy, now: float) -> None:
        """Take over a policy; what stays in it keeps its past."""
        self._policy = policy
        self._holdings.set_policy(policy)
        self._pools.set_policy(policy)
        self._quotas.set_policy(policy)
        self._loads.set_policy(policy)
        self._outlooks.set_policy(policy, self._loads.columns)
        self._notices.set_policy(policy, now)
        self._follow_kinds(now)
        self._look_for_nodes(now)
        self._wake_for_notices(now)
        self.wakes.add(wakes.POLICY)

    def _follow_kinds(self, now: float) -> None:
        """Expect the targets of each kind that the policy names; Deployments are expected in any case."""
        specs = (spec for model in self._policy.models for spec in model.targets if spec.kind != DEPLOYMENT)
        kinds = {spec.of.source: spec.kind for spec in specs}
        others = sources_beside(self._policy.pools)
        self._move(self._objects.follow(kinds, others), now)
        self._sources.follow({*kinds, *others}, now)

    def _look_for_nodes(self, at: float) -> None:
        """Which of the models' pods are Ready on a node that is there, and which nodes are missing."""
        pods = tuple(self._model_pods())
        leaders = {pod.uid: (model, self._holdings.ready_at(pod)) for pod, model in pods if pod.member == 0}
        self._loads.set_pods(leaders, {pod.uid: model for pod, model in pods if pod.member > 0})
        self._holdings.nodes_listed()
        self._notices.nodes_listed(at)

    def _model_pods(self) -> Iterable[tuple[Pod, str]]:
        for pod in self._objects.all(Pod):
            model = self._holdings.model_of(pod.workload)
            if model is not None and not pod.terminal:
                yield pod, model

    # --- what comes in

    def apply(self, event: Event, now: float) -> None:
        """Take one event."""
        self.apply_all((event,), now)

    def apply_all(self, events: Iterable[Event], now: float) -> None:
        """Take events in the order in which their sources handed them out; the same event twice is the same once."""
        take, launchers = self._loads.take, self._holdings.bindings.launchers
        for event in events:
            if type(event) is MetricSample:
                if self._early is None:
                    take(event, now) if event.model and event.pod not in launchers else self._take_of_pod(event, now)
                else:
                    self._wait_for_pods(event)
            else:
                self._apply(event, now)
        self._notices.look(now, lambda: self._certain(now))
        if self._notices_touched:
            self._wake_for_notices(now)
        self._loads.pour()
        if self._loads.surge(now):
            self.wakes.add(wakes.SURGE)

    def _take_of_pod(self, sample: MetricSample, now: float) -> None:
        """What a launcher tells is its requester's; where a sample names no model, its pod says whose it is."""
        for one in named(sample, self._holdings, self._loads.model_of, self._counters):
            self._loads.take(one, now)

    def _certain(self, now: float) -> bool:
        """Whether the lists of nodes and pods are whole and fresh."""
        sync = self.sync(now)
        return not {"nodes", "pods"} & {*sync.missing, *sync.stale}

    def _wait_for_pods(self, sample: MetricSample) -> None:
        """At a start Kafka may be quicker than the first list of pods, and no pod would be known."""
        if self._early is not None and len(self._early) < EARLY_AT_MOST:
            self._early.append(sample)
        else:
            self._counters["before-pods"] += 1

    def _apply(self, event: Event, now: float) -> None:
        match event:
            case CapacityNotice():
                self._notices.tell(event, now)
                self._notices_touched = True
            case SourceState():
                self._sources.reported(event, now)
            case ObjectsListed() | ObjectChanged() | ObjectUnreadable() | ObjectGone():
                if self._objects.takes(event.source):
                    self._object(event, now)
                else:
                    self._counters["unknown-source"] += 1

    def _object(self, event: ObjectsListed | ObjectChanged | ObjectUnreadable | ObjectGone, now: float) -> None:
        (self._sources.listed if isinstance(event, ObjectsListed) else self._sources.heard)(event.source, now)
        match event:
            case ObjectsListed():
                self._move(self._objects.relisted(event), event.at)
                if event.source == "nodes":
                    self._look_for_nodes(event.at)
                if event.source == "pods" and self._early is not None:
                    early, self._early = self._early, None
                    for sample in early:
                        self._take_of_pod(sample, now)
            case ObjectChanged():
                self._move(self._objects.changed(event), event.at)
            case ObjectUnreadable():
                self._objects.unreadable(event)
                if event.source == "nodes":
                    self._look_for_nodes(event.at)
            case ObjectGone():
                self._move(self._objects.gone(event), event.at)

    def _move(self, changes: Iterable[Change], at: float) -> None:
        for change in changes:
            old, new = change
            if new is None:
                self._wake(change)  # while a node that leaves is still in its pool
            self._holdings.foreign.saw(change, at)
            self._holdings.bindings.moved(change, at)
            nodes = self._devices.moved(change)
            self._holdings.moved(change)
            self._pools.moved(change, at, nodes)
            self._quotas.moved(change)
            self._notices.moved(change, at)
            if new is not None:
                self._wake(change)
            if isinstance(new, Pod):
                self._pod_is(new)
            elif isinstance(old, Pod):
                self._pod_gone(old)
            if isinstance(new or old, Node | NodeClaim | Override):
                self._notices_touched = True
            self._others_are(change)

    def _others_are(self, change: Change) -> None:
        """Look at pods anew whose node came or went, or of whose replicas it is known now how many pods they have."""
        old, new = change
        if isinstance(new, Workload) and new.pods != (old.pods if isinstance(old, Workload) else 1):
            for pod in self._objects.pods_of.get(new.ref):
                self._pod_is(pod)
        for obj in change:
            if isinstance(obj, Node) and None in change:
                for _, pod in self._holdings.pods_on(obj.name):
                    self._pod_is(pod)
        if isinstance(old, Node) and old.ready and not (isinstance(new, Node) and new.ready):
            self._loads.silenced(one.id for one, pod in self._holdings.pods_on(old.name) if pod.deleting_at is None)

    def _pod_gone(self, pod: Pod) -> None:
        if pod.member > 0:
            self._pod_is(pod)
        self._loads.pod_gone(pod.uid)

    def _wake(self, change: Change) -> None:
        self.wakes.update(wakes.reasons(change, self._holdings.model_of, self._pools.has))

    def _pod_is(self, pod: Pod) -> None:
        """Readings come from the pods that lead a replica, and count while all of its pods serve."""
        model = self._holdings.model_of(pod.workload)
        if model is None or pod.terminal:
            self._loads.pod_gone(pod.uid)
        elif pod.member > 0:
            self._loads.worker_is(model, pod.uid)
        if model is None:
            return
        for leader in (pod,) if pod.member == 0 and not pod.terminal else self._holdings.leaders(pod):
            self._loads.pod_is(model, leader.uid, self._holdings.ready_at(leader))

    def _wake_for_notices(self, now: float) -> None:
        self._notices_touched = False
        under = frozenset(
            (view.node, view.deadline, view.voluntary, view.confidence) for view in self._notices.views(now)
        )
        if under - self._under_notice:
            self.wakes.add(wakes.NOTICE)
        self._under_notice = under

    def note_write(
        self, model: str, target: WorkloadRef, replicas: int, at: float, *, minimum: int | None = None
    ) -> None:
        """A write of `replicas` was acknowledged: it counts until the watch shows it; `minimum`: as for `Holdings`."""
        if self._holdings.model_of(target) == model:
            self._holdings.note_write(target, replicas, at, minimum)

    def note(self, outcome: Outcome, now: float) -> None:  # noqa: ARG002  every input comes with its instant
        """Notes an outcome of a write for the next cycle."""
        self._noted.append(outcome)

    def stepped(self, seconds: float) -> None:
        """The clock was set by so many seconds: what came in stays as old as it is.

        Event times, deadlines and what survives a restart are UTC, and are held against the new one.
        """
        self.past_stepped(seconds)
        self._pools.stepped(seconds)
        self._sources.stepped(seconds)
        self._loads.stepped(seconds)
        self._noted = [replace(outcome, at=outcome.at + seconds) for outcome in self._noted]

    def past_stepped(self, seconds: float) -> None:
        """As `stepped`, of what others did and of nodes that go or are gone: all that a start restores by its age."""
        self._notices.stepped(seconds)
        self._holdings.stepped(seconds)

    def take_wakes(self) -> frozenset[str]:
        """The reasons to begin a cycle now; they are forgotten with the answer."""
        taken, self.wakes = frozenset(self.wakes), set()
        return taken

    # --- what goes out

    def snapshot(self, now: float, cycle: int) -> Snapshot:
        """The world for cycle `cycle`, with the outcomes noted before its first snapshot."""
        return self._look(now, self.outcomes(cycle), ahead=True)

    def outcomes(self, cycle: int) -> tuple[Outcome, ...]:
        """Outcomes for cycle `cycle`: all that were noted before it first asked."""
        if cycle != self._cycle:
            self._cycle = cycle
            self._handed = tuple(self._noted)
            self._noted.clear()
        return self._handed

    def peek(self, now: float) -> Snapshot:
        """The world now; outcomes that no cycle has had yet stay for the next one."""
        return self._look(now, tuple(self._noted), ahead=False)

    def _look(self, now: float, outcomes: tuple[Outcome, ...], *, ahead: bool) -> Snapshot:
        last, was = self._last, {view.node: view for view in self._last.notices}
        notices = unchanged(last.notices, tuple(unchanged(was.get(one.node), one) for one in self._notices.views(now)))
        models, pools = self._loads.loaded.onto(self._holdings.views(now)), self._pools.views(self._quotas.lowest())
        loads = self._loads.loads(now)
        overrides = tuple(sorted(self._objects.all(Override), key=attrgetter("name", "namespace")))
        if ahead:
            doomed = doomed_nodes(notices, pools, self._policy.nodes, now)
            self._outlooks.look(loads, models, doomed, self._loads.rings, now)
        self._last = Snapshot(
            cycle=self._cycle,
            at=now,
            sync=unchanged(last.sync, self.sync(now)),
            write_stop=min(self._objects.all(WriteStop), key=lambda stop: (stop.created_at, stop.name), default=None),
            overrides=unchanged(last.overrides, overrides),
            notices=notices,
            pools=pools,
            models=models,
            loads=unchanged(last.loads, self._outlooks.onto(loads)),
            outcomes=outcomes,
            marks_victims=self._marks_victims,
            quotas=self._quotas.views(),
            ranks=self._quotas.ranks(),
            drains_nodes=self._drains_nodes,
            unseen=(*self._holdings.unseen(), *self._pools.unseen()),
        )
        return self._last

    def sync(self, now: float) -> Sync:
        """Which sources are missing or stale."""
        return self._sources.sync(now)

    def troubles(self) -> dict[str, str]:
        """The sources with a trouble, each with a sentence that says which."""
        return self._sources.trouble()

    def counters(self) -> Mapping[str, int]:
        """Numbers of inputs by what became of them, in a small closed set of words."""
        accepted = Counter({"accepted": self._loads.accepted})
        return accepted + self._counters + self._loads.counters + self._objects.counters + self._notices.counters

    def pinned(self) -> tuple[Pinned, ...]:
        """The objects that carry values written by us or another installation, by the policy in force."""
        return pinned_objects(self._objects, self._policy, self._installation)

    # --- the checkpoint

    def rings_bytes(self, model: str) -> bytes:
        """One model's rings and what was measured of it. Raises KeyError for a model not in the policy."""
        return self._loads.past(model, offsets=self.offsets, starts=self._holdings.starts.past(model)).to_bytes()

    def restore_rings(self, model: str, data: bytes) -> None:
        """Put back what `rings_bytes` gave. Raises ValueError when the bytes are damaged; KeyError as above."""
        past = ModelPast.from_bytes(data)
        self._loads.restore(model, past)
        self._holdings.restore_starts(model, past.known_starts)

    def resume(self, seen: Snapshot) -> None:
        """Go on from what the last cycle before a start saw, after the rings are restored: outlooks, starts."""
        self._holdings.resume(seen.models)
        doomed = doomed_nodes(seen.notices, seen.pools, self._policy.nodes, seen.at)
        self._outlooks.resume(seen.loads, seen.models, doomed, self._loads.rings, seen.at)

    def foreign_past(self) -> tuple[ForeignPast, ...]:
        """The last changes by others to the numbers that we write, by target."""
        return self._holdings.foreign_past()

    def restore_foreign(self, past: Iterable[ForeignPast]) -> None:
        """Put back what `foreign_past` gave: who fought us before a restart is not fought with after it."""
        self._holdings.restore_foreign(past)

    def notices_past(self) -> tuple[NoticePast, ...]:
        """Knowledge of nodes under notice and of nodes that are gone, for the checkpoint."""
        return self._notices.past()

    def restore_notices(self, past: Iterable[NoticePast]) -> None:
        """Put back what `notices_past` gave, before or after the objects are listed."""
        self._notices.restore(past)
        self._notices_touched = True

"""What each model holds: its targets, their autoscalers and pods. Only models with a change are looked at again."""

from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from rebalancer.domain.autoscalers import Hpa, PodAutoscaler, ScaledObject
from rebalancer.domain.cluster import DeviceObject, Node, Pod, Workload
from rebalancer.domain.dual_pods import Launcher
from rebalancer.domain.policy import Model, Policy, Pool
from rebalancer.domain.snapshot import AutoscalerView, ModelView, PodView, TargetView
from rebalancer.domain.starts import MeasuredStart
from rebalancer.domain.target_spec import TargetSpec
from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.state.bindings import Bindings
from rebalancer.state.devices import Devices
from rebalancer.state.foreign import ForeignChanges, ForeignPast
from rebalancer.state.kept_views import KeptViews
from rebalancer.state.metric import metric_view
from rebalancer.state.objects import Change, Objects
from rebalancer.state.replicas import replicas_of
from rebalancer.state.starts import Starts
from rebalancer.state.views import (
    applied_views,
    autoscaler_view,
    by_others,
    chosen_autoscaler,
    is_bounded,
    missing_target,
    owner_views,
    pod_phase,
    pod_view,
    shows,
    target_view,
)

METRIC = "metric"  # the actuation in which nothing is written, and a number is answered
CONTRADICTED_SECONDS = 10.0  # a write in whose place the watch shows another number by then is taken as lost
UNHEARD_SECONDS = 90.0  # so is one of which it has said nothing: one that is silent for 75 s lists everything anew


class _Asked(Struct, frozen=True):
    replicas: int
    at: float
    contradicted: bool = False  # the object was shown since, with another number

    def lost(self, now: float) -> bool:
        """Whether it is no longer to be expected."""
        return now - self.at >= (CONTRADICTED_SECONDS if self.contradicted else UNHEARD_SECONDS)


class _Target(Struct, frozen=True):
    model: Model
    spec: TargetSpec
    pool: Pool


class Holdings:
    """Model views, kept until one of their objects changes. `foreign` is told of changes before `moved` is."""

    def __init__(self, policy: Policy, objects: Objects, devices: Devices, installation: str = "") -> None:
        self._devices = devices
        self.foreign = ForeignChanges(objects, lambda ref: ref in self._targets)
        self._objects = objects
        self._installation = installation
        self._unconfirmed: dict[WorkloadRef, _Asked] = {}
        self.bindings = Bindings(objects)
        self.starts = Starts(objects, self.bindings)
        self._before: dict[
            str, ModelView
        ] = {}  # starts as the last cycle of before ours had them, until one is measured
        self._pods: dict[str, tuple[Pod, bool, PodView]] = {}
        self._views = KeptViews("model", lambda model: self._view(self._models[model]), self._pools_of)
        self.unseen = self._views.unseen
        self.set_policy(policy)

    def set_policy(self, policy: Policy) -> None:
        """Take over models and pools."""
        pools = {pool.name: pool for pool in policy.pools}
        self._models = {model.id: model for model in policy.models}
        self._targets = {
            WorkloadRef(model.namespace, spec.kind, spec.name): _Target(model, spec, pools[spec.pool])
            for model in policy.models
            for spec in model.targets
        }
        self._by_claims = {each.model.id for each in self._targets.values() if each.pool.device_class is not None}
        self._unconfirmed = {ref: written for ref, written in self._unconfirmed.items() if ref in self._targets}
        self._views.follow(self._models)
        self._answer_as_the_policy_says()

    def model_of(self, workload: WorkloadRef | None) -> str | None:
        """The model a workload is a target of."""
        target = self._targets.get(workload) if workload is not None else None
        return target.model.id if target is not None else None

    def pod_named(self, namespace: str, name: str) -> tuple[str, str, float] | None:
        """(model, UID, since when its readings are its own) of a model's pod; None: no such pod, or nobody's.

        Of a launcher (`domain.dual_pods`) those of its requester, whose readings they are from the binding on.
        """
        pod, since = self._objects.one(Pod, name, namespace), 0.0
        if pod is not None and isinstance(pod.dual, Launcher):
            bound = self.bindings.serves(pod)
            since = 0.0 if bound is None else bound.since
            pod = None if bound is None else self._objects.one(Pod, pod.dual.name, namespace)
        model = None if pod is None or pod.terminal else self.model_of(pod.workload)
        return None if pod is None or model is None else (model, pod.uid, max(since, pod.created_at))

    def pods_on(self, node: str) -> Iterator[tuple[Model, Pod]]:
        """The models' pods that are bound to a node, terminating ones included, in no particular order."""
        for pod in self._objects.pods_on.get(node):
            target = self._targets.get(pod.workload) if pod.workload is not None else None
            if target is not None and not pod.terminal:
                yield target.model, pod

    def ready_at(self, pod: Pod) -> float | None:
        """The instant since which all pods of the replica that `pod` leads are Ready; None while one of them is not."""
        pods = 1 if pod.ordinal is None else self._pods_per_replica(pod)
        members = (pod,) if pods == 1 else (pod, *(each for each in self._alive(pod) if each.uid != pod.uid))
        if len(members) < pods or any(self._phase(each) != "ready" for each in members):
            return None
        return max(each.created_at if each.ready_at is None else each.ready_at for each in members)

    def _phase(self, pod: Pod) -> str:
        return pod_phase(pod, lost=self._objects.lacks(pod.node))

    def leaders(self, pod: Pod) -> tuple[Pod, ...]:
        """The pod that leads the replica of which this is another pod; none while there is none."""
        return tuple(each for each in self._alive(pod) if each.member == 0)

    def _alive(self, pod: Pod) -> Iterator[Pod]:
        for each in self._objects.pods_numbered.get((pod.workload, pod.ordinal)):
            if each.deleting_at is None and not each.terminal:
                yield each

    def _pods_per_replica(self, pod: Pod) -> int:
        workload = self._objects.workload(pod.workload) if pod.workload is not None else None
        return 1 if workload is None else workload.pods

    # --- what comes in

    def nodes_listed(self) -> None:
        """A list of nodes came: any pod may have lost its node, or found it."""
        self._views.dirty.update(self._models)

    def moved(self, change: Change) -> None:
        """An object was added, changed or removed."""
        for obj in change:
            ref = _workload_of(obj)
            if ref in self._targets:
                self._views.dirty.add(self._targets[ref].model.id)
            if isinstance(obj, Workload | Hpa | ScaledObject):
                self._settle(ref, obj if obj is change[1] else None)
            if isinstance(obj, Node) and None in change:  # it came, or it is gone
                self._views.dirty.update(model.id for model, _ in self.pods_on(obj.name))
        if any(isinstance(obj, DeviceObject) for obj in change):
            self._views.dirty.update(self._by_claims)
        old, new = change
        if isinstance(new, Pod):
            self._see(new, known=old is not None)
        elif isinstance(old, Pod):
            self._pods.pop(old.uid, None)
            self.starts.gone(old)

    def _see(self, pod: Pod, *, known: bool) -> None:
        target = self._targets.get(pod.workload) if pod.workload is not None else None
        if target is None or pod.member > 0:
            return
        if self.starts.see(pod, target.model.id, target.pool.name, known=known):
            self._before.pop(target.model.id, None)

    def note_write(self, target: WorkloadRef, replicas: int, at: float, minimum: int | None) -> None:
        """We wrote `replicas` at `at`; they count until a watch shows them, 10 s where it shows others, 90 s at most.

        `minimum`: the lower bound beside it, None where it is no autoscaler's maximum. A number that is answered and
        not written counts until the next one.
        """
        if target in self._targets and self._targets[target].model.actuation == METRIC:
            self.foreign.answers(target, replicas)
            self._views.dirty.add(self._targets[target].model.id)
        elif target in self._targets:
            self.foreign.note_write(target, (replicas,) if minimum is None else (minimum, replicas))
            self._unconfirmed[target] = _Asked(replicas, at)
            self._settle(target)
            self._views.dirty.add(self._targets[target].model.id)

    def stepped(self, seconds: float) -> None:
        """The clock was set by so many seconds: what we and others wrote is as old as before."""
        self.foreign.stepped(seconds)
        self.bindings.stepped(seconds)
        self._views.dirty.update(self._models)
        self._unconfirmed = {
            ref: replace(written, at=written.at + seconds) for ref, written in self._unconfirmed.items()
        }

    def _settle(self, ref: WorkloadRef | None, seen: Workload | Hpa | ScaledObject | None = None) -> None:
        """Forget what we wrote once it is shown; note that it is not where `seen` is what we wrote to."""
        written = self._unconfirmed.get(ref) if ref is not None else None
        if ref is None or written is None:
            return
        autoscaler = self._autoscaler(ref)
        if shows(written.replicas, self._objects.workload(ref), autoscaler):
            del self._unconfirmed[ref]
        elif seen is not None and isinstance(seen, Workload) != is_bounded(autoscaler):
            self._unconfirmed[ref] = replace(written, contradicted=True)

    def slow_load_seconds(self, model: Model) -> float:
        """From having a node to Ready: what nine of ten starts took at most, the policy's figure until it is known."""
        before = self._before.get(model.id)
        _, slow = self.starts.load_seconds(model.id) if before is None else _of(before)
        return model.load_seconds if slow is None else slow

    def restore_starts(self, model: str, starts: Iterable[MeasuredStart]) -> None:
        """Add measured starts, as after a restart."""
        self.starts.restore(model, starts)
        self._views.dirty.add(model)

    def resume(self, seen: Iterable[ModelView]) -> None:
        """Go on with the starts that the last cycle of before ours knew: the checkpoint may be older."""
        self._before = {view.id: view for view in seen if view.load_seconds is not None or view.starts}
        self._views.dirty.update(self._models)

    # --- what goes out

    def views(self, now: float) -> tuple[ModelView, ...]:
        """All models, by id; what did not change is the same value as last time, and so is what `unseen` tells of."""
        for ref in [ref for ref, written in self._unconfirmed.items() if written.lost(now)]:
            del self._unconfirmed[ref]
            self._views.dirty.add(self._targets[ref].model.id)
        self._views.dirty.update(self.starts.look(now))
        return self._views.all()

    def _view(self, model: Model) -> ModelView:
        targets = sorted((self._target(model, spec) for spec in model.targets), key=lambda view: view.pool)
        before = self._before.get(model.id)
        middle, slow = self.starts.load_seconds(model.id) if before is None else _of(before)
        return ModelView(
            id=model.id,
            targets=tuple(targets),
            load_seconds=middle,
            slow_load_seconds=slow,
            starts=self.starts.views(model.id) if before is None else before.starts,
            failed_wakes=self.starts.failed_wakes(model.id),
        )

    def _pools_of(self, model: str) -> list[str]:
        return sorted({spec.pool for spec in self._models[model].targets})

    def _target(self, model: Model, spec: TargetSpec) -> TargetView:
        ref = WorkloadRef(model.namespace, spec.kind, spec.name)
        workload = self._objects.workload(ref)
        if workload is None:
            return missing_target(model, spec)
        written, pool = self._unconfirmed.get(ref), self._targets[ref].pool
        pods = [pod for pod in self._objects.pods_of.get(ref) if pod.holds_gpus]
        replicas = written.replicas if written is not None else None
        view = target_view(
            workload,
            pool,
            self._autoscaler(ref),
            replicas_of(workload, [(pod, self._pod(pod)) for pod in pods], spec.of.victims),
            replicas,
            claimed_gpus=self._claimed(workload, pool),
            running_gpus=max((self._requested_gpus(pod, pool) for pod in pods), default=None),
            by_others=model.actuation != METRIC
            and by_others(workload, self._objects.scaled_objects_of.get(ref), self._objects.hpas_of.get(ref)),
            victims=spec.of.victims,
            borne=[pod.tolerations for pod in pods],
        )
        hpas = self._objects.hpas_of.get(ref)
        chosen = chosen_autoscaler(self._objects.scaled_objects_of.get(ref), hpas)
        owners = owner_views(workload, chosen, self._objects.pod_autoscalers_of.get(ref))
        applied = applied_views(workload, chosen)
        if owners or applied:
            view = replace(view, owners=owners, applied=applied)
        past = self.foreign.of(ref)
        if model.actuation == METRIC:
            desired = None if past is None else past.desired
            view = replace(view, metric=metric_view(model, spec, chosen, hpas, desired))
        if past is None:
            return view
        return replace(view, foreign=past.changes, repaired_at=past.repaired_at, ours=past.ours)

    def _claimed(self, workload: Workload, pool: Pool) -> int:
        """Devices of the pool that each pod of the workload gets by claims."""
        if pool.device_class is None or not workload.claims:
            return 0
        return self._devices.requested(workload.ref.namespace, workload.claims, pool.device_class)

    def _requested_gpus(self, pod: Pod, pool: Pool) -> int:
        """GPUs of the pool that a pod requests; those that it asks for by their extended resource are claims, too."""
        requested = pod.gpus.get(pool.resource, 0)
        return requested if requested or pool.device_class is None else self._devices.of_pod(pod.uid, pool.device_class)

    def foreign_changes(self) -> dict[str, int]:
        """Foreign changes since the start, by model."""
        counts = dict.fromkeys(self._models, 0)
        for ref, count in self.foreign.counts.items():
            if ref in self._targets:
                counts[self._targets[ref].model.id] += count
        return counts

    def foreign_past(self) -> tuple[ForeignPast, ...]:
        """The last foreign changes of the policy's targets."""
        return self.foreign.past(self._targets)

    def restore_foreign(self, past: Iterable[ForeignPast]) -> None:
        """Put them back, as after a restart."""
        self.foreign.restore(past)
        self._answer_as_the_policy_says()

    def succeed_foreign(self, past: Iterable[ForeignPast]) -> None:
        """Go on from what the leader before us asked for."""
        self.foreign.succeed(past)
        self._answer_as_the_policy_says()

    def _answer_as_the_policy_says(self) -> None:
        """A number answered under an actuation that is none any more would come back with it, however old."""
        for ref, target in self._targets.items():
            if target.model.actuation != METRIC:
                self.foreign.answers(ref, None)
        self._views.dirty.update(self._models)

    def _autoscaler(self, ref: WorkloadRef) -> AutoscalerView | None:
        scaled_objects, hpas = self._objects.scaled_objects_of.get(ref), self._objects.hpas_of.get(ref)
        return autoscaler_view(scaled_objects, hpas, self._installation)

    def _pod(self, pod: Pod) -> PodView:
        known, lost = self._pods.get(pod.uid), self._objects.lacks(pod.node)
        if known is None or known[0] is not pod or known[1] is not lost:
            known = self._pods[pod.uid] = (pod, lost, pod_view(pod, lost=lost))
        return known[2]


def _of(view: ModelView) -> tuple[float | None, float | None]:
    """Journals of an older version know no slow starts: its one figure stands for both."""
    slow = view.load_seconds if view.slow_load_seconds is None else view.slow_load_seconds
    return view.load_seconds, slow


def _workload_of(obj: object) -> WorkloadRef | None:
    if isinstance(obj, Pod):
        return obj.workload
    if isinstance(obj, Workload):
        return obj.ref
    return obj.target if isinstance(obj, Hpa | ScaledObject | PodAutoscaler) else None

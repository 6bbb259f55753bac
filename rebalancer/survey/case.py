"""What traps are looked for in: a survey, and what else is known about it."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from rebalancer.domain.policy import Model, Policy, Pool
from rebalancer.domain.target_spec import TargetSpec
from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.survey.labelled import Labelled
from rebalancer.survey.objects import Object, Survey, group_of
from rebalancer.survey.parts import controllers, items, mapped, namespace, part, text, value, whole
from rebalancer.survey.templates import Template, templates_of

_MADE = frozenset({"Pod", "ReplicaSet"})  # kinds that are judged by what made them


class TargetHome(NamedTuple):
    """A target of the policy: the model, its target, and the pool where that is to stand."""

    model: Model
    target: TargetSpec
    pool: Pool


@dataclass(frozen=True)
class Case:
    """One survey and what is known beside it.

    survey: the objects.
    policy: the policy, None where nobody gave one.
    start_seconds: the longest start of a replica that the running service has measured, None where it is not known.
    node_pools: names of Karpenter NodePools that the running service knows as GPU capacity.
    series: by metric the pods, as (namespace, name), that its series in Prometheus name; None where nobody asked.
    last_bounds: by histogram in Prometheus the last bound of its buckets but infinity, in its own unit.
    """

    survey: Survey
    policy: Policy | None = None
    start_seconds: float | None = None
    node_pools: frozenset[str] = frozenset()
    series: Mapping[str, frozenset[tuple[str, str]]] | None = None
    last_bounds: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def templates(self) -> tuple[Template, ...]:
        """All pods there are, by the highest object that has their template."""
        with_templates = [(obj, tuple(templates_of(obj))) for obj in self.survey.objects]
        makers = frozenset(address_of(obj) for obj, templates in with_templates if templates)
        return tuple(each for obj, templates in with_templates if not _made(obj, makers) for each in templates)

    @cached_property
    def gpu_templates(self) -> tuple[Template, ...]:
        """Templates whose pods ask for accelerators, or may get them by claims."""
        return tuple(each for each in self.templates if each.on_gpus)

    @cached_property
    def scalers(self) -> dict[WorkloadRef, list[Object]]:
        """By target, what moves its replicas: ScaledObjects, AIBrix PodAutoscalers, and HPAs that neither made."""
        scalers: dict[WorkloadRef, list[Object]] = defaultdict(list)
        for kind, group in (
            ("ScaledObject", "keda.sh"),
            ("HorizontalPodAutoscaler", "autoscaling"),
            ("PodAutoscaler", "autoscaling.aibrix.ai"),
        ):
            for obj in self.survey.of(kind, group):
                if text(obj, "spec", "scaleTargetRef", "name") and not (_of_keda(obj) or _of_aibrix(obj)):
                    scalers[target_of(obj)].append(obj)
        return dict(scalers)

    def homes(self, workload: WorkloadRef) -> list[TargetHome]:
        """Where the policy wants the pods of a workload; none without a policy, or for what it does not name."""
        return self._homes.get(workload, [])

    def pools_of(self, node: Object) -> list[Pool]:
        """The policy's pools of a node: of each resource the first whose labels it has."""
        labels = mapped(node, "metadata", "labels").items()
        first: dict[str, Pool] = {}
        for pool in self.policy.pools if self.policy else ():
            if pool.node_labels.items() <= labels:
                first.setdefault(pool.resource, pool)
        return list(first.values())

    def made_for(self, scaled: Object) -> Object | None:
        """The HPA that KEDA made for a ScaledObject, where it is here."""
        return self._hpas_of_keda.get(target_of(scaled))

    def concerns(self, scaler: Object) -> bool:
        """Whether an autoscaler moves accelerators: left out is only whose target is here and asks for none."""
        pods = self._by_owner.get(target_of(scaler), [])
        return not pods or any(each.on_gpus for each in pods)

    def fewest(self, template: Template) -> int | None:
        """The fewest pods the workload may have; None: unknown.

        Where the policy names it, its floor says so: replicas and the autoscaler's minimum are what was written last.
        """
        owner = template.owner
        if owner.get("kind") not in {"Deployment", "StatefulSet"}:
            return None
        if self.homes(address_of(owner)):
            return max(1, self.floor_of(address_of(owner)))
        own = whole(owner, "spec", "replicas")
        count = 1 if own is None else own
        for scaler in self.scalers.get(address_of(owner), []):
            count = max(1, whole(scaler, "spec", "minReplicaCount") or whole(scaler, "spec", "minReplicas") or 1)
        return count

    def floor_of(self, workload: WorkloadRef) -> int:
        """Replicas of the policy's floor that a target is to hold: those that its model's other targets do not."""
        left = [0]
        for model, target, _ in self.homes(workload):
            others = (WorkloadRef(model.namespace, each.kind, each.name) for each in model.targets if each != target)
            left.append(model.min_replicas - sum(map(self._least_replicas, others)))
        return max(left)

    def _least_replicas(self, workload: WorkloadRef) -> int:
        """Replicas below which nobody but the service takes a target; 0 of one that is not here."""
        if scalers := self.scalers.get(workload):
            return max(map(_minimum, scalers))
        own = [whole(each.owner, "spec", "replicas") for each in self._by_owner.get(workload, [])]
        return max((1 if each is None else each for each in own), default=0)

    def selected(self, budget: Object) -> list[Template]:
        """The pods that a PodDisruptionBudget is about; without a selector it is about none."""
        selector = value(budget, "spec", "selector")
        return self.chosen(namespace(budget), selector) if isinstance(selector, Mapping) else []

    def chosen(self, space: str, selector: Object) -> list[Template]:
        """The pods of a namespace that a label selector chooses."""
        return self._labelled.chosen(space, selector)

    def namespaces(self) -> frozenset[str]:
        """The namespaces of which pods are known."""
        return self._labelled.namespaces()

    def any_near(self, obj: Object) -> bool:
        """Whether pods of the object's namespace are known."""
        return self._labelled.any_in(namespace(obj))

    def pods_of(self, obj: Object) -> list[Object]:
        """The live pods of a workload, by its own selector."""
        selector = part(obj, "spec", "selector")
        return self._pods.chosen(namespace(obj), selector) if selector else []

    @cached_property
    def services(self) -> Labelled[Object]:
        """The Services, by their own labels."""
        services = self.survey.of("Service", "")
        return Labelled((namespace(each), mapped(each, "metadata", "labels"), each) for each in services)

    @cached_property
    def _hpas_of_keda(self) -> dict[WorkloadRef, Object]:
        """By target the first HPA that KEDA made for it."""
        made: dict[WorkloadRef, Object] = {}
        for hpa in self.survey.of("HorizontalPodAutoscaler", "autoscaling"):
            if _of_keda(hpa):
                made.setdefault(target_of(hpa), hpa)
        return made

    @cached_property
    def _homes(self) -> dict[WorkloadRef, list[TargetHome]]:
        homes: dict[WorkloadRef, list[TargetHome]] = defaultdict(list)
        pools = {pool.name: pool for pool in self.policy.pools} if self.policy else {}
        for model in self.policy.models if self.policy else ():
            for target in model.targets:
                home = TargetHome(model, target, pools[target.pool])
                homes[WorkloadRef(model.namespace, target.kind, target.name)].append(home)
        return dict(homes)

    @cached_property
    def _by_owner(self) -> dict[WorkloadRef, list[Template]]:
        by_owner: dict[WorkloadRef, list[Template]] = defaultdict(list)
        for each in self.templates:
            by_owner[address_of(each.owner)].append(each)
        return dict(by_owner)

    @cached_property
    def _labelled(self) -> Labelled[Template]:
        return Labelled((namespace(each.owner), each.labels, each) for each in self.templates)

    @cached_property
    def _pods(self) -> Labelled[Object]:
        pods = self.survey.of("Pod", "")
        return Labelled((namespace(each), mapped(each, "metadata", "labels"), each) for each in pods)


def address_of(obj: Object) -> WorkloadRef:
    """Where autoscalers and the policy find an object."""
    return WorkloadRef(namespace(obj), text(obj, "kind"), text(obj, "metadata", "name"))


def target_of(scaler: Object) -> WorkloadRef:
    """What an autoscaler moves; without a kind it is a Deployment, as KEDA has it."""
    ref = part(scaler, "spec", "scaleTargetRef")
    return WorkloadRef(namespace(scaler), text(ref, "kind") or "Deployment", text(ref, "name"))


def _minimum(scaler: Object) -> int:
    """Replicas below which an autoscaler does not go: KEDA's default is 0, an HPA's is 1."""
    if scaler.get("kind") == "ScaledObject":
        return whole(scaler, "spec", "minReplicaCount") or 0
    least = whole(scaler, "spec", "minReplicas")
    return 1 if least is None else least


def _of_keda(hpa: Object) -> bool:
    return any(text(each, "kind") == "ScaledObject" for each in items(hpa, "metadata", "ownerReferences"))


def _of_aibrix(hpa: Object) -> bool:
    """Whether a PodAutoscaler of strategy HPA made it."""
    owners = controllers(hpa)
    return any(text(each, "kind") == "PodAutoscaler" and group_of(each) == "autoscaling.aibrix.ai" for each in owners)


def _made(obj: Object, makers: frozenset[WorkloadRef]) -> bool:
    """Whether another object here, or always another of its kind, has the template."""
    owners = controllers(obj)
    by_kind = bool(owners) and obj.get("kind") in _MADE
    return by_kind or any(
        WorkloadRef(namespace(obj), text(each, "kind"), text(each, "name")) in makers for each in owners
    )

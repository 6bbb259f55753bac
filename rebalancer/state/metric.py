"""Whether a target of actuation `metric` follows what we answer: from its ScaledObject, its HPA and the policy."""

from collections.abc import Iterable

from rebalancer.domain.autoscalers import Hpa, ScaledObject
from rebalancer.domain.metric_trigger import desired_path, limits, misfits
from rebalancer.domain.policy import Model
from rebalancer.domain.snapshot import MetricView
from rebalancer.domain.target_spec import TargetSpec
from rebalancer.state.views import KEDA_DEFAULT_MAXIMUM, made_for


def metric_view(
    model: Model, spec: TargetSpec, autoscaler: ScaledObject | Hpa | None, hpas: Iterable[Hpa], desired: int | None
) -> MetricView:
    """How the target follows `desired`. Of several targets none alone has to keep the model's floor, or its most.

    `hpas`: those of the target; of KEDA's the API server may have dropped what the ScaledObject asks for.
    """
    path = desired_path(model.id, spec.pool)
    if not isinstance(autoscaler, ScaledObject) or autoscaler.metric is None:
        what = "no ScaledObject" if not isinstance(autoscaler, ScaledObject) else f"ScaledObject {autoscaler.name}"
        verb = "asks" if not isinstance(autoscaler, ScaledObject) else "does not ask"
        return MetricView(desired, (f"{what} {verb} for {path} by a metrics-api trigger",))
    made = next((hpa for hpa in hpas if made_for(hpa, autoscaler)), None)
    trigger = autoscaler.metric if made is None else autoscaler.metric.followed_by(made.tolerances)
    maximum = KEDA_DEFAULT_MAXIMUM if autoscaler.maximum is None else autoscaler.maximum
    bounds = (autoscaler.minimum or 0, maximum)
    alone = len(model.targets) == 1
    wanted = (model.min_replicas, model.max_replicas) if alone else bounds
    return MetricView(
        desired,
        misfits(trigger, path, model.min_replicas if alone else 0, bounds),
        limits(trigger, wanted, bounds),
    )

"""The simulated HPAs inside: with `actuation: bounds` the product moves their bounds, and they choose between them."""

from typing import Protocol, runtime_checkable

import numpy as np

from rebalancer.sim.controller import Seen
from rebalancer.sim.demand import F64
from rebalancer.sim.peers.hpa import SYNC_SECONDS, HpaMetric, HpaPeer
from rebalancer.sim.peers.signals import Utilisation
from rebalancer.sim.product.stage import Stage

TARGET = 0.7  # of the work that Ready replicas could do: what people set who do not tune


@runtime_checkable
class Seeable(Protocol):
    """A service that writes what it does, second by second, into rows of somebody who looks at several models."""

    def keep_in(self, wait: F64, left: F64, busy: F64, served_by: F64) -> None:
        """From now on into these, shape (seconds,), as `sim.controller.Seen` has them."""
        ...


class Autoscalers:
    """One HPA on each Deployment, its own bounds the model's floor and what the nodes hold."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._hpa = HpaPeer([HpaMetric(Utilisation(), TARGET)])
        scenario, world = stage.scenario, stage.world
        self._bounds = [
            world.add_hpa(
                model.name,
                deployment.ref,
                max(1, model.floor),
                max(1, model.floor, min(model.most, scenario.gpus // model.gpus)),
            )
            for model, deployment in zip(scenario.models, stage.deployments, strict=True)
        ]
        self._seen = _seen(stage)

    def sync(self, second: int) -> None:
        """Every 15 s each HPA looks, and asks its Deployment for what it finds right."""
        if not second or second % SYNC_SECONDS:
            return
        seen, world = self._seen, self._stage.world
        seen.now = second
        for index, deployment in enumerate(self._stage.deployments):
            pods = [pod for pod in deployment.pods.values() if pod.deleted_at is None]
            seen.desired[index] = deployment.replicas
            seen.ready[index] = sum(pod.ready for pod in pods)
            seen.waiting[index] = sum(pod.node is None for pod in pods)
            seen.loading[index] = len(pods) - seen.ready[index] - seen.waiting[index]
        for index, (deployment, bounds) in enumerate(zip(self._stage.deployments, self._bounds, strict=True)):
            world.scale(deployment.ref, self._hpa.within(seen, index, bounds.minimum, bounds.maximum))


def _seen(stage: Stage) -> Seen:
    """What the HPAs see: the services write into its rows. Raises ValueError for services that have none."""
    models, seconds = stage.scenario.models, stage.scenario.seconds
    busy, served_by, left, wait = (np.zeros((len(models), seconds)) for _ in range(4))
    for index, model in enumerate(models):
        service = stage.services[model.name]
        if not isinstance(service, Seeable):
            raise ValueError(f"the HPA inside sees nothing of the service of {model.name}: actuate by scale")  # noqa: TRY004  # a value that a caller chose
        service.keep_in(wait[index], left[index], busy[index], served_by[index])
    return Seen(
        stage.scenario,
        0,
        0,
        work=np.stack([model.work[:seconds] for model in models]),
        requests=np.stack([model.requests[:seconds] for model in models]),
        busy=busy,
        served_by=served_by,
        left=left,
        wait=wait,
        desired=[0] * len(models),
        ready=[0] * len(models),
        loading=[0] * len(models),
        waiting=[0] * len(models),
    )

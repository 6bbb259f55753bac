"""The one policy that the suite judges the product by, made for a scenario: nothing in it is tuned to a trace."""

from rebalancer.domain.policy import Model, Policy, Pool
from rebalancer.domain.signals import ConcurrencySignal, Signals
from rebalancer.domain.slo import Slo
from rebalancer.domain.target_spec import TargetSpec
from rebalancer.sim import scenario as played
from rebalancer.sim.product.machines import NODE_POOL

POOL, ELASTIC_POOL = "gpus", "elastic"
NAMESPACE = "serving"


def default_policy(scenario: played.Scenario, actuation: str = "scale") -> Policy:
    """One primary pool; each model owns what it begins with, and may grow to all GPUs.

    Where the scenario has an elastic pool, so has the policy, with a second target for each model: spot machines whose
    number nobody here decides, or a NodePool on demand. Production's defaults for everything else: class interactive,
    votes by concurrency and latency. A replica carries a full batch within its SLO: who waits, waits to get into it.
    """
    return Policy.model_validate(
        {
            "apiVersion": "rebalancer.io/v1alpha1",
            "kind": "Policy",
            "pools": (_pool(scenario), *((_elastic(scenario),) if scenario.has_elastic else ())),
            "models": tuple(_model(model, scenario, actuation) for model in scenario.models),
        }
    )


def _pool(scenario: played.Scenario) -> Pool:
    return Pool(
        name=POOL,
        kind="primary",
        node_labels={"pool": POOL},
        gpu_limit=sum(scenario.nodes[: len(scenario.nodes) - scenario.elastic]),
        price_per_gpu_hour=scenario.usd_per_gpu_hour,
    )


def _elastic(scenario: played.Scenario) -> Pool:
    launches = scenario.launches
    return Pool(
        name=ELASTIC_POOL,
        kind="elastic",
        node_labels={"pool": ELASTIC_POOL},
        capacity_type="on-demand" if launches else "spot",
        gpu_limit=launches.gpus * launches.most if launches else sum(scenario.nodes[-scenario.elastic :]),
        price_per_gpu_hour=scenario.elastic_usd_per_gpu_hour,
        node_pools=(NODE_POOL,) if launches else (),
        gpus_per_node=launches.gpus if launches else 1,
    )


def _model(model: played.ScenarioModel, scenario: played.Scenario, actuation: str) -> Model:
    return Model.model_validate(
        {
            "id": model.name,
            "namespace": NAMESPACE,
            "targets": (
                TargetSpec(pool=POOL, name=model.name),
                *((TargetSpec(pool=ELASTIC_POOL, name=f"{model.name}-elastic"),) if scenario.has_elastic else ()),
            ),
            "gpus_per_replica": model.gpus,
            "min_replicas": model.floor,
            "max_replicas": max(1, min(model.most, scenario.gpus // model.gpus)),
            "entitlement": model.floor,
            "priority": round(100 * model.priority),
            "slo": Slo(
                latency_seconds=model.slo_wait_seconds,
                budgeting_method="timeslices" if scenario.name in played.BY_MINUTE else "occurrences",
            ),
            "load_seconds": float(model.start_seconds),
            "signals": Signals(concurrency=ConcurrencySignal(per_replica=model.recorded_slots), latency=True),
            "actuation": actuation,
        }
    )

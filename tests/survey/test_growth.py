"""What a look for traps costs grows with the objects, not with their square: a fleet has thousands."""

import pytest

from rebalancer.domain.policy import Policy
from rebalancer.survey.case import Case
from rebalancer.survey.objects import Survey
from rebalancer.survey.traps.table import TRAPS
from rebalancer.survey.traps.trap import Trap
from tests.builders import a_model, a_policy, a_pool
from tests.lines import lines
from tests.survey.fixtures import OUR_TRIGGER
from tests.survey.manifests import Manifest, a_budget, a_deployment, a_manifest, a_pod_monitor, a_scaled_object, an_hpa

FEW, MANY = 20, 80
MOST_FOLD = 6.0  # four times as many objects take about four times the lines; who looks at all for each 13 and more


def a_fleet(count: int) -> tuple[list[Manifest], Policy]:
    """So many models, each with what monitors it and KEDA's HPA."""
    objects: list[Manifest] = []
    names = [f"m{number}" for number in range(count)]
    for name in names:
        owner = {"kind": "ScaledObject", "name": name, "controller": True}
        asked = OUR_TRIGGER["metadata"] | {
            "url": f"http://rebalancer.rebalancer.svc:8080/v1/models/{name}/desired/a100"
        }
        scaled = a_scaled_object(OUR_TRIGGER | {"metadata": asked}, name=name, scaleTargetRef={"name": name})
        monitored = {"selector": {"matchLabels": {"of": name}}, "endpoints": [{"interval": "15s"}]}
        objects += [
            a_deployment(name),
            scaled,
            an_hpa(f"keda-hpa-{name}", name, ownerReferences=[owner]),
            a_budget(name, name),
            a_manifest("v1", "Service", name, {"selector": {"app": name}}, labels={"of": name}),
            a_manifest("monitoring.coreos.com/v1", "ServiceMonitor", name, monitored),
            a_pod_monitor("15s", name),
        ]
    return objects, a_policy(*(a_model(name, actuation="metric") for name in names), pools=(a_pool(gpus=1000),))


def cost(trap: Trap, count: int) -> int:
    """Lines that run while the trap is looked for; what all traps share is there."""
    objects, policy = a_fleet(count)
    case = Case(Survey(tuple(objects)), policy)
    assert case.gpu_templates
    return lines(lambda: list(trap.look(case)))


@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap.key)
def test_a_look_costs_as_much_again_for_as_many_objects_more(trap: Trap) -> None:
    few, many = cost(trap, FEW), cost(trap, MANY)
    assert many < MOST_FOLD * few, f"{few} lines for {FEW} models, {many} for {MANY}"

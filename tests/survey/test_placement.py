"""Where a workload's pods may stand, as the scheduler would say."""

import pytest

from rebalancer.domain.cluster import Taint, Toleration
from rebalancer.survey.first_policy.placement import Place, lasting, may_stand
from rebalancer.survey.first_policy.things import things_of
from rebalancer.survey.first_policy.workloads import GpuWorkload, workloads_of
from rebalancer.survey.objects import Survey
from tests.survey.cluster import Json, engine

GPU = "nvidia.com/gpu"


def workload(spec: Json) -> GpuWorkload:
    made = engine("chat")
    made["spec"]["template"]["spec"] |= spec
    survey = Survey((made,))
    (found,) = workloads_of(survey, things_of(survey)).scaled
    return found


def place(labels: dict[str, str], *taints: Taint, resource: str = GPU) -> Place:
    return Place("n1", labels, lasting(taints), {resource: 8})


def wants(*expressions: Json) -> Json:
    terms = {"nodeSelectorTerms": [{"matchExpressions": list(expressions)}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


@pytest.mark.parametrize(
    ("operator", "values", "good", "bad"),
    [
        ("In", ["a", "b"], {"k": "b"}, {"k": "c"}),
        ("NotIn", ["a"], {}, {"k": "a"}),
        ("Exists", None, {"k": ""}, {}),
        ("DoesNotExist", None, {}, {"k": "a"}),
        ("Gt", ["4"], {"k": "5"}, {"k": "4"}),
        ("Lt", ["4"], {"k": "3"}, {"k": "many"}),
        ("Lt", ["4"], {"k": "3"}, {}),
    ],
)
def test_required_affinity_is_read_as_the_scheduler_reads_it(
    operator: str, values: list[str] | None, good: dict[str, str], bad: dict[str, str]
) -> None:
    chat = workload(wants({"key": "k", "operator": operator, "values": values}))
    assert may_stand(chat, place(good))
    assert not may_stand(chat, place(bad))


def test_all_expressions_of_a_term_must_hold_and_a_selector_with_them() -> None:
    both = wants(*({"key": key, "operator": "Exists"} for key in "ab"))
    chat = workload({**both, "nodeSelector": {"pool": "x"}})
    assert may_stand(chat, place({"a": "", "b": "", "pool": "x"}))
    assert not may_stand(chat, place({"a": "", "pool": "x"}))
    assert not may_stand(chat, place({"a": "", "b": ""}))


def test_a_taint_keeps_away_who_does_not_tolerate_it_unless_it_passes_or_is_the_resource_s_own() -> None:
    chat, tolerant = workload({}), workload({"tolerations": [{"key": "team", "operator": "Exists"}]})
    assert tolerant.tolerations == (Toleration(key="team", operator="Exists"),)
    team = Taint("team", "x", "NoSchedule")
    assert not may_stand(chat, place({}, team))
    assert may_stand(tolerant, place({}, team))
    assert may_stand(chat, place({}, Taint("team", "x", "PreferNoSchedule")))
    assert may_stand(chat, place({}, Taint("node.kubernetes.io/not-ready", "", "NoExecute")))
    assert may_stand(chat, place({}, Taint(GPU, "present", "NoSchedule")))


def test_another_resource_is_no_room() -> None:
    assert not may_stand(workload({}), place({}, resource="amd.com/gpu"))

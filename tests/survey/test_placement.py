"""Where a workload's pods may stand, as the scheduler would say."""

import pytest

from rebalancer.domain.cluster import Taint, Toleration
from rebalancer.survey.first_policy.places import NodePlace, lasting
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


def place(labels: dict[str, str], *taints: Taint, resource: str = GPU) -> NodePlace:
    return NodePlace("n1", labels, lasting(taints), {resource: 8})


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
    assert place(good).takes(chat)
    assert not place(bad).takes(chat)


def test_all_expressions_of_a_term_must_hold_and_a_selector_with_them() -> None:
    both = wants(*({"key": key, "operator": "Exists"} for key in "ab"))
    chat = workload({**both, "nodeSelector": {"pool": "x"}})
    assert place({"a": "", "b": "", "pool": "x"}).takes(chat)
    assert not place({"a": "", "pool": "x"}).takes(chat)
    assert not place({"a": "", "b": ""}).takes(chat)


def test_a_term_on_the_node_s_own_name_is_read_too() -> None:
    spec = wants({"key": "a", "operator": "Exists"})
    (term,) = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    term["matchFields"] = [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]
    assert place({"a": ""}).takes(workload(spec))
    term["matchFields"][0]["values"] = ["n2"]
    assert not place({"a": ""}).takes(workload(spec))


def test_a_taint_keeps_away_who_does_not_tolerate_it_unless_it_passes_or_is_the_resource_s_own() -> None:
    chat, tolerant = workload({}), workload({"tolerations": [{"key": "team", "operator": "Exists"}]})
    assert Toleration(key="team", operator="Exists") in tolerant.placement.tolerations
    team = Taint("team", "x", "NoSchedule")
    assert not place({}, team).takes(chat)
    assert place({}, team).takes(tolerant)
    assert place({}, Taint("team", "x", "PreferNoSchedule")).takes(chat)
    assert place({}, Taint("node.kubernetes.io/not-ready", "", "NoExecute")).takes(chat)
    assert place({}, Taint(GPU, "present", "NoSchedule")).takes(chat)


def test_another_resource_is_no_room() -> None:
    assert not place({}, resource="amd.com/gpu").takes(workload({}))

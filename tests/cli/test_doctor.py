"""What the doctor finds, and what to do about it."""

from typing import Any

import pytest
from msgspec.structs import replace

from rebalancer.cli.commands.doctor.checks import (
    FAIL,
    OK,
    WARN,
    of_node_pool,
    of_scaled_object,
    of_snapshot,
    of_status,
    rendered,
)
from rebalancer.domain.pinned import Pinned
from rebalancer.domain.placement import Placement
from rebalancer.domain.plan import Refusal
from rebalancer.domain.readings import ModelLoad
from rebalancer.domain.snapshot import Snapshot, Sync
from rebalancer.sandbox.api.resources import NODEPOOLS
from rebalancer.sandbox.api.server import EmbeddedKubernetes
from tests.builders import NOW, a_model_view, a_target, an_autoscaler
from tests.cli.night import Night
from tests.cli.running import rebalancer
from tests.cli.scene import STATUS

Captured = pytest.CaptureFixture[str]


def node_pool(after: str) -> dict[str, Any]:
    return {"metadata": {"name": "spot"}, "spec": {"disruption": {"consolidateAfter": after}}}


def scaled(query: str, **trigger: str) -> dict[str, Any]:
    triggers = [{"type": "prometheus", "metadata": {"query": query}, **trigger}]
    return {"metadata": {"name": "sdxl", "namespace": "serving"}, "spec": {"triggers": triggers}}


@pytest.mark.parametrize(("after", "state"), [("30s", WARN), ("0s", WARN), ("7m39s", WARN), ("7m40s", OK), ("1h", OK)])
def test_nodes_must_outlive_the_loading_of_a_replica(after: str, state: str) -> None:
    (found,) = of_node_pool(node_pool(after), 460.0)
    assert found.state == state


def test_what_is_unknown_is_no_finding() -> None:
    assert list(of_node_pool(node_pool("30s"), None)) == []
    assert list(of_node_pool(node_pool("Never"), 460.0)) == []


@pytest.mark.parametrize(
    ("query", "trigger", "state"),
    [
        ("avg(vllm:num_requests_running)", {}, FAIL),
        ("avg by (model) (x)", {"metricType": "AverageValue"}, FAIL),
        ("avg(vllm:num_requests_running)", {"metricType": "Value"}, OK),
        ("sum(vllm:num_requests_running)", {}, OK),
        ("avgs", {}, OK),
    ],
)
def test_an_average_must_not_be_divided_again(query: str, trigger: dict[str, str], state: str) -> None:
    (found,) = of_scaled_object(scaled(query, **trigger))
    assert found.state == state


def test_gpus_that_differ_are_a_failure_with_both_numbers() -> None:
    plan = STATUS.plan
    assert plan is not None
    why = "deployment chat in pool a100: 1 GPU per pod in the policy, 2 in the template of chat"
    refusals = (Refusal("gpus", "chat", 4, 6, why), Refusal("step", "code", 4, 3, "1 of at most 1 lost"))
    before, after = (list(of_status(replace(STATUS, plan=replace(plan, refusals=each)))) for each in ((), refusals))
    (finding,) = [each for each in after if each not in before]
    assert (finding.state, finding.about, finding.said) == (FAIL, "model/chat", why)


def test_a_target_that_sleeps_is_a_warning() -> None:
    hpa = an_autoscaler(1, 6, kind="HorizontalPodAutoscaler")
    view = a_model_view("b", a_target("b", 0, autoscaler=hpa))
    (_, finding) = of_snapshot(Snapshot(cycle=1, at=NOW, models=(view,)))
    assert (finding.state, finding.about) == (WARN, "model/b")
    assert finding.said == "HorizontalPodAutoscaler b is disabled while b has 0 replicas; scale it to 1 by hand"


def test_rules_that_only_the_scheduler_can_judge_are_named() -> None:
    near = Placement(unseen=("must stand near pods with app=cache (zone)",))
    views = a_model_view("b", replace(a_target("b", 2), placement=near)), a_model_view("c", a_target("c", 2))
    (finding,) = [each for each in of_snapshot(Snapshot(cycle=1, at=NOW, models=views)) if each.state == WARN]
    assert finding.about == "model/b"
    assert "left to the scheduler: b must stand near pods with app=cache (zone)" in finding.said


def test_late_samples_are_a_warning_with_what_they_cost() -> None:
    views = a_model_view("b", a_target("b", 2), load_seconds=60.0), a_model_view("c", a_target("c", 2))
    loads = ModelLoad("b", lag_seconds=62.4), ModelLoad("c", lag_seconds=180.0), ModelLoad("d", lag_seconds=9.9)
    found = of_snapshot(Snapshot(cycle=1, at=NOW, models=views, loads=loads))
    late = [each for each in found if "late" in each.said]
    assert [(each.state, each.about) for each in late] == [(WARN, "model/b"), (WARN, "model/c")]
    assert late[0].said == "its samples come 1m2s late: surges are answered as if a start took 2m2s, not 1m0s"
    assert late[1].said == (
        "its samples come 3m0s late: surges are answered so much later; beyond 3m0s no sample has a vote"
    )


def test_findings_are_printed_as_drawn() -> None:
    found = (
        *of_node_pool(node_pool("30s"), 460.0),
        *of_scaled_object(scaled("avg(x)")),
        *of_scaled_object(scaled("sum(x)")),
    )
    assert rendered(found).splitlines() == [
        "warn nodepool/spot consolidateAfter 30s < load time 7m40s",
        "     fix: spec.disruption.consolidateAfter: 9m",
        "FAIL scaledobject/sdxl trigger 0: AverageValue of an average",
        "     fix: metricType: Value",
        "3 checks: 1 ok, 1 warning, 1 failed",
    ]


async def test_all_is_well_on_the_drawn_night_and_what_is_not_fails(
    people: None, night: Night, capsys: Captured
) -> None:
    assert await rebalancer("doctor") == 0
    assert "0 failed" in capsys.readouterr().out
    night.now = replace(STATUS, sync=Sync(missing=("scaledobjects",)), policy_problems=("policy.yaml:3: no pools",))
    assert await rebalancer("doctor") == 1
    out = capsys.readouterr().out
    assert "FAIL service not read yet: scaledobjects" in out
    assert "FAIL policy policy.yaml:3: no pools" in out
    assert "the rest of it is in force" not in out
    night.now = replace(STATUS, policy_problems=("policy.yaml:3: bad",), policy_refused=("models.new is left out",))
    assert await rebalancer("doctor") == 1
    assert "FAIL policy the rest of it is in force: models.new is left out" in capsys.readouterr().out


async def test_what_stays_pinned_is_a_warning_with_the_command_that_ends_it(
    people: None, night: Night, capsys: Captured
) -> None:
    pinned = Pinned("ScaledObject", "serving", "chat", "uid", "rebalancer/rebalancer", "held")
    night.now = replace(STATUS, write_mode="shadow", pinned=(pinned,))
    assert await rebalancer("doctor") == 0
    lines = capsys.readouterr().out.splitlines()
    said = lines.index(
        "warn pinned bounds or limits of ours are still on 1 object (scaledobject/serving/chat): KEDA cannot move past "
        "them"
    )
    assert lines[said + 1] == "     fix: run rebalancer hand-back"


async def test_a_service_that_is_away_is_a_finding_among_others(people: None, capsys: Captured) -> None:
    assert await rebalancer("doctor", "--server", "http://127.0.0.1:1") == 1
    out = capsys.readouterr().out
    assert out.startswith("FAIL api no answer")
    assert "1 failed" in out


async def test_crds_and_rights_that_lack_are_found(
    people: None, kubernetes: EmbeddedKubernetes, capsys: Captured
) -> None:
    kubernetes.faults.fail_next(1, 404, method="GET", path_part="/writestops")
    kubernetes.faults.fail_next(1, 403, method="POST", path_part="/selfsubjectaccessreviews")
    assert await rebalancer("doctor") == 1
    out = capsys.readouterr().out
    assert "FAIL crd/writestops.rebalancer.io not installed" in out
    assert "warn you/create overrides unknown" in out


async def test_only_pools_of_the_policy_are_examined(
    people: None, kubernetes: EmbeddedKubernetes, capsys: Captured
) -> None:
    kubernetes.store.put({"apiVersion": NODEPOOLS.api_version, "kind": NODEPOOLS.kind, **node_pool("30s")})
    assert await rebalancer("doctor") == 0
    assert "nodepool/spot" not in capsys.readouterr().out

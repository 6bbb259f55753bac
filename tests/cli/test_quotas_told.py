"""A full quota and who holds GPUs besides the models are told: in explain, status, doctor and the console."""

from msgspec.structs import replace

from rebalancer.api.pages.models_table import ModelsQuery
from rebalancer.api.pages.overview import overview
from rebalancer.api.ports.page_data import PageData
from rebalancer.api.text.checks import of_snapshot
from rebalancer.api.text.explain import render_explain
from rebalancer.cli.render import render_status
from rebalancer.domain.quota_view import Holder
from rebalancer.survey.finding import WARN
from tests.cli.scene import STATUS
from tests.planning.story import Story, unmet_of
from tests.planning.test_scenarios_quota import TRAIN, a_quota, a_story

TUNE = Holder("RayCluster", "ml", "tune", 3)


def full() -> Story:
    return a_story({"b": 2}, a_quota(2, 2, "b", holders=(TRAIN,)))


def test_explain_has_each_quota_of_the_model_with_used_and_hard_and_holders() -> None:
    story = full()
    lines = render_explain(story.plan(), story.snapshot, "b").splitlines()
    (row,) = [line for line in lines if line.startswith("quota")]
    assert "ResourceQuota serving/gpus has 2 of 2 requests.nvidia.com/gpu used by job serving/train 2 until" in row
    assert "ResourceQuota serving/gpus has 2 of 2" in lines[0]


def test_status_and_the_console_say_what_the_model_waits_for() -> None:
    story = full()
    status = replace(STATUS, plan=story.plan(), write_mode="shadow")
    assert "ResourceQuota serving/gpus has 2 of 2" in render_status(status)
    page = overview(PageData("e1", status, story.snapshot, story.policy), ModelsQuery(), {})
    assert ["ResourceQuota serving/gpus has 2 of 2" in item.text for item in page.attention if item.model == "b"] == [
        True
    ]


def test_doctor_warns_of_one_that_takes_no_replica_more() -> None:
    found = [one for one in of_snapshot(full().snapshot) if one.state == WARN]
    assert [one.about for one in found if "ResourceQuota serving/gpus" in one.said] == ["model/b"]
    room = a_story({"b": 2}, a_quota(4, 2, "b")).snapshot
    assert not [one for one in of_snapshot(room) if "ResourceQuota" in one.said]


def test_who_holds_gpus_besides_the_models_is_named_where_they_are_missing() -> None:
    story = a_story({"b": 5})
    (pool,) = story.snapshot.pools
    nodes = (replace(pool.nodes[0], foreign_gpus=3), *pool.nodes[1:])
    story.pool(pool.name, nodes=nodes, others=(TUNE,))
    plan = story.plan()
    unmet = unmet_of(plan, "b")
    assert unmet is not None
    assert unmet.constraint == "budget"
    assert unmet.why.endswith(f"besides models GPUs of {pool.name} are held by raycluster ml/tune 3")
    assert plan.pools[0].others == (TUNE,)
    status = render_status(replace(STATUS, plan=plan))
    assert "other 3 (raycluster ml/tune 3)" in status
    lines = render_explain(plan, story.snapshot, "b").splitlines()
    assert f"beside  of pool {pool.name} raycluster ml/tune 3" in lines

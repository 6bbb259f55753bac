"""A model's and a pool's page: the drawn scene, and what is unknown, doomed, borrowed."""

import pytest
from msgspec.structs import replace

from rebalancer.api.pages.gpu_tiles import seat
from rebalancer.api.pages.model_page import model_page
from rebalancer.api.pages.overview import running_overrides
from rebalancer.api.pages.pool_page import PAGE, pool_page
from rebalancer.api.pages.values.model import ModelPage, SignalRow
from rebalancer.api.pages.values.pool import LoanRow
from rebalancer.api.ports.page_data import PageData
from rebalancer.api.text.explain import render_explain
from rebalancer.domain.readings import NoReading, Signal
from rebalancer.domain.snapshot import Snapshot
from tests.api.scenes import PAGE_DATA, POLICY, SNAPSHOT, chart, the_model_page, the_pool_page
from tests.builders import a_node, a_reading, an_override
from tests.cli.scene import NOW, PLAN, at


def page_of(snapshot: Snapshot) -> ModelPage:
    data = PageData(PAGE_DATA.epoch, PAGE_DATA.status, snapshot, POLICY, PAGE_DATA.loans, PAGE_DATA.timeline)
    return model_page(data, PLAN, POLICY.models[0], PLAN.models[0], ())


def seen_with(**signals: Signal) -> Snapshot:
    """The scene with other readings of its first model."""
    load = SNAPSHOT.loads[0]
    return replace(SNAPSHOT, loads=(replace(load, signals={**load.signals, **signals}), *SNAPSHOT.loads[1:]))


def test_the_scene_is_as_drawn() -> None:
    page = the_model_page()
    assert (page.namespace, page.workload_class, page.priority, page.team, page.actuation) == (
        "serving",
        "realtime",
        100,
        "chat",
        "bounds",
    )
    assert page.signals == (
        SignalRow("concurrency", "112", 7, 2.0),
        SignalRow("kvCache", "71%", 6, 3.0),
        SignalRow("latency", None, None, 48.0, "48 s old"),
    )
    assert [(row.node, row.state, row.lender) for row in page.replicas] == [
        ("a100-1", "ready", ""),
        ("a100-1", "ready", ""),
        ("a100-2", "ready", ""),
        ("a100-2", "ready", ""),
        ("a100-3", "loading", "mixtral-8x7b"),
        ("spot-1", "ready", "spot"),
        ("spot-2", "doomed", ""),
    ]
    assert [row.requests for row in page.replicas] == [16.0, 17.0, 18.0, 19.0, None, None, None]
    assert "\n".join(page.explanation) == render_explain(PLAN, SNAPSHOT, "llama-70b")
    assert [refusal.subject for refusal in page.refusals] == ["qwen-32b"]
    assert page.chart == chart()
    assert {event.model for event in page.timeline} == {"llama-70b"}


def test_overrides_of_a_model_are_on_its_page_until_they_expire() -> None:
    assert [one.name for one in the_model_page("sdxl").overrides] == ["cap-sdxl"]
    assert the_model_page("llama-70b").overrides == ()


def test_an_override_of_a_pool_is_on_no_models_page_though_it_has_a_models_name() -> None:
    pool = an_override("drain", "llama-70b", subject_kind="pool", expires_at=PAGE_DATA.status.at + 60.0)
    only = replace(pool, name="only", kind="exclude", subject="gpu-b", subject_kind="node", model="llama-70b")
    running = running_overrides(replace(PAGE_DATA.status, overrides=(pool, only)), "llama-70b")
    assert [one.name for one in running] == ["only"]


@pytest.mark.parametrize(
    ("signal", "row"),
    [
        (NoReading("never-seen"), SignalRow("latency", None, None, None, "never-seen")),
        (a_reading(1.25, NOW - 2.0), SignalRow("latency", "1.2 s", 6, 2.0)),
        (a_reading(1.25, NOW - 2.0, 0.5), SignalRow("latency", None, None, 2.0, "seen on 50% of the pods")),
    ],
)
def test_a_signal_has_its_reading_vote_and_age_or_why_it_has_none(signal: Signal, row: SignalRow) -> None:
    assert page_of(seen_with(latency=signal)).signals[2] == row


def test_a_model_without_any_sample_shows_every_signal_as_unknown() -> None:
    page = page_of(replace(SNAPSHOT, loads=()))
    assert [(row.reading, row.vote, row.age_seconds, row.why) for row in page.signals] == [
        (None, None, None, "never-seen")
    ] * 3


def test_a_model_of_which_the_cluster_has_nothing_has_a_page_all_the_same() -> None:
    page = page_of(replace(SNAPSHOT, models=SNAPSHOT.models[1:]))
    assert (page.replicas, page.decision.model) == ((), "llama-70b")


def test_a_pools_page_says_who_is_where_and_who_lent() -> None:
    page = the_pool_page("spot")
    assert (page.gpus, page.counts, page.budget, page.promised) == (
        16,
        {"lent": 6, "doomed": 8, "free": 2},
        8,
        6,
    )
    assert [(node.name, node.gpus, node.doomed_at) for node in page.nodes] == [
        ("spot-1", "++++++..", None),
        ("spot-2", "xxxxxxxx", at("03:13:40")),
    ]
    assert [(pod.model, pod.gpus, pod.state, pod.lender) for pod in page.nodes[0].pods] == [
        ("llama-70b", 4, "ready", "spot"),
        ("sdxl", 1, "ready", "spot"),
        ("sdxl", 1, "ready", "spot"),
    ]
    assert page.loans[-1] == LoanRow("llama-70b", "spot", 4, at("02:20:00"))
    assert [notice.node for notice in page.notices] == ["spot-2"]
    assert the_pool_page("a100").notices == ()
    assert the_pool_page("a100").loans == (LoanRow("llama-70b", "mixtral-8x7b", 4, at("03:10:11")),)


def test_nodes_come_in_pages_of_sixty_four_and_counts_are_of_all() -> None:
    nodes = tuple(a_node(f"n-{number:03}") for number in range(150))
    snapshot = replace(SNAPSHOT, pools=(replace(SNAPSHOT.pools[0], nodes=nodes), *SNAPSHOT.pools[1:]))
    data = PageData(PAGE_DATA.epoch, PAGE_DATA.status, snapshot, POLICY)
    found = [pool_page(data, POLICY.pools[0], seat({}, snapshot), page) for page in (1, 2, 3, 4)]
    assert [len(page.nodes) for page in found] == [PAGE, PAGE, 22, 0]
    assert {page.nodes_total for page in found} == {150}
    assert found[3].counts == {"free": 1200}

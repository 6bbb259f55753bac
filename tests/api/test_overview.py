"""The first page: the drawn scene to the character, and each need, count and order on its own."""

import pytest
from msgspec.structs import replace

from rebalancer.api.look import Look
from rebalancer.api.models_table import SORTS, STATES, Asked
from rebalancer.api.overview import overview
from rebalancer.api.pages import Need, Overview
from rebalancer.api.text.words import clock
from rebalancer.api.tiles import seat
from rebalancer.api.wire import from_wire
from rebalancer.domain.pinned import Pinned
from rebalancer.domain.plan import Refusal
from rebalancer.domain.snapshot import Snapshot, Sync
from tests.api.scenes import LOOK, SNAPSHOT, overview_json, the_overview
from tests.builders import a_notice, a_pod, a_target
from tests.cli.scene import NOW, PLAN, at


def of(look: Look = LOOK, asked: Asked | None = None) -> Overview:
    return overview(look, asked or Asked(), seat({}, look.snapshot))


def told(look: Look) -> list[str]:
    return [need.said for need in of(look).needs]


def look_with(**changed: object) -> Look:
    """The scene with other fields of its status."""
    return Look(LOOK.epoch, replace(LOOK.status, **changed), LOOK.snapshot, LOOK.policy, LOOK.loans, LOOK.happenings)


def look_at(snapshot: Snapshot) -> Look:
    return Look(LOOK.epoch, LOOK.status, snapshot, LOOK.policy, LOOK.loans, LOOK.happenings)


def test_the_scene_is_as_drawn() -> None:
    page = the_overview()
    assert [(need.severity, need.said, need.until) for need in page.needs] == [
        ("critical", "spot-2 goes 03:13:40: llama-70b 1, sdxl 4", at("03:13:40")),
        ("warning", "llama-70b is short of 1 replica (4 GPUs); qwen-32b may shrink at 03:14:40", at("03:14:40")),
    ]
    assert {pool.name: (pool.kind, pool.gpus, pool.counts) for pool in page.pools} == {
        "a100": ("primary", 32, {"owned": 26, "loading": 4, "free": 2}),
        "spot": ("elastic", 16, {"lent": 6, "doomed": 8, "free": 2}),
    }
    assert {node.name: node.gpus for pool in page.pools for node in pool.nodes} == {
        "a100-1": "########",
        "a100-2": "########",
        "a100-3": "####////",
        "a100-4": "######..",
        "spot-1": "++++++..",
        "spot-2": "xxxxxxxx",
    }
    assert [(row.model, row.demand, row.ready, row.loading, row.doomed, row.why) for row in page.models] == [
        ("llama-70b", 7, 5, 1, 1, "short 1"),
        ("qwen-32b", 2, 3, 0, 0, "step holds 1"),
        ("mixtral-8x7b", 2, 2, 0, 0, "lends 4 GPUs"),
        ("sdxl", 2, 2, 0, 4, "demand is 2"),
    ]
    assert page.models[0].next_at == at("03:14:40")
    assert [one.name for one in page.overrides] == ["cap-sdxl"]
    assert len(page.happenings) == len(LOOK.happenings)


def test_counts_of_the_tiles_are_those_that_status_prints() -> None:
    for row, decided in zip(the_overview().pools, PLAN.pools, strict=True):
        counts = {"owned": decided.owned, "lent": decided.lent, "loading": decided.loading, "doomed": decided.doomed}
        assert row.counts == {word: count for word, count in {**counts, "free": decided.free}.items() if count}


def test_the_page_survives_the_wire() -> None:
    assert from_wire(overview_json(), Overview) == the_overview()


# --- needs


def test_whatever_keeps_the_service_from_seeing_is_told_before_what_comes_later() -> None:
    look = look_with(sync=Sync(missing=("pods",), stale=("nodes",)), policy_problems=("policy.yaml:3 bad", "more"))
    assert told(look) == [
        "not read yet: pods; nothing is taken from a model until they are",
        "silent: nodes; nothing is taken from a model while they are",
        "spot-2 goes 03:13:40: llama-70b 1, sdxl 4",
        "llama-70b is short of 1 replica (4 GPUs); qwen-32b may shrink at 03:14:40",
        "the policy file is not good, the last good one stays in force: policy.yaml:3 bad (and 1 more)",
    ]


def test_a_policy_file_that_is_refused_in_part_is_told_with_the_entries() -> None:
    refused = ("models.sdxl keeps its last good form", "models.new is left out")
    look = look_with(policy_problems=("policy.yaml:3 bad",), policy_refused=refused)
    said = "the policy file is not good, the rest of it is in force: "
    assert told(look)[-1] == said + "models.sdxl keeps its last good form, models.new is left out: policy.yaml:3 bad"
    assert of(look).policy_refused == refused


def test_what_stays_pinned_in_shadow_needs_somebody_who_gives_it_back() -> None:
    pinned = Pinned("ScaledObject", "serving", "sdxl", "uid", "rebalancer/rebalancer", "held")
    needs = of(look_with(write_mode="shadow", pinned=(pinned,))).needs
    said = (
        "bounds or limits of ours are still on 1 object (scaledobject/serving/sdxl): KEDA cannot move past them; "
        "run rebalancer hand-back"
    )
    assert Need("warning", said) in needs


def test_a_model_under_its_floor_is_critical_and_one_that_is_not_seen_a_warning() -> None:
    floored = replace(PLAN.models[0], ready=1)
    blind = replace(PLAN.models[2], demand=None, why="its demand is unknown: concurrency 48 s old")
    page = of(look_with(plan=replace(PLAN, models=(floored, *PLAN.models[1:2], blind, PLAN.models[3]))))
    said = {need.model: need for need in page.needs if need.model}
    assert said["llama-70b"].severity == "critical"
    assert said["llama-70b"].said.startswith(
        "llama-70b is under its floor: 1 of 2 replicas are Ready, short of 1 replica (4 GPUs)"
    )
    assert said["qwen-32b"] == Need(
        "warning", "qwen-32b is not seen and keeps what it has: concurrency 48 s old", model="qwen-32b"
    )


@pytest.mark.parametrize(("seconds", "asked_for"), [(200.0, False), (481.0, True)])
def test_what_only_waits_for_its_pods_needs_nobody_until_it_takes_twice_its_start_time(
    seconds: float, *, asked_for: bool
) -> None:
    row = replace(PLAN.unmet[0], constraint="waiting", why="granted; pods are on their way", since=NOW - seconds)
    needs = of(look_with(plan=replace(PLAN, unmet=(row,)))).needs
    assert any(need.model == "llama-70b" for need in needs) is asked_for


def test_a_node_that_brings_its_own_replacement_is_told_only_when_somebody_runs_there() -> None:
    empty = a_notice("a100-9", deadline=NOW + 60.0, voluntary=True)
    used = a_notice("a100-1", deadline=NOW + 60.0, voluntary=True)
    needs = of(look_at(replace(SNAPSHOT, notices=(used, empty)))).needs
    assert [(need.severity, need.node) for need in needs if need.node] == [("warning", "a100-1")]


def test_a_notice_whose_time_has_not_come_warns_and_says_when_it_counts() -> None:
    notice = a_notice("a100-1", deadline=NOW + 3600.0, doomed_at=NOW + 1800.0)
    (need,) = [one for one in of(look_at(replace(SNAPSHOT, notices=(notice,)))).needs if one.node]
    assert need.severity == "warning"
    assert f"(counts from {clock(NOW + 1800)})" in need.said
    due = replace(SNAPSHOT, notices=(replace(notice, doomed_at=None),))
    (need,) = [one for one in of(look_at(due)).needs if one.node]
    assert (need.severity, "counts from" in need.said) == ("critical", False)


def test_a_node_that_is_gone_is_told_as_long_as_somebody_is_missing_there() -> None:
    gone = a_notice("a100-1", kind="gone", deadline=NOW - 3.0)
    needs = of(look_at(replace(SNAPSHOT, notices=(gone, replace(gone, node="a100-9"))))).needs
    assert [need.said.split(":")[0] for need in needs if need.node] == ["a100-1 is gone"]


def test_a_fight_over_a_field_is_told() -> None:
    refusal = Refusal("foreign", "sdxl", 6, 2, "argocd wrote spec.replicas twice in 10 min")
    needs = of(look_with(plan=replace(PLAN, refusals=(refusal,)))).needs
    assert [need.model for need in needs if "argocd" in need.said] == ["sdxl"]
    assert any(need.said.endswith("; `rebalancer stand-up sdxl` ends this") for need in needs)


def test_gpus_that_differ_between_policy_and_cluster_are_told() -> None:
    refusal = Refusal("gpus", "sdxl", 6, 6, "1 GPU per pod in the policy, 2 in the template of sdxl")
    needs = of(look_with(plan=replace(PLAN, refusals=(refusal,)))).needs
    assert [need.model for need in needs if "2 in the template" in need.said] == ["sdxl"]


def test_a_hundred_needs_are_fifty_lines_of_which_the_last_counts_the_rest() -> None:
    notices = tuple(a_notice(f"n{n:03}", deadline=NOW + n) for n in range(100))
    needs = of(look_at(replace(SNAPSHOT, notices=notices))).needs
    assert len(needs) == 50
    assert needs[-1].said == "and 52 more needs of a person"


def test_before_the_first_plan_there_are_tiles_and_no_rows() -> None:
    page = of(look_with(plan=None))
    assert (page.plan_at, page.models, page.models_total) == (None, (), 0)
    assert page.pools[0].nodes[0].gpus == "########"


# --- tiles


def test_a_pod_keeps_its_tiles_when_its_neighbour_leaves_and_a_new_one_takes_the_gap() -> None:
    seats = seat({}, SNAPSHOT)
    models = {model.id: model for model in SNAPSHOT.models}
    qwen = models["qwen-32b"].targets[0]
    left = replace(qwen, pods=qwen.pods[1:])
    after = seat(seats, _with(SNAPSHOT, "qwen-32b", left))
    assert after["a100-4"] == ("", "", *seats["a100-4"][2:])
    newer = replace(left, pods=(*left.pods, a_pod("new", "a100-4", created_at=NOW)))
    assert seat(after, _with(SNAPSHOT, "qwen-32b", newer))["a100-4"] == ("uid-new", "uid-new", *seats["a100-4"][2:])


def _with(snapshot: Snapshot, model: str, target: object) -> Snapshot:
    models = tuple(replace(each, targets=(target,)) if each.id == model else each for each in snapshot.models)
    return replace(snapshot, models=models)


def test_gpus_of_others_of_nodes_not_ready_and_of_nobody_are_told_apart() -> None:
    pools = list(SNAPSHOT.pools)
    nodes = list(pools[0].nodes)
    nodes[0] = replace(nodes[0], ready=False)
    nodes[3] = replace(nodes[3], foreign_gpus=1)
    pools[0] = replace(pools[0], nodes=tuple(nodes))
    row = of(look_at(replace(SNAPSHOT, pools=tuple(pools)))).pools[0]
    assert [node.gpus for node in row.nodes] == ["????????", "########", "####////", "######.o"]
    assert row.counts == {"owned": 18, "loading": 4, "other": 1, "free": 1, "unknown": 8}


def test_a_free_gpu_of_a_node_that_goes_goes_too() -> None:
    row = of(look_at(replace(SNAPSHOT, notices=(a_notice("spot-1"), *SNAPSHOT.notices)))).pools[1]
    assert row.counts == {"doomed": 16}


def test_on_a_node_whose_notice_has_not_come_to_its_time_nothing_is_doomed() -> None:
    later = tuple(replace(notice, doomed_at=NOW + 60.0) for notice in SNAPSHOT.notices)
    rows = of(look_at(replace(SNAPSHOT, notices=later))).pools
    assert "doomed" not in rows[1].counts
    assert [node.doomed_at for node in rows[1].nodes if node.doomed_at] == [SNAPSHOT.notices[0].deadline]


def test_before_the_nodes_are_listed_a_pools_size_is_unknown() -> None:
    assert [pool.gpus for pool in of(look_with(sync=Sync(missing=("nodes",)))).pools] == [None, None]


def test_more_pods_than_a_node_has_gpus_do_not_overflow_its_tiles() -> None:
    crowd = a_target("sdxl", pool="spot", pods=tuple(a_pod(f"s-{n}", "spot-1") for n in range(20)))
    seats = seat({}, _with(SNAPSHOT, "sdxl", crowd))
    assert len(seats["spot-1"]) == 8


# --- the table


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        (Asked(q="LLAMA"), ["llama-70b"]),
        (Asked(q="chat"), ["llama-70b", "mixtral-8x7b"]),
        (Asked(q="nobody"), []),
        (Asked(state="short"), ["llama-70b"]),
        (Asked(state="held"), ["qwen-32b"]),
        (Asked(state="doomed"), ["llama-70b", "sdxl"]),
        (Asked(state="lending"), ["mixtral-8x7b"]),
        (Asked(sort="model"), ["llama-70b", "mixtral-8x7b", "qwen-32b", "sdxl"]),
        (Asked(sort="ready"), ["llama-70b", "qwen-32b", "mixtral-8x7b", "sdxl"]),
        (Asked(sort="doomed"), ["sdxl", "llama-70b", "mixtral-8x7b", "qwen-32b"]),
        (Asked(page=2), []),
    ],
)
def test_rows_are_searched_filtered_sorted_and_paged_here(asked: Asked, found: list[str]) -> None:
    page = of(asked=asked)
    assert [row.model for row in page.models] == found
    assert page.models_total == (4 if asked.page > 1 else len(found))


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("sort", SORTS)
def test_every_filter_goes_with_every_order(state: str, sort: str) -> None:
    everything = {row.model for row in of().models}
    assert {row.model for row in of(asked=Asked(state=state, sort=sort)).models} <= everything

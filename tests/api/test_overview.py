"""The first page: the drawn scene to the character, and each need, count and order on its own."""

import pytest
from msgspec.structs import replace

from rebalancer.api.http.json_codec import from_wire
from rebalancer.api.pages.gpu_tiles import GpuTiles, counted_states, on_loan, seat
from rebalancer.api.pages.models_table import SORTS, STATES, ModelsQuery
from rebalancer.api.pages.overview import newest, overview
from rebalancer.api.pages.values.overview import Overview, WayOut
from rebalancer.api.ports.page_data import PageData
from rebalancer.api.ports.status import Unready
from rebalancer.api.ports.timeline import ShiftStep, TimelineEvent
from rebalancer.api.text.words import clock
from rebalancer.domain.memory import Loan
from rebalancer.domain.pinned import Pinned
from rebalancer.domain.plan import Refusal
from rebalancer.domain.snapshot import Snapshot
from rebalancer.domain.sync import Sync
from tests.api.scenes import PAGE_DATA, SNAPSHOT, overview_json, the_overview
from tests.builders import a_model, a_notice, a_pod, a_policy, a_pool, a_snapshot, a_target
from tests.cli.scene import NOW, PLAN, at


def of(data: PageData = PAGE_DATA, query: ModelsQuery | None = None) -> Overview:
    return overview(data, query or ModelsQuery(), seat({}, data.snapshot))


def told(data: PageData) -> list[str]:
    return [item.text for item in of(data).attention]


def page_data_with(**changed: object) -> PageData:
    """The scene with other fields of its status."""
    return PageData(
        PAGE_DATA.epoch,
        replace(PAGE_DATA.status, **changed),
        PAGE_DATA.snapshot,
        PAGE_DATA.policy,
        PAGE_DATA.loans,
        PAGE_DATA.timeline,
    )


def look_at(snapshot: Snapshot) -> PageData:
    return PageData(PAGE_DATA.epoch, PAGE_DATA.status, snapshot, PAGE_DATA.policy, PAGE_DATA.loans, PAGE_DATA.timeline)


def test_the_scene_is_as_drawn() -> None:
    page = the_overview()
    assert [(item.severity, item.text, item.until) for item in page.attention] == [
        ("critical", "spot-2 goes 03:13:40: llama-70b 1, sdxl 4", at("03:13:40")),
        (
            "warning",
            "llama-70b is short of 1 replica (4 GPUs); qwen-32b may shrink, not before 03:14:40",
            at("03:14:40"),
        ),
    ]
    assert page.attention[0].impact == "without it: llama-70b 5 Ready, 1 loading of 7 needed; sdxl 2 Ready of 2 needed"
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
    assert len(page.timeline) == len(PAGE_DATA.timeline)


def test_counts_of_the_tiles_are_those_that_status_prints() -> None:
    for row, decided in zip(the_overview().pools, PLAN.pools, strict=True):
        counts = {"owned": decided.owned, "lent": decided.lent, "loading": decided.loading, "doomed": decided.doomed}
        assert row.counts == {word: count for word, count in {**counts, "free": decided.free}.items() if count}


def test_the_page_survives_the_wire() -> None:
    assert from_wire(overview_json(), Overview) == the_overview()


# --- needs


def test_whatever_keeps_the_service_from_seeing_is_told_before_what_comes_later() -> None:
    data = page_data_with(
        sync=Sync(missing=("overrides",), stale=("nodes",)), policy_problems=("policy.yaml:3 bad", "more")
    )
    assert told(data) == [
        "not read yet: overrides; nothing is taken from a model until they are",
        "silent: nodes; nothing is taken from a model while they are",
        "spot-2 goes 03:13:40: llama-70b 1, sdxl 4",
        "llama-70b is short of 1 replica (4 GPUs); qwen-32b may shrink, not before 03:14:40",
        "the policy file is not good, the last good one stays in force: policy.yaml:3 bad (and 1 more)",
    ]


@pytest.mark.parametrize(
    ("changed", "known"),
    [
        ({"leader": ""}, True),
        ({"leader": "", "unready": (Unready("lease", NOW, "the Lease cannot be read"),)}, False),
        ({"leader": "rb-1", "unready": (Unready("lease", NOW, "the Lease cannot be written"),)}, True),
    ],
)
def test_that_nobody_leads_is_known_only_to_who_can_read_the_lease(changed: dict[str, object], known: bool) -> None:  # noqa: FBT001  pytest's parameter
    assert of(page_data_with(**changed)).leader_known is known


def test_before_pods_are_listed_no_model_is_said_to_be_below_its_floor() -> None:
    assert [line for line in told(page_data_with(sync=Sync(missing=("pods",)))) if "replica" in line] == []


def test_a_policy_file_that_is_refused_in_part_is_told_with_the_entries() -> None:
    refused = ("models.sdxl keeps its last good form", "models.new is left out")
    data = page_data_with(policy_problems=("policy.yaml:3 bad",), policy_refused=refused)
    said = "the policy file is not good, the rest of it is in force: "
    assert told(data)[-1] == said + "models.sdxl keeps its last good form, models.new is left out: policy.yaml:3 bad"
    assert of(data).policy_refused == refused


def test_what_stays_pinned_in_shadow_needs_somebody_who_gives_it_back() -> None:
    pinned = Pinned("ScaledObject", "serving", "sdxl", "uid", "rebalancer/rebalancer", "held")
    attention = of(page_data_with(write_mode="shadow", pinned=(pinned,))).attention
    said = (
        "bounds or limits of ours are still on 1 object (scaledobject/serving/sdxl): KEDA cannot move past them; "
        "run rebalancer hand-back"
    )
    (item,) = [each for each in attention if each.text == said]
    assert item.way_out == WayOut("give it back", "rebalancer hand-back")


def test_a_model_under_its_floor_is_critical_and_one_that_is_not_seen_a_warning() -> None:
    floored = replace(PLAN.models[0], ready=1)
    blind = replace(PLAN.models[2], demand=None, why="its demand is unknown: concurrency 48 s old")
    page = of(page_data_with(plan=replace(PLAN, models=(floored, *PLAN.models[1:2], blind, PLAN.models[3]))))
    said = {item.model: item for item in page.attention if item.model}
    assert said["llama-70b"].severity == "critical"
    assert said["llama-70b"].text.startswith(
        "llama-70b is under its floor: 1 of 2 replicas are Ready, short of 1 replica (4 GPUs)"
    )
    assert said["qwen-32b"].text == "qwen-32b is not seen and keeps what it has: concurrency 48 s old"
    assert said["qwen-32b"].way_out == WayOut(
        "pin it if you know better",
        "rebalancer override add pin qwen-32b 2 --for 30m --reason WHY",
        "pin",
        "qwen-32b",
        2,
    )


def test_who_is_short_is_told_with_its_impact_since_when_and_what_a_person_may_do() -> None:
    late = "4.2 replicas of work on 3, about 140 of 900 requests late in the next 110 s"
    row = replace(PLAN.unmet[0], lateness=late, since=at("03:11:40"))
    page = of(page_data_with(plan=replace(PLAN, unmet=(row,))))
    (short,) = [item for item in page.attention if item.model == "llama-70b"]
    assert (short.impact, short.since) == (late, at("03:11:40"))
    assert "late" not in short.text
    assert short.way_out == WayOut(
        "cap qwen-32b at 2 now", "rebalancer override add cap qwen-32b 2 --for 30m --reason WHY", "cap", "qwen-32b", 2
    )


def test_a_cap_of_the_model_that_is_short_is_no_way_out() -> None:
    own = replace(PLAN.refusals[0], subject="llama-70b")
    page = of(page_data_with(plan=replace(PLAN, refusals=(own,))))
    (short,) = [item for item in page.attention if item.model == "llama-70b"]
    assert short.way_out is not None
    assert "cap llama-70b" not in short.way_out.command


@pytest.mark.parametrize(
    ("constraint", "kind", "model"),
    [("budget", "cap", "qwen-32b"), ("override", "end", "llama-70b"), ("waiting", "", "")],
)
def test_the_way_out_of_a_need_is_the_one_that_its_constraint_has(constraint: str, kind: str, model: str) -> None:
    row = replace(PLAN.unmet[0], constraint=constraint, why="the pools are full", since=NOW - 3600.0)
    page = of(page_data_with(plan=replace(PLAN, unmet=(row,), refusals=())))
    (short,) = [item for item in page.attention if item.model == "llama-70b"]
    assert short.way_out is not None
    assert (short.way_out.kind, short.way_out.model) == (kind, model)
    assert short.way_out.command.startswith("rebalancer ")


def test_taking_gpus_names_who_loses_least_by_giving_and_what_that_one_keeps() -> None:
    row = replace(PLAN.unmet[0], constraint="budget", why="the pools are full", since=NOW - 3600.0)
    data = page_data_with(plan=replace(PLAN, unmet=(row,), refusals=()))
    (short,) = [item for item in of(data).attention if item.model == "llama-70b"]
    assert short.way_out == WayOut(
        "take GPUs: cap qwen-32b at 1",
        "rebalancer override add cap qwen-32b 1 --for 30m --reason WHY",
        "cap",
        "qwen-32b",
        1,
    )
    at_floor = tuple(replace(each, floor=each.granted) for each in PLAN.models)
    nobody = page_data_with(plan=replace(PLAN, models=at_floor, unmet=(row,), refusals=()))
    (short,) = [item for item in of(nobody).attention if item.model == "llama-70b"]
    assert short.way_out is not None
    assert short.way_out.kind == ""


@pytest.mark.parametrize(("seconds", "asked_for"), [(200.0, False), (481.0, True)])
def test_what_only_waits_for_its_pods_needs_nobody_until_it_takes_twice_its_start_time(
    seconds: float, *, asked_for: bool
) -> None:
    row = replace(PLAN.unmet[0], constraint="waiting", why="granted; pods are on their way", since=NOW - seconds)
    attention = of(page_data_with(plan=replace(PLAN, unmet=(row,)))).attention
    assert any(item.model == "llama-70b" for item in attention) is asked_for


def test_a_node_that_brings_its_own_replacement_is_told_only_when_somebody_runs_there() -> None:
    empty = a_notice("a100-9", deadline=NOW + 60.0, voluntary=True)
    used = a_notice("a100-1", deadline=NOW + 60.0, voluntary=True)
    attention = of(look_at(replace(SNAPSHOT, notices=(used, empty)))).attention
    assert [(item.severity, item.node) for item in attention if item.node] == [("warning", "a100-1")]


def test_a_notice_whose_time_has_not_come_warns_and_says_when_it_counts() -> None:
    notice = a_notice("a100-1", deadline=NOW + 3600.0, doomed_at=NOW + 1800.0)
    (item,) = [one for one in of(look_at(replace(SNAPSHOT, notices=(notice,)))).attention if one.node]
    assert item.severity == "warning"
    assert f"(counts from {clock(NOW + 1800)})" in item.text
    due = replace(SNAPSHOT, notices=(replace(notice, doomed_at=None),))
    (item,) = [one for one in of(look_at(due)).attention if one.node]
    assert (item.severity, "counts from" in item.text) == ("critical", False)


def test_a_node_that_is_gone_is_told_as_long_as_somebody_is_missing_there() -> None:
    gone = a_notice("a100-1", kind="gone", deadline=NOW - 3.0)
    attention = of(look_at(replace(SNAPSHOT, notices=(gone, replace(gone, node="a100-9"))))).attention
    assert [item.text.split(":")[0] for item in attention if item.node] == ["a100-1 is gone"]


def test_a_fight_over_a_field_is_told() -> None:
    refusal = Refusal("foreign", "sdxl", 6, 2, "argocd wrote spec.replicas twice in 10 min")
    needs = of(page_data_with(plan=replace(PLAN, refusals=(refusal,)))).attention
    assert [item.model for item in needs if "argocd" in item.text] == ["sdxl"]
    (fought,) = [item for item in needs if "argocd" in item.text]
    assert fought.way_out == WayOut("stand up", "rebalancer stand-up sdxl --reason WHY", "standUp", "sdxl")


def test_gpus_that_differ_between_policy_and_cluster_are_told() -> None:
    refusal = Refusal("gpus", "sdxl", 6, 6, "1 GPU per pod in the policy, 2 in the template of sdxl")
    needs = of(page_data_with(plan=replace(PLAN, refusals=(refusal,)))).attention
    assert [item.model for item in needs if "2 in the template" in item.text] == ["sdxl"]


def test_a_hundred_needs_are_fifty_lines_of_which_the_last_counts_the_rest() -> None:
    notices = tuple(a_notice(f"n{n:03}", deadline=NOW + n) for n in range(100))
    attention = of(look_at(replace(SNAPSHOT, notices=notices))).attention
    assert len(attention) == 50
    assert attention[-1].text == "and 52 more needs of a person"


def test_before_the_first_plan_there_are_tiles_and_no_rows() -> None:
    page = of(page_data_with(plan=None))
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
    assert [pool.gpus for pool in of(page_data_with(sync=Sync(missing=("nodes",)))).pools] == [None, None]


def test_more_pods_than_a_node_has_gpus_do_not_overflow_its_tiles() -> None:
    crowd = a_target("sdxl", pool="spot", pods=tuple(a_pod(f"s-{n}", "spot-1") for n in range(20)))
    seats = seat({}, _with(SNAPSHOT, "sdxl", crowd))
    assert len(seats["spot-1"]) == 8


# --- the table


@pytest.mark.parametrize(
    ("query", "found"),
    [
        (ModelsQuery(q="LLAMA"), ["llama-70b"]),
        (ModelsQuery(q="chat"), ["llama-70b", "mixtral-8x7b"]),
        (ModelsQuery(q="nobody"), []),
        (ModelsQuery(state="short"), ["llama-70b"]),
        (ModelsQuery(state="held"), ["qwen-32b"]),
        (ModelsQuery(state="doomed"), ["llama-70b", "sdxl"]),
        (ModelsQuery(state="lending"), ["mixtral-8x7b"]),
        (ModelsQuery(sort="model"), ["llama-70b", "mixtral-8x7b", "qwen-32b", "sdxl"]),
        (ModelsQuery(sort="ready"), ["llama-70b", "qwen-32b", "mixtral-8x7b", "sdxl"]),
        (ModelsQuery(sort="doomed"), ["sdxl", "llama-70b", "mixtral-8x7b", "qwen-32b"]),
        (ModelsQuery(page=2), []),
    ],
)
def test_rows_are_searched_filtered_sorted_and_paged_here(query: ModelsQuery, found: list[str]) -> None:
    page = of(query=query)
    assert [row.model for row in page.models] == found
    assert page.models_total == (4 if query.page > 1 else len(found))


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("sort", SORTS)
def test_every_filter_goes_with_every_order(state: str, sort: str) -> None:
    everything = {row.model for row in of().models}
    assert {row.model for row in of(query=ModelsQuery(state=state, sort=sort)).models} <= everything


def test_a_models_bar_counts_what_its_pool_draws_as_lent() -> None:
    # b owns 1 and has 3; of the two that it borrowed one serves, and the youngest still loads.
    policy = a_policy(a_model("a", entitlement=7), a_model("b", entitlement=1), pools=(a_pool(gpus=8),))
    snapshot = a_snapshot(policy, {"b": 3})
    loans = tuple(Loan("b", "a", "a100", 1, NOW + since) for since in (1.0, 2.0))
    view = next(model for model in snapshot.models if model.id == "b")
    *older, youngest = view.targets[0].pods
    pods = (*older, replace(youngest, phase="loading", created_at=NOW + 2.0))
    loading = replace(view, targets=(replace(view.targets[0], pods=pods),))
    snapshot = replace(snapshot, models=tuple(loading if model is view else model for model in snapshot.models))
    drawn = "".join(
        GpuTiles.of(snapshot, loans, seat({}, snapshot)).draw(node, snapshot.pools[0].name)
        for node in snapshot.pools[0].nodes
    )
    assert on_loan(snapshot, loans).replicas["b"] == drawn.count("+") == 1
    assert on_loan(snapshot, loans).unowned["b"] == 0
    nobodys = tuple(replace(loan, owner=None) for loan in loans)
    assert on_loan(snapshot, nobodys).unowned["b"] == 1


def test_a_gpu_that_nobody_gets_is_drawn_closed_as_status_counts_it() -> None:
    policy = a_policy(a_model("b"), pools=(a_pool(gpus=8),))
    snapshot = a_snapshot(policy, {"b": 3})
    (node,) = snapshot.pools[0].nodes
    tiles = GpuTiles.of(snapshot, (), seat({}, snapshot))
    assert tiles.draw(node, "a100").count(".") == 5
    assert tiles.draw(replace(node, schedulable=False), "a100").count("-") == 5
    assert counted_states(["##-."]) == {"owned": 2, "closed": 1, "free": 1}


def test_a_shift_stands_on_the_page_of_who_gave_as_on_that_of_who_got() -> None:
    steps = (ShiftStep(NOW - 30.0, "code", "gives 1"), ShiftStep(NOW - 20.0, "chat", "gets 1"))
    shift = TimelineEvent(NOW - 20.0, "grant", "gets 1", 7, "chat", shift="s1", steps=steps)
    assert [newest((shift,), each) for each in ("chat", "code", "image")] == [(shift,), (shift,), ()]

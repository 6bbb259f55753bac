"""Domain values as text: the drawn scene, character by character, and what is unknown, old or hostile."""

from datetime import UTC, datetime
from textwrap import dedent

import pytest
from msgspec.structs import replace

from rebalancer.api.ports.past_refusals import PastRefusal
from rebalancer.api.ports.status import Unready
from rebalancer.api.text.checks import of_status
from rebalancer.api.text.words import goes, span
from rebalancer.cli.render import render_explain, render_plan, render_problems, render_status
from rebalancer.cli.render.overrides import clock_words, render_overrides
from rebalancer.domain.memory import Memory
from rebalancer.domain.pinned import Pinned
from rebalancer.domain.plan import OverrideState, Plan, Refusal
from rebalancer.domain.quota_view import Holder
from rebalancer.domain.sync import Sync
from rebalancer.domain.timetable import Schedule
from rebalancer.domain.words import CLOCK_IS_OFF
from rebalancer.planning import plan as make_plan
from rebalancer.settings.problems import Problem
from tests.builders import a_model, a_model_view, a_notice, a_policy, a_snapshot, a_target, a_write_stop, an_override
from tests.cli.scene import NOW, PLAN, SNAPSHOT, STATUS, at, change, decided

HELD = "keeps 1 replica that would go (3 -> 2): guard step, it lost 1 of at most 1; not before 03:14:40"


def drawn(text: str) -> str:
    return dedent(text).strip("\n")


def test_status_is_as_drawn() -> None:
    assert render_status(STATUS) == drawn("""
        prod-eu  03:12:07 UTC  leader rb-0  writing  1 s ago
        a100 32 GPUs  owned 26  loading 4  free 2
        spot 16 GPUs  in use 6  doomed 8  free 2
        MODEL        DEMAND ALLOC READY LOAD DOOM FLOOR WHY
        llama-70b         7     7     5    1    1     2 short 1
        qwen-32b          2     2     3    0    0     1 step holds 1
        mixtral-8x7b      2     2     2    0    0     2 lends 4 GPUs
        sdxl              2     2     2    0    4     0 demand is 2
        NOTICE spot-2 in 1m33s  OVERRIDES 1
    """)


def test_status_tells_who_holds_gpus_of_no_model_and_how_many_of_them_are_preemptible() -> None:
    pool, *others = PLAN.pools
    held = replace(pool, free=0, foreign=2, preemptible=2)
    assert "  other 2 (2 preemptible)" in render_status(replace(STATUS, plan=replace(PLAN, pools=(held, *others))))
    both = replace(held, preemptible=1, others=(Holder("Job", "ml", "train", 1),))
    assert "  other 2 (job ml/train 1; 1 preemptible)" in render_status(
        replace(STATUS, plan=replace(PLAN, pools=(both, *others)))
    )


def test_what_schedules_say_is_in_the_wide_status_and_in_the_explanation() -> None:
    rush = Schedule.model_validate(
        {"name": "rush", "from": "08:00", "until": "10:00", "timeZone": "Europe/Berlin", "minReplicas": 6}
    )
    policy = a_policy(a_model("a"), a_model("b", schedules=(rush,)))
    snapshot = a_snapshot(policy, {"b": 6})
    plan = make_plan(snapshot, policy, Memory()).plan
    words = (
        "floor 6 by schedule rush until 10:00 Europe/Berlin (09:00 UTC); next 10:00 Europe/Berlin (09:00 UTC): floor 1"
    )
    status = replace(STATUS, plan=plan)
    assert f"SCHEDULE b: {words}, no cap" in render_status(status, wide=True).splitlines()
    assert "SCHEDULE" not in render_status(status)
    assert f"schedule {words}, no cap" in render_explain(plan, snapshot, "b").splitlines()


def test_signs_on_nodes_that_nobody_named_are_told_with_what_to_do() -> None:
    status = replace(STATUS, unknown_signs={"taint example.com/leaving": 2})
    told = "Unknown signs on nodes: taint example.com/leaving on 2 nodes; name them in the policy's nodes.signs."
    assert told in render_status(status).splitlines()


def test_plan_is_as_drawn() -> None:
    assert render_plan(PLAN) == drawn("""
        - sdxl          ends 4 replicas on spot-2, under notice (6 -> 2)
        - llama-70b     ends 1 replica on spot-2, under notice: no 4 GPUs are free together (7 -> 6)
        ~ nodepool/spot GPU limit 16 -> 24: node ~03:16
        ! qwen-32b      keeps 1 replica that would go (3 -> 2): guard step, it lost 1 of at most 1; not before 03:14:40
        * llama-70b     is short of 1 replica since 03:11:40: no node has 4 GPUs free: 2 on a100-4, 2 on spot-1
        2 drains, 1 node change; 1 refused; short: llama-70b 1
    """)


def test_explain_tells_votes_demand_holdings_and_who_is_held_back() -> None:
    assert render_explain(PLAN, SNAPSHOT, "llama-70b") == drawn(f"""
        llama-70b is short of 1 replica (4 GPUs) since 03:11:40: no node has 4 GPUs free: 2 on a100-4, 2 on spot-1
        votes   concurrency 112 votes 7 (2 s); kvCache 0.71 votes 6 (3 s); latency abstains (48 s)
        demand  7: 112 requests / 16
        has     5 ready + 1 loading (~03:14:11); 1 doomed on spot-2; floor 2
        alloc   6 -> 7
        plan    granted 6
        moved   by the rebalancer, through the replicas of Deployment llama-70b
        refused llama-70b lacks GPUs: qwen-32b {HELD}
        change  llama-70b ends 1 replica on spot-2, under notice: no 4 GPUs are free together (7 -> 6)
        or now  rebalancer override add cap qwen-32b 2 --for 30m --reason ...
    """)


def test_an_override_that_is_over_is_not_counted() -> None:
    over = tuple(replace(one, expires_at=STATUS.at) for one in STATUS.overrides)
    assert "OVERRIDES" not in render_status(replace(STATUS, overrides=over))


def test_an_override_that_was_refused_before_and_is_nobodys_in_this_plan_is_not_counted_as_in_force() -> None:
    wrong = replace(an_override("pin", "nope", 4), expires_at=STATUS.at + 60.0, phase="Refused")
    text = render_status(replace(STATUS, overrides=(*STATUS.overrides, wrong)))
    assert text.endswith("OVERRIDES 1, 1 refused")


def test_who_is_short_is_not_offered_a_cap_of_its_own() -> None:
    own = replace(PLAN.refusals[0], subject="llama-70b")
    assert "or now" not in render_explain(replace(PLAN, refusals=(own,)), SNAPSHOT, "llama-70b")


def test_explain_of_a_model_that_lacks_nothing_shows_its_own_refusals_and_overrides_only() -> None:
    plan = replace(PLAN, overrides=(OverrideState("serving", "cap-sdxl", "uid-cap-sdxl", "InForce", "cap 6"),))
    assert render_explain(plan, SNAPSHOT, "sdxl") == drawn("""
        sdxl: demand is 2
        demand  2
        has     2 ready; 4 doomed on ?; floor 0
        moved   by the rebalancer, through the replicas of Deployment sdxl
        change  sdxl ends 4 replicas on spot-2, under notice (6 -> 2)
        override cap 6 by ci until 05:59:00: render batch (InForce: cap 6)
    """)


def test_explain_knows_no_start_time_before_one_was_measured() -> None:
    models = tuple(replace(model, load_seconds=None) for model in SNAPSHOT.models)
    said = render_explain(PLAN, replace(SNAPSHOT, models=models), "llama-70b")
    assert "5 ready + 1 loading; 1 doomed on spot-2" in said


def test_a_refusal_of_a_model_in_another_pool_explains_nothing() -> None:
    elsewhere = a_model_view("qwen-32b", a_target("qwen-32b", 3, pool="l40s"))
    models = tuple(elsewhere if model.id == "qwen-32b" else model for model in SNAPSHOT.models)
    assert "qwen-32b" not in render_explain(PLAN, replace(SNAPSHOT, models=models), "llama-70b")


@pytest.mark.parametrize(("guard", "offered"), [("step", True), ("blind", True), ("floor", False), ("stop", False)])
def test_an_override_is_offered_only_where_the_guard_would_yield(guard: str, *, offered: bool) -> None:
    plan = replace(PLAN, refusals=(replace(PLAN.refusals[0], guard=guard),))
    assert ("or now" in render_explain(plan, SNAPSHOT, "qwen-32b")) is offered


def test_a_plan_that_planning_made_is_explained_for_every_model() -> None:
    policy = a_policy(a_model("a", entitlement=4), a_model("b", entitlement=4))
    snapshot = a_snapshot(policy, {"a": 4, "b": 4}, {"a": {"concurrency": 40.0}, "b": {"concurrency": 1.0}})
    made = make_plan(snapshot, policy, Memory()).plan
    for model, votes in (
        ("a", "concurrency asks for 10 (40 requests in flight"),
        ("b", "concurrency asks for 1 (1 request"),
    ):
        said = render_explain(made, snapshot, model).splitlines()
        assert any(line.startswith(f"votes   {votes}") for line in said)
        assert any(line.startswith("demand  4: ") for line in said)
        assert any(line.startswith("has     4 ready") for line in said)


def test_explain_of_an_unknown_model_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        render_explain(PLAN, SNAPSHOT, "gpt")


def test_unknown_is_a_question_mark_never_a_zero() -> None:
    models = (decided("llama-70b", None, 5, 5, 0, 0, 2, why="no usable vote"),)
    pools = (replace(PLAN.pools[0], budget=None, owned=0, loading=0, free=0),)
    said = render_status(replace(STATUS, plan=replace(PLAN, models=models, pools=pools))).splitlines()
    assert said[1] == "a100 ? GPUs"
    assert said[3].split() == ["llama-70b", "?", "5", "5", "0", "0", "2", "no", "usable", "vote"]
    assert "demand  ?" in render_explain(replace(PLAN, models=models), SNAPSHOT, "llama-70b")


@pytest.mark.parametrize(
    ("clock", "said"), [("03:12:16", "10 s ago"), ("03:12:20", "LATE 14 s"), ("03:12:37", "NOT LIVE since 03:12:06")]
)
def test_an_old_plan_says_so(clock: str, said: str) -> None:
    assert render_status(replace(STATUS, at=at(clock))).splitlines()[0].endswith(f"writing  {said}")


@pytest.mark.parametrize(
    ("clock", "said"), [("03:13:06", "1m0s ago"), ("03:15:06", "LATE 3m0s"), ("03:15:07", "NOT LIVE since 03:12:06")]
)
def test_a_plan_is_old_by_the_policys_period_where_that_is_longer_than_usual(clock: str, said: str) -> None:
    status = replace(STATUS, at=at(clock), plan_every_seconds=60.0)
    assert render_status(status).splitlines()[0].endswith(f"writing  {said}")


def test_whatever_keeps_the_service_from_writing_is_said_below_the_first_line() -> None:
    stop = replace(a_write_stop(actor="oncall", reason="bad rollout"), created_at=at("03:11:40"))
    sync = Sync(missing=("pods",), stale=("clock", "nodes", "hpas"))
    problems = ("gpuLimit is out of range at policy.yaml:7", "another")
    status = replace(STATUS, writes_stopped=stop, sync=sync, policy_problems=problems, instance="rb-1")
    assert render_status(status).splitlines()[:7] == [
        "prod-eu  03:12:07 UTC  leader rb-0  WRITES STOPPED  1 s ago",
        "Reading standby rb-1; leader is rb-0.",
        "Writes stopped by oncall 03:11:40: bad rollout",
        "Not read yet: pods. Nothing is taken from a model until they are.",
        "Silent: nodes, hpas. Nothing is taken from a model while they are.",
        f"T{CLOCK_IS_OFF[1:]}. Nothing is taken from a model while they do.",
        f"Policy 0123456789abcdef stays in force; the file is not good: {problems[0]} (and 1 more)",
    ]


def test_entries_of_the_policy_file_that_are_not_in_force_are_named() -> None:
    refused = ("models.sdxl keeps its last good form", "models.new is left out")
    status = replace(STATUS, policy_problems=("policy.yaml:3 bad",), policy_refused=refused)
    assert render_status(status).splitlines()[1:3] == [
        "Policy 0123456789abcdef is in force; the file is not good: policy.yaml:3 bad",
        "Of the policy file models.sdxl keeps its last good form, models.new is left out.",
    ]


def test_shadow_and_the_first_moments_are_said() -> None:
    status = replace(STATUS, write_mode="shadow", leader="", plan=None, notices=(), overrides=())
    assert render_status(status) == drawn("""
        prod-eu  03:12:07 UTC  no leader: nothing changes  shadow
        Shadow: nothing is written.
        Reading state: nothing is decided yet
    """)


def test_a_replica_that_cannot_read_the_lease_knows_no_leader_and_does_not_say_that_nothing_changes() -> None:
    unread = Unready("lease", NOW - 9, "the Lease cannot be read: Forbidden; rb-0 was last seen to renew it 17 s ago")
    status = replace(STATUS, leader="", unready=(unread,))
    assert [line.strip() for line in render_status(status).splitlines()[:2]] == [
        "prod-eu  03:12:07 UTC  no leader known  writing  1 s ago",
        "Not good since 03:11:58: lease: the Lease cannot be read: Forbidden; rb-0 was last seen to renew it 17 s ago",
    ]
    assert "nothing changes" not in str([each.said for each in of_status(status)])


def test_notices_come_soonest_first_and_a_long_list_is_counted() -> None:
    notices = [a_notice(f"spot-{n}", deadline=NOW + 60 * n) for n in range(7)]
    late = a_notice("old", deadline=NOW - 90)
    foot = render_status(replace(STATUS, notices=(*reversed(notices), late), overrides=())).splitlines()[-1]
    assert foot == (
        "NOTICE old was due 1m30s ago, spot-0 in 0 s, spot-1 in 1m0s, spot-2 in 2m0s, spot-3 in 3m0s and 3 more"
    )


def test_a_persons_drain_has_no_instant_at_which_its_node_goes() -> None:
    drain = a_notice("n1", kind="drain", deadline=NOW - 900.0)
    assert render_status(replace(STATUS, notices=(drain,), overrides=())).splitlines()[-1] == (
        "NOTICE n1 to be emptied, asked 15m0s ago"
    )
    assert goes(drain, NOW) == "n1 is to be emptied"


def test_a_notice_whose_time_has_not_come_says_when_it_counts() -> None:
    notices = (
        a_notice("spot-2", deadline=at("04:12:07"), doomed_at=at("03:57:07")),
        a_notice("a100-1", deadline=at("03:12:07") + 14 * 86_400, doomed_at=at("03:00:00") + 14 * 86_400),
        a_notice("a100-4", kind="gone", deadline=NOW - 5),
    )
    foot = render_status(replace(STATUS, notices=notices, overrides=())).splitlines()[-1]
    day = datetime.fromtimestamp(NOW + 14 * 86_400, UTC).strftime("%Y-%m-%d")
    spot, maintenance = "spot-2 in 1h0m (counts from 03:57:07)", f"a100-1 in 14d0h (counts from {day} 03:00)"
    assert foot == f"NOTICE a100-4 went 5 s ago, {spot}, {maintenance}"
    told = render_explain(PLAN, replace(SNAPSHOT, notices=notices), "llama-70b").splitlines()
    assert [" ".join(line.split()) for line in told if "counts from" in line] == [
        "notice spot-2 goes 04:12:07 (counts from 03:57:07): 1 replica",
        f"notice a100-1 goes {day} 03:12 (counts from {day} 03:00): 4 replicas",
    ]


def test_every_kind_of_change_has_its_mark_and_is_counted() -> None:
    hold = replace(PLAN.node_pools[0], kind="hold", reason="a shift lands there")
    unlimited = replace(PLAN.node_pools[0], limit_from=None)
    plan = Plan(
        cycle=1,
        at=NOW,
        changes=(
            change("a", 3, 2, "gives 1 replica to b", kind="release", passes=None, shift="s1"),
            change("b", 2, 3, "gets 1 replica from a", kind="grant", passes=None, shift="s1"),
            change("c", 1, 2, "gets 1 replica", kind="grant", passes=None),
            change(
                "d", 4, 4, "keeps its replicas; its bounds go from 1-4 to 3-4", kind="bounds", minimum=3, passes=None
            ),
            change("e", 4, 5, "gets 1 replica in place of one on spot-2, which goes", kind="replace", passes=None),
        ),
        node_pools=(unlimited, hold),
        refusals=(Refusal("budget", "spot", 16, 24, "the policy allows 16"),),
        models=(decided("a", 2, 2, 3, 0, 0, 1, why=""),),
    )
    assert render_plan(plan) == drawn("""
        > a             gives 1 replica to b (3 -> 2)
        > b             gets 1 replica from a (2 -> 3)
        + c             gets 1 replica (1 -> 2)
        = d             keeps its replicas; its bounds go from 1-4 to 3-4
        + e             gets 1 replica in place of one on spot-2, which goes (4 -> 5)
        ~ nodepool/spot GPU limit none -> 24: node ~03:16
        ~ nodepool/spot consolidation is held: a shift lands there
        ! nodepool/spot is left as it is: guard budget, the policy allows 16
        1 shift begun, 1 shift completed, 1 grant, 1 replacement, 1 change of bounds, 2 node changes; 1 refused
    """)


def test_an_empty_plan_says_that_nothing_changes() -> None:
    assert render_plan(Plan(cycle=1, at=NOW)) == "Nothing to change.\n0 changes"


@pytest.mark.parametrize("hostile", ["\x1b[31mred\x1b[0m", "a\nb", "a\u202eb", "a\rb"])
def test_names_and_reasons_from_elsewhere_cannot_draw_on_the_terminal(hostile: str) -> None:
    plan = replace(PLAN, changes=(change(hostile, 2, 1, hostile),), models=(replace(PLAN.models[0], why=hostile),))
    snapshot = replace(SNAPSHOT, overrides=(an_override("cap", "llama-70b", 6, reason=hostile, actor=hostile),))
    status = replace(STATUS, plan=plan, cluster=hostile)
    said = render_plan(plan) + render_status(status) + render_explain(plan, snapshot, "llama-70b")
    assert all(line.isprintable() for line in said.split("\n"))
    assert not any(line == "b" for line in said.split("\n"))


@pytest.mark.parametrize(
    ("seconds", "said"), [(-1, "0 s"), (59.9, "59 s"), (93, "1m33s"), (10_020, "2h47m"), (273_600, "3d4h")]
)
def test_spans_are_told_in_their_two_largest_units(seconds: float, said: str) -> None:
    assert span(seconds) == said


def test_problems_are_listed_with_line_path_value_range_and_remedy() -> None:
    rows = (
        Problem(7, "pools.a100.gpuLimit", "-1", "gpuLimit is out of range", "0 to 1000000", "", "policy.yaml"),
        Problem(31, "models.qwen", "", "class is missing", "", "add it", "policy.yaml"),
    )
    assert render_problems("policy.yaml", rows) == drawn("""
        policy.yaml: 2 problems
         7  pools.a100.gpuLimit: -1, allowed 0 to 1000000
              gpuLimit is out of range
        31  models.qwen
              class is missing; add it
    """)
    assert render_problems("policy.yaml", ()) == "policy.yaml: ok"


def a_pinned(name: str, state: str, by: str = "ml/rebalancer") -> Pinned:
    return Pinned("ScaledObject", "serving", name, f"uid-{name}", by, state)


def test_what_stays_pinned_in_shadow_is_said_with_the_command_that_ends_it() -> None:
    pinned = (a_pinned("a", "held"), a_pinned("b", "departed"), a_pinned("c", "unnamed", ""))
    status = replace(STATUS, write_mode="shadow", installation="ml/rebalancer", pinned=pinned)
    shadow, ours, nobodys = render_status(status).splitlines()[1:4]
    assert shadow == "Shadow: nothing is written."
    assert ours == (
        "Bounds or limits of ours are still on 2 objects (scaledobject/serving/a, scaledobject/serving/b): KEDA cannot "
        "move past them; run rebalancer hand-back --installation ml/rebalancer."
    )
    assert nobodys == (
        "Bounds or limits of no installation by name are on 1 object (scaledobject/serving/c), not in the policy; run "
        "rebalancer hand-back --installation ml/rebalancer --unnamed."
    )


def test_what_is_given_back_or_another_installations_is_said_while_it_acts() -> None:
    pinned = (a_pinned("b", "departed"), a_pinned("c", "other", "search/rebalancer"))
    status = replace(STATUS, installation="rebalancer/rebalancer", pinned=pinned)
    theirs, going = render_status(status).splitlines()[1:3]
    assert theirs == (
        "Installation search/rebalancer holds 1 object (scaledobject/serving/c) of our policy: nothing is written "
        "there; take them out of one of the two policies."
    )
    assert going == (
        "Bounds or limits of ours are on 1 object (scaledobject/serving/b), not in the policy: they are given back; "
        "where that lasts, the service's log says why."
    )


def test_by_whose_clock_overrides_end_is_told_where_it_is_not_this_machines() -> None:
    assert clock_words(NOW, NOW + 59.0) == ""
    assert clock_words(None, NOW) == ""
    clock = clock_words(NOW, NOW - 3600.0)
    assert clock == "by the service's clock, 03:12 now"
    listed = (an_override("cap", "llama-70b", 6),)
    assert render_overrides(listed, clock=clock).splitlines()[-1] == "UNTIL is by the service's clock, 03:12 now."
    assert len(render_overrides(listed).splitlines()) == 2


def test_what_a_guard_declined_of_another_model_says_why_it_stands_in_this_answer() -> None:
    of_qwen = "llama-70b lacks GPUs: qwen-32b keeps 1 replica that would go (3 -> 2): guard step"
    assert of_qwen in render_explain(PLAN, SNAPSHOT, "llama-70b")
    assert "refused qwen-32b keeps 1 replica" in render_explain(PLAN, SNAPSHOT, "qwen-32b")
    over = PastRefusal(NOW - 60.0, NOW - 40.0, replace(PLAN.refusals[0], guard="shift"), ("llama-70b",))
    told = render_explain(PLAN, SNAPSHOT, "llama-70b", [over])
    assert "before  03:11:07 to 03:11:27 llama-70b lacked GPUs: qwen-32b keeps 1 replica" in told
    assert "before  03:11:07 to 03:11:27 qwen-32b keeps" in render_explain(PLAN, SNAPSHOT, "qwen-32b", [over])


def test_who_is_not_short_and_gets_less_than_its_allocation_is_told_who_declined() -> None:
    calm = replace(PLAN, unmet=())
    assert "refused" not in render_explain(calm, SNAPSHOT, "llama-70b")
    fewer = replace(calm, models=tuple(replace(each, granted=each.allocation - 1) for each in calm.models))
    told = render_explain(fewer, SNAPSHOT, "llama-70b")
    assert f"refused llama-70b lacks GPUs: qwen-32b {HELD}" in told
    assert "or now" not in told

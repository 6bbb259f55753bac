"""What an override would do now: lines for people, the hash they agree to, what they must type. Pure."""

import pytest
from msgspec.structs import replace

from rebalancer.api.ports.requests import Preview
from rebalancer.app.foresight import Known, foresee, foresee_end, foresee_resume
from rebalancer.app.preview import preview_of, preview_of_end, preview_of_resume
from rebalancer.domain.memory import Loss, Memory, ModelMemory
from rebalancer.domain.people import Override
from rebalancer.domain.snapshot import ForeignChange
from rebalancer.domain.starts import StartView
from tests.builders import (
    NOW,
    a_model,
    a_notice,
    a_policy,
    a_pool,
    a_snapshot,
    a_write_stop,
    an_elastic_pool,
    an_override,
)
from tests.planning.outlooks import an_outlook


def a_scene(*overrides: Override, qwen: int = 3, wants: int = 7) -> Known:
    """Qwen-32b has lost one by step and needs 2 of its 3; llama-70b lacks one replica; 2 GPUs each; nothing is free."""
    policy = a_policy(
        a_model("llama-70b", 2, gpus_per_replica=2, entitlement=6, priority=200, load_seconds=470.0),
        a_model("qwen-32b", 1, gpus_per_replica=2, entitlement=2),
        pools=(a_pool(gpus=18),),
    )
    readings = {"llama-70b": {"concurrency": 4.0 * wants}, "qwen-32b": {"concurrency": 8.0}}
    snapshot = a_snapshot(
        policy, {"llama-70b": 6, "qwen-32b": qwen}, readings, {"llama-70b": 7.0, "qwen-32b": 2.0}, {"a100": 3}
    )
    lost = ModelMemory(losses=(Loss(NOW - 7.0, 1, "shift"), Loss(NOW - 147.0, 1, "step")))
    known = Known(snapshot, policy, Memory(models={"llama-70b": ModelMemory(demand=wants), "qwen-32b": lost}))
    return replace_overrides(known, *overrides)


def replace_overrides(known: Known, *overrides: Override) -> Known:
    return replace_snapshot(known, overrides=overrides)


def replace_snapshot(known: Known, **fields: object) -> Known:
    return Known(replace(known.snapshot, **fields), known.policy, known.memory)


def preview(known: Known, kind: str, subject: str, value: int | None = None, **fields: object) -> Preview:
    one = an_override(kind, subject, value, name="ov-7f3a", uid="to-come", created_at=NOW, **fields)
    return preview_of(known, one, foresee(known, one))


def test_a_cap_reads_as_on_the_command_line() -> None:
    seen = preview(a_scene(), "cap", "qwen-32b", 2)
    assert seen.lines == (
        "now  qwen-32b 3 -> 2  passes step, fleet; floor 1 kept",
        "then llama-70b 6 -> 7 on a100-3, ready ~08:08 UTC; unmet 0",
        "cost qwen-32b loses 1 replica: 2 replicas of work on 2",
        "gain llama-70b gets 1 replica: 7 replicas of work on 7",
    )
    assert (seen.unmet_before, seen.unmet_after, seen.refused, seen.confirm) == (1, 0, None, None)


def an_outlook_of_llama(enough: int) -> Known:
    """The scene in which every replica of llama-70b up to `enough` keeps 30 requests from being late."""
    known = a_scene()
    late = {count: 60.0 * (enough - count) for count in range(1, enough + 1)}  # each counts twice: its priority is 200
    outlook = an_outlook(late, 6, known.policy.models[0], level=6.5, shifted=6.5)
    loads = tuple(
        replace(load, outlook=outlook if load.model == "llama-70b" else None) for load in known.snapshot.loads
    )
    return replace_snapshot(known, loads=loads)


def test_a_cap_says_how_many_late_requests_it_spares_whom() -> None:
    seen = preview(an_outlook_of_llama(8), "cap", "qwen-32b", 2)
    fewer = "about 30 fewer of 975 requests late in the next 150 s than with 6, at a level of 6.5"
    assert seen.gains == (f"llama-70b gets 1 replica: 7 replicas of work on 7, {fewer}",)
    assert seen.lines[-1] == f"gain {seen.gains[0]}"


def test_a_cap_by_which_nobody_gains_says_so() -> None:
    seen = preview(a_scene(wants=5), "cap", "llama-70b", 3)
    assert seen.costs
    assert seen.gains == ("nobody gets a replica more by it within two plans",)


def test_a_cap_says_how_many_requests_it_makes_late() -> None:
    seen = preview(an_outlook_of_llama(7), "cap", "llama-70b", 3)
    more = "about 90 more of 975 requests late in the next 150 s than with 6, at a level of 6.5"
    assert seen.costs == (f"llama-70b loses 3 replicas: 7 replicas of work on 3, {more}",)
    assert f"cost {seen.costs[0]}" in seen.lines
    assert (seen.unmet_before, seen.unmet_after) == (1, 4)


def test_without_an_expected_change_it_says_so() -> None:
    seen = preview(a_scene(), "cap", "qwen-32b", 9)
    assert seen.lines == (
        "now  nothing changes: qwen-32b has 3 replicas; unmet 1 replica of llama-70b",
        "lack llama-70b is short of 1 replica, as without it: 7 replicas of work on 6",
    )


def test_a_floor_that_moves_nothing_now_says_what_it_keeps_in_the_next_surge() -> None:
    seen = preview(a_scene(), "floor", "qwen-32b", 2)
    assert seen.lines[0] == (
        "now  qwen-32b keeps 2 of the 3 it has; nothing moves now; in the next surge of others up to "
        "1 replica that they could have borrowed stays; unmet 1 replica of llama-70b"
    )
    assert seen.effects == ()


@pytest.mark.parametrize(("seconds", "keeps"), [(60.0, False), (-60.0, True)])
def test_a_floor_that_stands_leaves_nothing_to_keep_and_one_that_is_over_does(seconds: float, *, keeps: bool) -> None:
    known = a_scene(an_override("floor", "qwen-32b", 2, name="other", expires_at=NOW + seconds))
    assert ("could have borrowed" in preview(known, "floor", "qwen-32b", 2).lines[0]) == keeps


def test_a_floor_that_the_policy_has_already_keeps_nothing_more() -> None:
    assert (
        preview(a_scene(), "floor", "qwen-32b", 1).lines[0].startswith("now  nothing changes: qwen-32b keeps 1 or more")
    )


def test_a_pin_up_shows_where_it_lands_and_who_declines_to_give_for_it() -> None:
    free = preview(a_scene(qwen=2, wants=5), "pin", "llama-70b", 9)
    assert free.lines == (
        "now  llama-70b 6 -> 7 on a100-3, ready ~08:07 UTC; unmet 0",
        "gain llama-70b gets 1 replica: 7 replicas of work on 7",
    )
    full = preview(a_scene(qwen=3, wants=5), "pin", "llama-70b", 9)
    assert full.lines == (
        (
            "!    qwen-32b keeps 1 replica that would go (3 -> 2): guard shift, it has given away "
            "1 of at most 1 replica in 10 s, and the slow mean of its last 20 minutes, 2 replicas of work, needs 5, "
            "with room for bursts; not before 08:00:03; unmet 0"
        ),
    )


def test_below_the_floor_is_refused_unless_it_says_so_and_then_the_model_is_to_be_typed() -> None:
    refused = preview(a_scene(), "pin", "llama-70b", 0)
    allowed_from = "allowed from 2 to 100, less with allowBelowFloor (--allow-below-floor)"
    assert refused.lines == (f"no   pin 0 is below the floor 2 of llama-70b; {allowed_from}",)
    assert refused.refused is not None
    assert refused.effects == ()
    allowed = preview(a_scene(), "pin", "llama-70b", 0, allow_below_floor=True)
    assert (allowed.refused, allowed.confirm) == (None, "llama-70b")
    assert (
        allowed.lines[0]
        == "now  llama-70b 6 -> 0  passes step, fleet; below the floor 2; unmet 7 replicas of llama-70b"
    )
    assert allowed.costs == ("llama-70b loses 6 replicas: 7 replicas of work on 0",)


def test_a_drain_shows_what_moves_and_wants_its_node_typed() -> None:
    known = a_scene(qwen=1)
    seen = preview(known, "drain", "a100-1")
    assert seen.confirm == "a100-1"
    assert seen.lines == (
        "now  llama-70b 6 -> 10 on a100-2, a100-3, 4 of them in place of those on a100-1, ready ~08:07 UTC",
        "now  qwen-32b stays 1, not 2; unmet 1 replica of llama-70b, 1 of qwen-32b",
        "keep llama-70b: 4 replicas serve on a100-1 until what replaces them is Ready, so nobody is interrupted",
        "cost llama-70b does not get 1 replica: 7 replicas of work on 6",
        "cost qwen-32b does not get 1 replica: 2 replicas of work on 1",
    )


def test_a_drain_of_a_node_that_goes_in_a_fortnight_moves_now() -> None:
    known = a_scene(qwen=1)
    later = a_notice("a100-1", kind="scheduled-change", deadline=NOW + 14 * 86_400, doomed_at=NOW + 13 * 86_400)
    told = Known(replace(known.snapshot, notices=(later,)), known.policy, known.memory)
    assert preview(told, "drain", "a100-1").lines == preview(known, "drain", "a100-1").lines


def test_a_node_that_nobody_sees_and_a_model_that_is_none_are_refused() -> None:
    refused = preview(a_scene(), "drain", "a100-9").refused
    assert refused is not None
    assert refused.startswith("no node 'a100-9' is seen in any pool; did you mean a100-")
    assert "; nodes: a100-1" in refused
    assert preview(a_scene(), "pin", "gpt-9", 3).refused == "no model 'gpt-9' in the policy"
    too_long = preview(a_scene(), "pin", "qwen-32b", 2, expires_at=NOW + 90_000.0)
    assert (too_long.refused or "").startswith("expires after more than 86400 s (policy overrides.maxSeconds)")


def test_conflicts_name_who_wins() -> None:
    others = (
        an_override("pause", "qwen-32b", name="quiet", actor="bob"),
        an_override("cap", "qwen-32b", 3, name="old", actor="bob"),
        an_override("floor", "qwen-32b", 1, name="least", actor="bob"),
        an_override("cap", "qwen-32b", 1, name="over", actor="bob", expires_at=NOW - 1.0),
    )
    seen = preview(a_scene(*others), "cap", "qwen-32b", 2)
    assert seen.conflicts == (
        "is outranked by quiet (pause by bob, until 09:00:00)",
        "supersedes old (cap 3 by bob, until 09:00:00)",
        "outranks least (floor 1 by bob, until 09:00:00)",
    )


def fought(known: Known, model: str) -> Known:
    """Two foreign changes on the model's target, within the last minute."""
    changes = (ForeignChange(NOW - 60.0, "argocd"), ForeignChange(NOW - 5.0, "argocd"))
    models = tuple(
        replace(view, targets=tuple(replace(target, foreign=changes) for target in view.targets))
        if view.id == model
        else view
        for view in known.snapshot.models
    )
    return replace_snapshot(known, models=models)


def test_while_we_stand_down_it_says_what_it_waits_for_and_how_that_ends() -> None:
    known = fought(a_scene(), "qwen-32b")
    assert preview(known, "cap", "qwen-32b", 2).lines[0] == (
        "now  nothing changes: it waits: stand-down until 08:09:00: argocd changed Deployment qwen-32b 2 times within "
        "600 s; `rebalancer stand-up qwen-32b` ends it; unmet 1 replica of llama-70b"
    )


def test_standing_up_shows_what_is_written_then_and_outranks_nobody() -> None:
    cap = an_override("cap", "qwen-32b", 2)
    seen = preview(fought(a_scene(cap), "qwen-32b"), "standUp", "qwen-32b")
    assert (seen.lines[0], seen.conflicts) == ("now  qwen-32b 3 -> 2  floor 1 kept", ())
    earlier = an_override("standUp", "qwen-32b", name="earlier", actor="bob")
    assert preview(a_scene(earlier), "cap", "qwen-32b", 2).conflicts == ()
    again = preview(a_scene(earlier), "standUp", "qwen-32b")
    assert again.conflicts == ("supersedes earlier (standUp by bob, until 09:00:00)",)


def test_the_hash_is_of_what_happens_and_not_of_when_it_is_looked_at() -> None:
    known = a_scene()
    later = Known(replace(known.snapshot, at=NOW + 2.0), known.policy, known.memory)
    one = preview(known, "cap", "qwen-32b", 2).preview
    assert preview(later, "cap", "qwen-32b", 2).preview == one
    assert preview(known, "cap", "qwen-32b", 1).preview != one
    assert preview(a_scene(qwen=4), "cap", "qwen-32b", 2).preview != one


def test_nothing_of_what_is_known_changes_by_looking() -> None:
    known = a_scene()
    before = (known.snapshot, known.memory)
    preview(known, "cap", "qwen-32b", 2)
    assert (known.snapshot, known.memory) == before


def test_resume_shows_the_first_plan_that_would_be_written() -> None:
    stopped = a_scene(an_override("cap", "qwen-32b", 2, name="ov-1"))
    known = Known(replace(stopped.snapshot, write_stop=a_write_stop()), stopped.policy, stopped.memory)
    seen = preview_of_resume(known, foresee_resume(known), "carol")
    assert seen.lines == (
        "now  qwen-32b 3 -> 2  floor 1 kept",
        "then llama-70b 6 -> 7 on a100-3, ready ~08:08 UTC; unmet 0",
        "cost qwen-32b loses 1 replica: 2 replicas of work on 2",
        "gain llama-70b gets 1 replica: 7 replicas of work on 7",
    )
    assert (seen.confirm, seen.actor) == ("resume", "carol")


def test_the_end_of_an_override_is_shown_as_what_comes_without_it() -> None:
    cap = an_override("cap", "qwen-32b", 2, name="ov-1")
    known = a_scene(cap)
    seen = preview_of_end(known, cap, foresee_end(known, cap), "carol")
    assert seen.lines[0] == "now  qwen-32b stays 3, not 2"
    assert any(line.startswith("cost llama-70b") for line in seen.lines), seen.lines
    assert (seen.name, seen.expires_at, seen.confirm, seen.actor) == ("ov-1", cap.expires_at, None, "carol")
    assert (seen.unmet_before, seen.unmet_after) == (0, 1)


def test_the_end_of_a_drain_lets_its_node_be() -> None:
    drain = an_override("drain", "a100-1", name="ov-2", subject_kind="node")
    told = a_scene(drain)
    notice = a_notice("a100-1", kind="drain", source=f"override/{drain.namespace}/ov-2")
    known = Known(replace(told.snapshot, notices=(notice,)), told.policy, told.memory)
    seen = foresee_end(known, drain)
    assert seen.without.now.changes
    assert seen.course.now.changes == ()


def test_an_override_on_a_pool_that_grows_tells_of_its_node_and_of_no_time() -> None:
    policy = a_policy(
        a_model("b", 1, pools=("spot",), entitlement=1),
        pools=(an_elastic_pool(gpus=16, gpus_per_node=8),),
    )
    snapshot = a_snapshot(policy, {"b": 8}, {"b": {"concurrency": 32.0}}, {"b": 8.0}, {"spot": 1})
    seen = preview(Known(snapshot, policy, Memory()), "pin", "b", 10)
    assert "node nodepool/spot" in " ".join(seen.lines)
    assert [each.at for each in seen.effects if each.model == "b"] == [None]


def a_spot_scene(*starts: StartView, gpu_limit: int = 24) -> Known:
    """Image has 2 replicas on the one node of a pool that may grow by two more."""
    image = a_model("image", 0, pools=("spot",), entitlement=0, load_seconds=8.0)
    policy = a_policy(image, pools=(an_elastic_pool(gpus=gpu_limit, gpus_per_node=8),))
    snapshot = a_snapshot(policy, {"image": 2}, {"image": {"concurrency": 6.0}}, {"image": 1.5}, {"spot": 1})
    (view,) = snapshot.models
    return Known(replace(snapshot, models=(replace(view, starts=starts),)), policy, Memory())


def test_a_drain_of_the_only_node_says_that_a_new_one_brings_the_replicas_and_when() -> None:
    known = a_spot_scene(StartView("spot", "node", 2, 35.0, 40.0))
    seen = preview(known, "drain", "spot-1")
    assert seen.lines[0] == (
        "now  image 2 -> 4 on a node that nodepool spot brings, 2 of them in place of those on "
        "spot-1, ready ~08:00:35 UTC (35 s, as starts with a new node took)"
    )
    assert seen.lines[1].startswith("node nodepool/spot GPU limit 8 -> 16: ")
    assert seen.costs == ()
    assert [(each.replicas_from, each.replicas_to, each.at) for each in seen.effects] == [(2, 4, NOW + 35.0)]
    assert (seen.unmet_before, seen.unmet_after) == (0, 0)


def test_where_no_start_with_a_new_node_was_timed_nobody_says_when_it_serves() -> None:
    (first, *_) = preview(a_spot_scene(), "drain", "spot-1").lines
    assert "ready once the node has come (no such start was timed yet; given up after 15m0s)" in first


def test_a_drain_of_the_only_node_of_a_pool_at_its_limit_says_what_it_costs() -> None:
    seen = preview(a_spot_scene(gpu_limit=8), "drain", "spot-1")
    assert seen.costs == ("image loses 2 replicas: 1.5 replicas of work on 0",)
    assert seen.unmet_after == 2
    assert seen.lines[0].endswith("; unmet 2 replicas of image")


READY = "what replaces them is Ready about 35 s after the notice"
SERVES = "keep image: 2 replicas serve on spot-1 until what replaces them is Ready, so nobody is interrupted"
EVICTS = "spot if the cloud takes spot-1 instead: Karpenter evicts 2 replicas of image within seconds of its notice"


def interrupted(known: Known, node: str) -> list[str]:
    """The lines of a drain's preview that say until when what is there serves."""
    return [line for line in preview(known, "drain", node).lines if line.startswith(("keep", "ends", "spot"))]


def test_a_drain_of_a_spot_node_says_until_when_it_serves_and_for_how_long_nobody_would_if_the_cloud_took_it() -> None:
    assert interrupted(a_spot_scene(StartView("spot", "node", 2, 35.0, 40.0)), "spot-1") == [
        SERVES,
        f"{EVICTS}; {READY}, and until then image has 0 of 2 Ready replicas",
    ]
    assert interrupted(a_spot_scene(), "spot-1") == [
        SERVES,
        f"{EVICTS}; what replaces them is asked for at the notice, and nobody has timed such a start yet",
    ]


def test_what_nothing_replaces_is_said_to_end_at_once() -> None:
    assert interrupted(a_spot_scene(gpu_limit=8), "spot-1") == [
        "ends image: 2 replicas on spot-1 at once; nothing replaces them within two plans",
        f"{EVICTS}, and nothing replaces them within two plans",
    ]
    seen = preview(a_scene(), "drain", "a100-3")
    assert seen.lines[0].startswith("now  nothing is granted: node a100-3 is being drained, 1 replica is left there")
    assert seen.lines[1] == "ends qwen-32b: 1 replica on a100-3 at once; nothing replaces it within two plans"


def test_on_a_spot_node_that_nobody_drains_they_serve_until_their_grace() -> None:
    known = a_spot_scene(StartView("spot", "node", 2, 35.0, 40.0))
    pools = tuple(
        replace(view, nodes=tuple(replace(node, node_pool=None) for node in view.nodes))
        for view in known.snapshot.pools
    )
    (_, taken) = interrupted(replace_snapshot(known, pools=pools), "spot-1")
    assert (
        taken == f"spot if the cloud takes spot-1 instead: 2 replicas of image serve until 30 s before it goes; {READY}"
    )


def test_of_an_override_that_drains_nothing_no_interruption_is_told() -> None:
    excluded = preview(a_spot_scene(), "exclude", "spot-1", subject_kind="node")
    assert excluded.refused is None
    assert not [line for line in excluded.lines if line.startswith(("keep", "ends", "spot"))]


def test_who_is_short_in_the_end_is_named_with_how_late_that_is_and_how_it_would_be_without() -> None:
    alike = preview(a_scene(), "exclude", "a100-3", subject_kind="node")
    assert alike.lines[0].endswith("; unmet 1 replica of llama-70b")
    assert "lack llama-70b is short of 1 replica, as without it: 7 replicas of work on 6" in alike.lines
    capped = preview(a_scene(), "cap", "llama-70b", 5)
    assert capped.lines[0].endswith("; unmet 2 replicas of llama-70b")
    assert [line[:4] for line in capped.lines] == ["now ", "cost", "gain"]  # its cost says it already


def test_an_override_that_asks_for_what_comes_anyway_changes_nothing() -> None:
    known = a_scene(qwen=2)  # one of its 7 is missing, and 2 GPUs are free
    without = foresee(known, an_override("pause", "qwen-32b")).without
    assert [(each.model, each.replicas_to) for each in without.now.changes] == [("llama-70b", 7)]
    assert preview(known, "pin", "llama-70b", 7).lines[0].startswith("now  nothing changes: llama-70b has 6 replicas")
    capped = a_scene(an_override("cap", "qwen-32b", 2))  # whose third replica goes in any case
    assert foresee(capped, an_override("exclude", "a100-1", subject_kind="node")).without.now.changes[0].victims
    assert preview(capped, "exclude", "a100-1", subject_kind="node").lines[0].startswith("now  nothing changes: ")

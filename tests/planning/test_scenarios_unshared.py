"""Models that share by no curve: nobody sees them, they go by votes, or a person has said their number."""

from tests.builders import a_model, a_policy, a_pool, an_override
from tests.planning.story import moves
from tests.planning.test_scenarios_shares import a_pair, a_story, flat, shares, steep


def test_a_model_nobody_sees_keeps_what_it_holds_and_the_others_share_the_rest() -> None:
    # 8 GPUs, the blind a holds 3: b gets 5 however much it gains.
    policy = a_pair(a_model("a"), a_model("b"))
    story = a_story(policy, {"a": 3, "b": 1}, {"a": flat(1, 8), "b": steep(1, 8)})
    story.load("a", {})
    assert shares(story.plan()) == {"a": 3, "b": 5}


def test_a_model_that_goes_by_votes_keeps_what_it_needs_and_room_for_its_own() -> None:
    # a has no curve; it wants 4 of its 4, and has 2. b saves 50 with each: 8 - 4 = 4.
    policy = a_pair(a_model("a", entitlement=4), a_model("b"))
    story = a_story(policy, {"a": 2, "b": 1}, {"b": steep(1, 8)})
    story.load("a", {"concurrency": 16.0})
    assert shares(story.plan()) == {"a": 4, "b": 4}


def test_and_what_votes_do_not_need_is_for_whoever_gains() -> None:
    # a has no curve and holds 6; votes say 2 for longer than the cooldown of 30 s. b saves 50 with each: 8 - 2 = 6.
    policy = a_pair(a_model("a"), a_model("b"))
    story = a_story(policy, {"a": 6, "b": 2}, {"b": steep(1, 8)})
    story.load("a", {"concurrency": 8.0})
    assert shares(story.plan()) == {"a": 6, "b": 2}
    story.wait(31.0)
    assert shares(story.plan()) == {"a": 2, "b": 6}


def test_a_model_that_votes_calls_on_less_priority_though_one_with_a_share_found_nothing_there() -> None:
    # a takes from c by its share, and nothing that d needs; b goes by votes, which know priorities only.
    models = a_model("a"), a_model("b"), a_model("c"), a_model("d", priority=50)
    policy = a_policy(*models, pools=(a_pool(gpus=12),))
    story = a_story(policy, {"a": 2, "b": 2, "c": 2, "d": 6}, {"a": steep(1, 8), "c": flat(1, 8)})
    story.load("b", {"concurrency": 16.0}, 2.0)
    story.load("d", {"concurrency": 24.0})
    assert shares(story.plan()) == {"a": 3, "b": 2, "c": 1, "d": 6}
    story.wait(11.0)
    assert shares(story.plan()) == {"a": 3, "b": 4, "c": 1, "d": 4}


def test_a_pinned_model_has_its_number() -> None:
    policy = a_pair(a_model("a"), a_model("b"))
    story = a_story(policy, {"a": 3, "b": 1}, {"a": steep(1, 8), "b": flat(1, 8)})
    story.override(an_override("pin", "a", 4))
    assert shares(story.plan()) == {"a": 4, "b": 1}


def test_a_capped_model_goes_no_higher_though_its_curve_begins_above() -> None:
    # The curve knows 3 and more; the cap is 2: that is its share, and it is not raised again afterwards.
    policy = a_pair(a_model("a"), a_model("b"))
    story = a_story(policy, {"a": 5, "b": 1}, {"a": steep(3, 8), "b": flat(1, 8)})
    story.override(an_override("cap", "a", 2))
    assert moves(story.turn()) == {"a": (5, 2)}
    assert moves(story.plan()) == {}


def test_a_persons_floor_comes_before_any_gain() -> None:
    # a gains nothing from a third replica and owns 1, but a person says 4: b has the other 4.
    policy = a_pair(a_model("a"), a_model("b"))
    story = a_story(policy, {"a": 2, "b": 6}, {"a": flat(1, 8), "b": steep(1, 8)})
    story.override(an_override("floor", "a", 4))
    assert shares(story.plan()) == {"a": 4, "b": 4}


def test_a_frozen_model_keeps_what_it_has() -> None:
    policy = a_pair(a_model("a"), a_model("b"))
    story = a_story(policy, {"a": 3, "b": 1}, {"a": steep(1, 8), "b": steep(1, 8, 1.5)})
    story.override(an_override("freeze", "a"))
    assert shares(story.plan()) == {"a": 3, "b": 5}


def test_a_pool_excluded_for_a_model_is_no_room_for_it() -> None:
    policy = a_policy(
        a_model("a", 0, pools=("x", "y")), a_model("b", 0, pools=("y",)), pools=(a_pool("x", 2), a_pool("y", 4))
    )
    story = a_story(policy, {"a": {"x": 1}, "b": {"y": 1}}, {"a": steep(0, 6), "b": steep(0, 6, 10.0)})
    story.override(an_override("exclude", "y", subject_kind="pool", model="a"))
    assert shares(story.plan()) == {"a": 2, "b": 4}

"""`explain` of what a doubting guard declined: its numbers, from when on, and what a person may decide instead."""

from rebalancer.api.text.explain import render_explain
from tests.planning.doubts import a_fleet, a_jumping_model, offered, says


def test_a_jump_that_is_not_believed_yet_is_told_with_its_numbers_and_the_way_round() -> None:
    story = a_jumping_model()
    says(story, requests=100.0)
    said = render_explain(story.plan(), story.snapshot, "b")
    assert "does not get 23 replicas more (2 -> 25): guard plausible, its work jumped to 25 replicas, " in said
    assert "more than 20 times the greater of its usual 1 and one replica's work; " in said
    assert "it waits for 2 more samples or for a second signal; not before 08:00:09" in said
    assert "rebalancer override add floor b 25 --for 30m --reason ..." in said


def test_an_outage_is_told_with_its_end() -> None:
    story = a_fleet()
    story.turn(30.0)
    for name in ("m0", "m1", "m2"):
        offered(story, name, 1.0)
    story.turn(40.0)
    said = render_explain(story.plan(), story.snapshot, "m0")
    assert "guard sudden, m0, m1 and m2 lost 50% or more of their work within 120 s (3 of the 4 models" in said
    assert (
        "has 1 of 4 replicas of work left and keeps what it has until more than 2 are back; not before 08:15:30" in said
    )
    assert "rebalancer override add cap m0" in said

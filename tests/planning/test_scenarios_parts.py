"""Parts that models keep while standing still would have sufficed for three hours.

Of 8 GPUs a saves 50 requests with each, as the look-ahead says, and b none: by worth alone a has 7 and b its floor.
"""

from typing import Any

import pytest

from rebalancer.domain.readings import Work
from tests.builders import a_model, a_policy, an_elastic_pool
from tests.planning.outlooks import an_outlook
from tests.planning.story import Story
from tests.planning.test_scenarios_shares import a_pair, a_story, flat, shares, steep

CALM = Work(short=1.0, last_60s=1.0)


def a_rest(
    a: int = 4,
    b: int = 4,
    *,
    own: tuple[int, int] = (1, 1),
    enough: tuple[int, int] = (2, 2),
    work: Work = CALM,
    **of_a: float,
) -> Story:
    """Two models at rest on a and b replicas: entitlements, how many would have been enough; `of_a`: of a's outlook."""
    policy = a_pair(a_model("a", entitlement=own[0]), a_model("b", entitlement=own[1]))
    story = a_story(policy, {"a": a, "b": b}, {})
    story.load("a", {"concurrency": 1.0}, work=work)
    story.load("b", {"concurrency": 0.1}, work=0.1)
    seen: dict[str, Any] = {"peak": 3.0, "minute": 2.5} | of_a
    story.look_ahead("a", an_outlook(steep(1, 8), a, enough=enough[0], **seen))
    story.look_ahead("b", an_outlook(flat(1, 8), b, enough=enough[1], peak=1.0, minute=1.0, level=0.1))
    return story


def test_each_has_what_would_have_been_enough_and_an_even_part_of_the_rest() -> None:
    assert shares(a_rest(enough=(0, 0)).plan()) == {"a": 7, "b": 1}, "by worth, or it would not tell"
    assert shares(a_rest().plan()) == {"a": 4, "b": 4}
    assert shares(a_rest(enough=(5, 2)).plan()) == {"a": 5, "b": 3}
    assert shares(a_rest(7, 1).plan()) == {"a": 4, "b": 4}


@pytest.mark.parametrize("a", [3, 4, 6])
def test_what_is_left_goes_by_entitlement_so_that_at_rest_all_is_at_home(a: int) -> None:
    assert shares(a_rest(a, 8 - a, own=(3, 5)).plan()) == {"a": 3, "b": 5}
    assert shares(a_rest(a, 8 - a, own=(3, 5), enough=(4, 2)).plan()) == {"a": 4, "b": 4}


def test_who_was_not_seen_for_long_enough_ends_them_for_all() -> None:
    assert shares(a_rest(enough=(2, 0)).plan()) == {"a": 7, "b": 1}


def test_what_would_have_been_enough_must_fit() -> None:
    assert shares(a_rest(enough=(5, 3)).plan()) == {"a": 5, "b": 3}
    assert shares(a_rest(enough=(6, 3)).plan())["a"] > 5


def test_they_end_where_a_level_has_a_demand_beyond_its_part() -> None:
    assert shares(a_rest(level=1.75).plan()) == {"a": 4, "b": 4}, "1.75 + 1.5 x sqrt(1.75) are 3.73"
    assert shares(a_rest(level=2.0).plan())["a"] > 4, "2 + 1.5 x sqrt(2) are 4.12"


@pytest.mark.parametrize(
    ("short", "minute", "stay"),
    [(9.0, 2.0, True), (2.0, 9.0, True), (4.5, 4.5, False), (3.9, 9.0, True)],
)
def test_work_ends_them_where_it_lasts_and_is_beyond_part_and_all_that_was_seen(
    short: float,
    minute: float,
    stay: bool,  # noqa: FBT001  # a column of the table
) -> None:
    found = shares(a_rest(work=Work(short=short, last_60s=minute), peak=9.0).plan())
    assert (found == {"a": 4, "b": 4}) is stay


def test_work_for_which_as_little_was_enough_before_does_not_end_them() -> None:
    assert shares(a_rest(work=Work(short=4.5, last_60s=4.5), peak=6.0, minute=5.0).plan()) == {"a": 4, "b": 4}


def test_a_likely_shift_ends_them_only_where_the_work_is_higher_than_ever() -> None:
    assert shares(a_rest(work=Work(short=3.5, last_60s=1.0), shift=0.9, shifted=4.0).plan()) == {"a": 4, "b": 4}
    assert shares(a_rest(work=Work(short=3.9, last_60s=1.0), shift=0.9, shifted=4.0).plan())["a"] > 4
    assert shares(a_rest(work=Work(short=3.9, last_60s=1.0), shift=0.4, shifted=4.0).plan()) == {"a": 4, "b": 4}


def test_where_nodes_cost_money_there_are_no_parts() -> None:
    models = tuple(a_model(name, pools=("spot",)) for name in "ab")
    story = a_story(a_policy(*models, pools=(an_elastic_pool(gpus=8),)), {"a": 4, "b": 4}, {})
    for name, curve in (("a", steep(1, 8)), ("b", flat(1, 8))):
        story.load(name, {"concurrency": 0.1}, work=0.1)
        story.look_ahead(name, an_outlook(curve, 4, enough=2, peak=3.0, minute=2.5, level=0.1))
    assert all("its part" not in step.said for model in story.plan().models for step in model.steps)


def test_deferred_work_knows_no_parts() -> None:
    story = a_story(a_pair(a_model("a"), a_model("b", workload_class="batch")), {"a": 4, "b": 4}, {})
    story.load("a", {"concurrency": 1.0}, work=CALM)
    story.load("b", {"concurrency": 0.1}, work=0.1)
    for name, curve in (("a", steep(1, 8)), ("b", flat(1, 8))):
        story.look_ahead(name, an_outlook(curve, 4, enough=2, peak=3.0, minute=2.5))
    assert shares(story.plan())["a"] > 4


def test_explain_says_that_it_is_a_part_and_what_would_have_been_enough() -> None:
    (a,) = (each for each in a_rest().plan().models if each.model == "a")
    (step,) = (step for step in a.steps if step.stage == "share")
    words = "4 replicas, its part, while 2 would have kept the last hours in time but for a start's length; "
    assert step.said.startswith(words)
    assert step.numbers["enough"] == 2

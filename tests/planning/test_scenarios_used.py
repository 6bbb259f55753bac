"""What is seen to be used goes to nobody's forecast, as long as all of it fits on the GPUs there are.

Of 8 GPUs a saves 50 requests with each, as the look-ahead says, and b none: by worth alone a has 7 and b its floor.
What a model uses is its work and half a root of it for bursts: 2.6 replicas of work use ceil(2.6 + 0.8) = 4.
"""

import pytest

from rebalancer.domain.policy import Model
from rebalancer.domain.readings import Work
from tests.builders import a_model, a_policy, an_elastic_pool
from tests.planning.outlooks import an_outlook
from tests.planning.story import Story, decision_of
from tests.planning.test_scenarios_shares import a_pair, a_story, flat, shares, steep


def a_riser(  # one thing each
    work: dict[str, float | Work],
    *,
    a: int = 4,
    b: int = 4,
    model: Model | None = None,
    busiest: tuple[float, float] = (0.0, 0.0),
) -> Story:
    """Where a gains from all that b holds, and both have this much work; `busiest`: their busiest five minutes."""
    story = a_story(a_pair(a_model("a"), model or a_model("b")), {"a": a, "b": b}, {})
    for name, each in work.items():
        story.load(name, {"concurrency": 4.0}, work=each)
    story.foresee("a", steep(1, 8), busiest=busiest[0])
    story.foresee("b", flat(1, 8), busiest=busiest[1])
    return story


class TestUsed:
    def test_goes_to_nobodys_forecast(self) -> None:
        assert shares(a_riser({"a": 1.0, "b": 0.1}).plan()) == {"a": 7, "b": 1}
        assert shares(a_riser({"a": 1.0, "b": 2.6}).plan()) == {"a": 4, "b": 4}

    @pytest.mark.parametrize("work", [Work(short=2.6, last_60s=0.5), Work(short=0.5, last_60s=2.6)])
    def test_is_what_the_last_15_or_60_seconds_keep_busy_whichever_is_more(self, work: Work) -> None:
        assert shares(a_riser({"a": 1.0, "b": work}).plan()) == {"a": 4, "b": 4}

    def test_of_what_it_holds_the_rest_goes(self) -> None:
        assert shares(a_riser({"a": 1.0, "b": 2.6}, a=2, b=6).plan()) == {"a": 4, "b": 4}

    def test_has_less_room_where_not_all_room_fits(self) -> None:
        # With half a root each, 3.9 and 3.2 would use 5 and 5 of 8; with none they use 4 and 4.
        assert shares(a_riser({"a": 3.9, "b": 3.2}).plan()) == {"a": 4, "b": 4}

    def test_is_what_the_busiest_five_minutes_of_three_hours_kept_busy_where_those_of_all_fit(self) -> None:
        assert shares(a_riser({"a": 1.0, "b": 0.1}, busiest=(4.0, 3.3)).plan()) == {"a": 4, "b": 4}

    def test_forgets_the_busiest_five_minutes_where_those_of_all_do_not_fit(self) -> None:
        assert shares(a_riser({"a": 1.0, "b": 0.1}, busiest=(4.1, 3.3)).plan()) == {"a": 7, "b": 1}

    def test_counts_work_beyond_what_was_before(self) -> None:
        # a has 5 now: with b's busiest five minutes that is more than there is, and b keeps what it uses now.
        assert shares(a_riser({"a": 5.0, "b": 0.1}, busiest=(1.0, 3.3)).plan()) == {"a": 7, "b": 1}

    def test_forgets_what_was_before_while_one_has_less_than_it_uses_now(self) -> None:
        # 2.5 on 3 replicas is no reason; on 2 it is, though 4 and 4 would fit.
        assert shares(a_riser({"a": 2.5, "b": 0.1}, a=3, b=5, busiest=(1.0, 3.3)).plan())["b"] == 4
        assert shares(a_riser({"a": 2.5, "b": 0.1}, a=2, b=6, busiest=(1.0, 3.3)).plan()) == {"a": 7, "b": 1}

    def test_leaves_what_was_before_to_a_level_that_is_believed_to_rise_beside_it(self) -> None:
        story = a_riser({"a": 1.0, "b": 0.1}, busiest=(1.0, 3.3))
        assert shares(story.plan()) == {"a": 4, "b": 4}
        story = a_riser({"a": 1.0, "b": 0.1}, busiest=(1.0, 3.3))
        story.look_ahead("a", an_outlook(steep(1, 8), 4, shift=0.9, shifted=6.0))
        assert shares(story.plan()) == {"a": 7, "b": 1}

    def test_is_for_whoever_gains_most_where_there_is_not_enough_for_all(self) -> None:
        assert shares(a_riser({"a": 5.5, "b": 3.2}).plan()) == {"a": 7, "b": 1}

    def test_is_nothing_of_work_that_is_deferred(self) -> None:
        batch = a_model("b", workload_class="batch")
        assert shares(a_riser({"a": 1.0, "b": 2.6}, model=batch, busiest=(1.0, 3.3)).plan()) == {"a": 7, "b": 1}

    def test_is_nothing_where_a_node_costs_more_than_it_saves(self) -> None:
        policy = a_policy(a_model("b", pools=("spot",)), pools=(an_elastic_pool(gpus=8),), cost_weight=0.02)
        story = a_story(policy, {"b": 4}, {})
        story.load("b", {"concurrency": 4.0}, work=2.6)
        story.foresee("b", flat(1, 8))
        story.plan()
        story.wait(120.0)  # what is surplus goes when it has been for so long
        assert shares(story.plan()) == {"b": 1}

    def test_is_told_where_it_decides(self) -> None:
        plan = a_riser({"a": 1.0, "b": 2.6}).plan()
        share = next(step for step in decision_of(plan, "b").steps if step.stage == "share")
        assert share.said.startswith(
            "4 replicas, those in use now; a replica in use is not taken for a need that has not come yet; "
            "late requests in"
        )
        assert share.numbers["inUse"] == 4

"""The last hours as a page: who held the GPUs, whose requests were late, marks; letters and colours of models."""

from msgspec.structs import replace

from rebalancer.api.pages.badges import HUES, badges
from rebalancer.api.pages.decisions import DecisionsQuery, decisions
from rebalancer.api.pages.history import HistoryPage, HistoryQuery, history_page
from rebalancer.api.ports.timeline import DecisionRow, ShiftStep, TimelineEvent
from rebalancer.app.charts import Charts
from rebalancer.domain.outlook import Outlook
from rebalancer.domain.plan import Plan, Unmet
from rebalancer.domain.pool_view import PoolView
from tests.builders import NOW, a_load, a_model, a_model_view, a_node, a_policy, a_snapshot, a_target
from tests.cli.scene import decided

MODELS = ("a", "b", "c")
POLICY = a_policy(*(a_model(name) for name in MODELS))
BEGIN = NOW - NOW % 240
OUTLOOK = Outlook(BEGIN, 120, 2, 2, (9.0,), (9.0,), (0.0,), 4.0, 4.0, 1.0, 0.0, 4.0, 1.0, 9, 0, 0.0, 1.0, None, None)


def charts(minutes: range, held: tuple[int, ...] = (3, 2, 1), *, short: bool = True) -> Charts:
    """A cycle in each minute after the start: a, b and c hold so many GPUs of 8; b is short unless told otherwise."""
    made = Charts()
    views = tuple(a_model_view(name, a_target(name, gpus)) for name, gpus in zip(MODELS, held, strict=True))
    for minute in minutes:
        at = BEGIN + 60.0 * minute
        seen = replace(
            a_snapshot(),
            at=at,
            pools=(PoolView(name="a100", nodes=(a_node("n1", gpus=8),)),),
            models=views,
            loads=(a_load("b", outlook=OUTLOOK),),
        )
        models = tuple(decided(name, 1, 2, 2, 0, 0, 0, why="") for name in MODELS)
        plan = Plan(cycle=1, at=at, models=models, unmet=(Unmet("b", 1, "gpus", "no GPUs", at),) if short else ())
        made.note(seen, plan, POLICY)
    return made


def page(made: Charts, minute: int, rows: tuple[DecisionRow, ...] = (), **query: object) -> HistoryPage:
    return history_page(made.day(), POLICY, rows, replace(HistoryQuery(), **query), BEGIN + 60.0 * minute)


def test_an_hour_is_sixty_minutes_and_a_day_is_steps_of_four() -> None:
    made = charts(range(10))
    found = {hours: page(made, 9, hours=hours) for hours in ("1", "6", "24")}
    assert {hours: (each.steps, each.step_seconds) for hours, each in found.items()} == {
        "1": (60, 60),
        "6": (360, 60),
        "24": (360, 240),
    }
    for each in found.values():
        assert len(each.pools[0].gpus) == each.steps
        assert each.pools[0].gpus[-1] == 8
        assert each.pools[0].gpus[0] is None


def test_steps_of_four_minutes_stand_still_while_time_goes_on() -> None:
    made = charts(range(10))
    first = {page(made, minute, hours="24").first_at for minute in (4, 5, 6, 7)}
    assert len(first) == 1


def test_minutes_without_the_service_are_null_for_everybody() -> None:
    found = page(charts(range(0, 9, 2)), 8, hours="1")
    assert found.pools[0].gpus[-3:] == (8, None, 8)
    assert found.pools[0].models[0].gpus[-3:] == (3, None, 3)
    assert found.late_per_minute[-2] is None


def test_who_holds_most_comes_first_and_the_rest_is_one_sum() -> None:
    (pool,) = page(charts(range(3)), 2, hours="1", most=1).pools
    assert [(each.model, each.gpus[-1]) for each in pool.models] == [("a", 3), ("", 3)]


def test_late_requests_are_those_reckoned_with_the_replicas_there_were_while_a_model_is_short() -> None:
    found = page(charts(range(3)), 2, hours="1")
    assert found.late_per_minute[-1] == 4.5  # 9 in 120 s
    assert found.late == ("b",)
    at_ease = page(charts(range(3), short=False), 2, hours="1")
    assert (at_ease.late_per_minute[-1], at_ease.late) == (0.0, ())


def test_one_model_has_its_own_figures_its_slo_and_its_gpus_alone() -> None:
    found = page(charts(range(3)), 2, hours="1", model="b")
    (model,) = found.models
    assert (model.ready[-1], model.demand[-1], model.slo_seconds) == (2, 1, None)
    assert [(pool.pool, [each.model for each in pool.models]) for pool in found.pools] == [("a100", ["b"])]


def test_marks_are_shifts_notices_and_peoples_decisions_of_those_hours() -> None:
    grant = TimelineEvent(BEGIN, "grant", "gets 1", 3, "b", "a100", "2-a", "id", (ShiftStep(BEGIN, "a", "gives 1"),))
    rows = (
        DecisionRow(1, BEGIN - 9_000, (TimelineEvent(BEGIN - 9_000, "notice", "n9 goes", 1),)),
        DecisionRow(2, BEGIN, (TimelineEvent(BEGIN, "refusal", "keeps 1", 2, "b"), grant)),
        DecisionRow(
            3, BEGIN, (TimelineEvent(BEGIN, "notice", "n1 goes", 3), TimelineEvent(BEGIN, "grant", "x", 3, "b"))
        ),
        DecisionRow(4, BEGIN, (TimelineEvent(BEGIN, "override", "is put under pin", 4, "c"),)),
    )
    made = charts(range(3))
    assert [each.text for each in page(made, 2, rows, hours="1").timeline] == ["gets 1", "n1 goes", "is put under pin"]
    for model in ("a", "b"):  # who gave and who got
        assert [each.text for each in page(made, 2, rows, hours="1", model=model).timeline] == ["gets 1", "n1 goes"]


def test_two_letters_tell_models_apart_and_colours_repeat_last() -> None:
    names = ("chat", "code", "embed-large", "llama-70b", "llama-7b", "qwen-32b", "sdxl", "9-x")
    given = badges(tuple(sorted(names)))
    assert {name: given[name].letters for name in names} == {
        "chat": "Ch",
        "code": "Co",
        "embed-large": "El",
        "llama-70b": "L7",
        "llama-7b": "Ll",
        "qwen-32b": "Q3",
        "sdxl": "Sd",
        "9-x": "9x",
    }
    assert len({each.hue for each in given.values()}) == HUES


def test_a_thousand_models_have_badges_and_most_keep_theirs_when_one_comes() -> None:
    names = tuple(sorted(f"model-{n:04}" for n in range(1_000)))
    assert len(badges(names)) == 1_000
    before, after = badges(("chat", "code", "docs")), badges(("chat", "code", "docs", "new"))
    assert {name: after[name] for name in before} == before


def rows(*cycles: int) -> tuple[DecisionRow, ...]:
    return tuple(DecisionRow(n, NOW + n, (TimelineEvent(NOW + n, "notice", f"n{n}", n),)) for n in cycles)


def test_a_page_around_a_cycle_has_it_in_the_middle_and_knows_that_newer_ones_are_left_out() -> None:
    found = decisions(rows(*range(1, 100)), DecisionsQuery(around=50, limit=10))
    assert [row.cycle for row in found.decisions] == [55, 54, 53, 52, 51, 50, 49, 48, 47, 46]
    assert (found.newest, found.next_before, found.oldest_at) == (False, 46, NOW + 1)
    found = decisions(rows(*range(1, 100)), DecisionsQuery(around=99, limit=10))
    assert (found.newest, found.decisions[0].cycle) == (True, 99)


def test_a_page_says_when_nothing_newer_was_left_out() -> None:
    assert decisions(rows(1, 2), DecisionsQuery()).newest
    assert not decisions(rows(1, 2), DecisionsQuery(before=2)).newest
    assert decisions((), DecisionsQuery()).oldest_at is None

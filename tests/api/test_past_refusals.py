"""`explain` tells refusals that are over, with their times: what was refused a minute ago is why it is so now."""

from msgspec.structs import replace

from rebalancer.api.ports.past_refusals import LAST_SECONDS, PastRefusal, PastRefusals
from rebalancer.api.text.explain import render_explain
from rebalancer.domain.plan import Refusal, Unmet
from tests.cli.scene import NOW, PLAN, SNAPSHOT

STEP = Refusal("step", "qwen-32b", 3, 2, "it lost 1 of at most 1")
SHIFT = Refusal("shift", "sdxl", 4, 3, "it has given away 1")


def heard(*plans: tuple[float, tuple[Refusal, ...]], waits: str = "") -> tuple[PastRefusal, ...]:
    """What is known at NOW of plans that many seconds before it; `waits`: a model short because of each refusal."""
    past = PastRefusals()
    for ago, refusals in plans:
        unmet = [Unmet(waits, 1, each.guard, f"{each}; and so on", NOW) for each in refusals if waits]
        past.hear(NOW - ago, refusals, unmet)
    return past.recent(NOW)


def before(past: tuple[PastRefusal, ...], model: str, refusals: tuple[Refusal, ...] = ()) -> list[str]:
    plan = replace(PLAN, refusals=refusals)
    return [each[8:] for each in render_explain(plan, SNAPSHOT, model, past).splitlines() if each.startswith("before")]


def test_a_refusal_that_is_over_is_told_from_its_first_plan_to_its_last() -> None:
    past = heard((90.0, (STEP,)), (80.0, (STEP,)), (70.0, ()), (60.0, (SHIFT,)))
    assert before(past, "qwen-32b") == [f"03:10:37 to 03:10:47 {STEP}"]
    assert before(past, "sdxl") == [f"03:11:07 {SHIFT}"]


def test_one_that_stands_now_is_told_as_refused_alone() -> None:
    assert before(heard((20.0, (STEP,)), (10.0, (STEP,))), "qwen-32b", (STEP,)) == []


def test_one_that_came_back_is_told_with_each_of_its_times_the_newest_first() -> None:
    past = heard((300.0, (STEP,)), (100.0, (STEP,)))
    assert before(past, "qwen-32b") == [f"03:10:27 {STEP}", f"03:07:07 {STEP}"]


def test_who_was_short_because_of_it_is_told_too() -> None:
    past = heard((90.0, (STEP,)), waits="llama-70b")
    assert before(past, "llama-70b") == [f"03:10:37 llama-70b lacked GPUs: {STEP}"]
    assert before(past, "mixtral-8x7b") == []


def test_what_is_over_for_long_is_forgotten_and_of_many_the_rest_is_counted() -> None:
    assert heard((LAST_SECONDS + 1.0, (STEP,))) == ()
    many = heard(*((560.0 - 40.0 * n, (STEP,)) for n in range(8)))
    assert len(many) == 8
    assert before(many, "qwen-32b")[-1] == "and 3 more in the ten minutes before"


def test_what_an_older_journal_adds_pushes_out_none_that_is_newer() -> None:
    older, newer = PastRefusals(), PastRefusals()
    for n in range(1001):
        older.hear(NOW - 500.0, [replace(STEP, subject=f"m{n}")], ())
        older.hear(NOW - 400.0, [replace(STEP, subject=f"m{n}")], ())
    newer.hear(NOW - 300.0, [SHIFT], ())
    newer.hear(NOW - 200.0, [SHIFT], ())
    newer.put_before(older)
    assert [each.until for each in newer.recent(NOW) if each.refusal == SHIFT] == [NOW - 300.0, NOW - 200.0]

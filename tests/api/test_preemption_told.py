"""`explain` of whose pods the scheduler ends for whose: floors and guards bind us, not the scheduler."""

from msgspec.structs import replace

from rebalancer.api.text.explain import render_explain
from rebalancer.domain.quota_view import PodRank
from tests.builders import a_model, a_policy, a_pool, a_snapshot
from tests.planning.story import Story


def explained(model: str, *ranks: PodRank) -> list[str]:
    models = [a_model(name, 1) for name in ("batch", "chat", "code")]
    policy = a_policy(*models, pools=(a_pool(),))
    story = Story(policy, replace(a_snapshot(policy, dict.fromkeys(("batch", "chat", "code"), 1)), ranks=ranks))
    lines = render_explain(story.plan(), story.snapshot, model).splitlines()
    return [line for line in lines if line.startswith("preempt")]


HIGH, LOW = PodRank("chat", "a100", "serving-high", 1000), PodRank("batch", "a100", "spare", -5)


def test_whom_the_scheduler_would_end_for_its_pods() -> None:
    below = "preempt its pods in a100 (serving-high, 1000) take the place of those of batch, code where a node is full"
    assert explained("chat", LOW, HIGH) == [f"{below}, whatever their floors"]


def test_for_whom_it_would_end_them() -> None:
    above = "preempt its pods in a100 (no PriorityClass, 0) give way to those of chat where a node is full"
    assert explained("code", HIGH) == [f"{above}, whatever its floor"]


def test_a_class_that_preempts_nobody_takes_no_place() -> None:
    assert explained("code", replace(HIGH, preempts=False)) == []
    assert explained("chat", replace(HIGH, preempts=False)) == []


def test_where_all_are_equal_there_is_nothing_to_tell() -> None:
    assert explained("chat") == []

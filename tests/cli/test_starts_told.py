"""How long starts take, where people look."""

from msgspec.structs import replace

from rebalancer.api.text.explain import render_explain
from rebalancer.domain.dual_pods import FailedWake
from rebalancer.domain.gpu_memory import LoadedMemory
from rebalancer.domain.snapshot import ModelView
from rebalancer.domain.starts import StartView
from tests.builders import NOW
from tests.planning.story import Story
from tests.planning.test_scenarios_guards import a_donor_and_a_needy


def starts_told(story: Story, **seen: object) -> list[str]:
    return told("starts", story, **seen)


def told(row: str, story: Story, **seen: object) -> list[str]:
    plan, snapshot = story.plan(), story.snapshot

    def of(view: ModelView) -> ModelView:
        return replace(view, **seen) if view.id == "b" else view

    text = render_explain(plan, replace(snapshot, models=tuple(of(view) for view in snapshot.models)), "b")
    return [line.removeprefix(row).strip() for line in text.splitlines() if line.startswith(f"{row} ")]


def test_explain_tells_each_kind_of_start_and_what_is_planned_with() -> None:
    starts = (StartView("a100", "image", 12, 41.0, 60.0), StartView("a100", "node", 3, 240.0, 300.0))
    assert starts_told(a_donor_and_a_needy(), starts=starts, load_seconds=41.0, slow_load_seconds=60.0) == [
        "12 in a100, half within 41 s, 9 of 10 within 1m0s: node and image were there",
        "3 in a100, half within 4m0s, 9 of 10 within 5m0s: the node had to come",
        "planned with 41 s from placed to Ready; 1m0s where a deadline must be met",
    ]


def test_explain_says_when_too_few_starts_were_seen() -> None:
    told = starts_told(a_donor_and_a_needy(), starts=(StartView("a100", "hot", 2, 4.0, 4.0),))
    assert told[1:] == ["planned with the policy's loadSeconds until 3 starts were seen (woken engines are none)"]
    assert starts_told(a_donor_and_a_needy()) == []


def test_explain_names_the_wake_that_does_not_end() -> None:
    wake = FailedWake("b-2", "launcher-7", since=NOW - 30.0, told_at=NOW - 9.0)
    (line,) = starts_told(a_donor_and_a_needy(), failed_wakes=(wake,))
    assert line == "the engine of b-2 in launcher-7 wakes since 07:59:30, counted as a cold start at 07:59:51"


def test_explain_tells_the_memory_of_loaded_replicas_and_where_it_says_nothing() -> None:
    measured, reserving = LoadedMemory(30.0, 3), LoadedMemory(72.0, 1, reserved=0.9)
    assert told("memory", a_donor_and_a_needy(), loaded=measured) == [
        "30 GiB of GPU memory in use once loaded, the least of 3 replicas",
        "where the policy gives no gpuMemory it is started on no GPUs that have less",
    ]
    assert told("memory", a_donor_and_a_needy(), loaded=reserving) == [
        "72 GiB of GPU memory in use once loaded, the least of 1 replica",
        "its engine reserves 90% whatever it needs: only the policy's gpuMemory says where it fits",
    ]
    assert told("memory", a_donor_and_a_needy()) == []

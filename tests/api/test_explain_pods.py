"""Why replicas are still loading, in their pods' own words."""

from msgspec.structs import replace

from rebalancer.api.text.explain import render_explain
from rebalancer.domain.snapshot import PodView
from rebalancer.domain.starts import NOT_SET_UP
from tests.builders import NOW, a_model, a_pod, a_policy, a_snapshot
from tests.planning.story import Story

PULL = 'ImagePullBackOff: Back-off pulling image "vllm:0.9.9"'


def explained(*pods: PodView) -> list[str]:
    policy = a_policy(a_model("b", 1))
    story = Story(policy, a_snapshot(policy, {"b": 1}))
    story.target("b", replicas=1 + len(pods), pods=(*story.of("b").pods, *pods))
    snapshot = story.snapshot
    return render_explain(story.plan(), snapshot, "b").splitlines()


def loading(number: int, trouble: str = PULL) -> PodView:
    made = NOW - 900.0 + number
    pod = a_pod(f"b-new-{number}", "a100-1", phase="loading", since=made, created_at=made, begun=False)
    return replace(pod, trouble=trouble) if trouble else pod


def test_a_pod_that_does_not_come_up_says_why() -> None:
    lines = explained(loading(1))
    (line,) = (line for line in lines if "b-new-1" in line)
    assert line.split(None, 1)[0] == "pods"
    assert line.endswith(f": {PULL}")


def test_three_speak_for_all_the_oldest_first() -> None:
    lines = explained(*(loading(number) for number in (5, 4, 3, 2, 1)))
    shown = [line for line in lines if PULL in line]
    assert [name for line in shown for name in line.split() if name.startswith("b-new")] == [
        "b-new-1,",
        "b-new-2,",
        "b-new-3,",
    ]
    assert any("and 2 pods more that say why" in line for line in lines)


def test_a_pod_that_is_not_set_up_says_so_from_a_minute_on() -> None:
    lines = explained(loading(1, NOT_SET_UP))
    assert any(line.startswith("pods") and line.endswith(NOT_SET_UP) for line in lines)
    just_placed = replace(loading(1, NOT_SET_UP), placed_at=NOW - 30.0)
    assert not any(line.startswith("pods") for line in explained(just_placed))


def test_of_pods_that_just_start_nothing_is_said() -> None:
    assert not any(line.startswith("pods") or line.strip().startswith("b-new") for line in explained(loading(1, "")))

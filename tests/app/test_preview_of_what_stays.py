"""What previews say of replicas that stay: on a node that is drained, and above a floor that nobody gets. Pure."""

import pytest

from tests.app.test_preview import a_scene, an_outlook_of_llama, preview, replace_overrides
from tests.builders import an_override


def drain_of(node: str, *paused: str) -> tuple[str, ...]:
    """The lines of its preview while these models are paused."""
    return preview(a_scene(*(an_override("pause", model) for model in paused)), "drain", node).lines


def test_what_serves_on_though_its_node_is_drained_costs_nothing() -> None:
    lines = drain_of("a100-3", "qwen-32b")
    assert "keep qwen-32b: 1 replica serves on; nothing replaces it within two plans" in lines
    assert not [line for line in lines if line.startswith("cost")]


def test_what_is_ended_on_a_drained_node_has_its_cost() -> None:
    lines = drain_of("a100-3")
    assert "ends qwen-32b: 1 replica on a100-3 at once; nothing replaces it within two plans" in lines
    assert "cost qwen-32b loses 1 replica: 2 replicas of work on 2" in lines


def test_who_is_short_of_a_replacement_that_is_not_to_be_had_is_told_without_anybody_late() -> None:
    lines = drain_of("a100-2", "qwen-32b")
    assert "keep qwen-32b: 2 replicas serve on; nothing replaces them within two plans" in lines
    assert "lack qwen-32b is short of 1 replica, of none without it" in lines
    assert not [line for line in lines if line.startswith("cost")]


@pytest.mark.parametrize(("kind", "value"), [("pause", None), ("freeze", None), ("pin", 3), ("cap", 1)])
def test_a_floor_that_another_override_outranks_keeps_nothing_and_says_that_it_waits(
    kind: str, value: int | None
) -> None:
    standing = an_override(kind, "qwen-32b", value, name="standing")
    first, *_ = preview(a_scene(standing), "floor", "qwen-32b", 2).lines[1:]
    assert first.startswith(f"now  nothing changes: it waits, since {kind} by override standing outranks it")


def test_who_is_late_already_is_so_while_replicas_serve_on_that_nothing_replaces() -> None:
    known = replace_overrides(an_outlook_of_llama(9), an_override("pause", "llama-70b"))
    late = "7 replicas of work on 6, about 90 of 975 requests late in the next 150 s"
    for node, short in (("a100-1", 9), ("a100-2", 7)):
        (line,) = [line for line in preview(known, "drain", node).lines if line.startswith("lack llama-70b")]
        assert line.startswith(f"lack llama-70b is short of {short} replicas, of 5 without it: {late}"), node

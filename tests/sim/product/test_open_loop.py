"""A journal's inputs give the recorded decisions again, through the cycle that the simulator turns."""

import pytest

from rebalancer.loop.replay import replay
from rebalancer.sim.product import default_policy, play_product
from rebalancer.sim.product.open_loop import feed
from tests.sim.product.scenarios import a_surge


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """The journal of a product run with a surge in it."""
    path = tmp_path_factory.mktemp("product") / "journal.jsonl"
    scenario = a_surge(1200)
    play_product(scenario, default_policy(scenario), journal=path)
    return path.read_bytes().splitlines(keepends=True)


def test_every_decision_comes_again_byte_for_byte(lines: list[bytes]) -> None:
    found = feed(lines)
    assert found.differences == []
    assert found.cycles > 120
    assert found.changes > 3
    assert found.skipped == 0


def test_the_command_that_replays_journals_finds_the_same(lines: list[bytes]) -> None:
    fed, replayed = feed(lines), replay(lines)
    assert replayed.differences == []
    assert (fed.cycles, fed.changes, fed.refusals) == (replayed.cycles, replayed.changes, replayed.refusals)


def test_an_input_that_was_tampered_with_is_noticed(lines: list[bytes]) -> None:
    at = next(n for n, line in enumerate(lines) if b'"line":"cycle"' in line and b'"kind":"grant"' in line)
    other = lines[at].replace(b'"replicas_to":', b'"replicas_to":1', 1)
    found = feed([*lines[:at], other, *lines[at + 1 :]])
    assert found.differences[0].line == at + 1

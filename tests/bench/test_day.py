"""Where a simulated day's time goes: every part is counted, and together they are the whole."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.bench.day import day
from tests.sim.product.scenarios import a_surge

SECONDS = 60


def test_the_parts_of_a_day_are_all_of_it(tmp_path: Path) -> None:
    scenario = replace(a_surge(), seconds=SECONDS)
    found = day(scenario, "scale", tmp_path / "journal.jsonl")
    whole = found.pop("all")
    assert sum(part.seconds for part in found.values()) == pytest.approx(whole.seconds)
    assert all(part.seconds > 0.0 for part in found.values())
    turns = {found[name].calls for name in ("snapshot", "plan", "journal", "gate")}
    assert len(turns) == 1
    assert turns.pop() >= SECONDS / 10
    assert found["events"].calls >= SECONDS

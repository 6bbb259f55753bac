"""What pages are made of while cycles fail: people's decisions as they are now, and the failure among the needs."""

from pathlib import Path
from typing import Any

import pytest

from rebalancer.act.shadow import Shadow
from rebalancer.api.pages.models_table import ModelsQuery
from rebalancer.api.pages.overview import overview
from rebalancer.api.pages.values.overview import Overview
from rebalancer.app.cycle_ports import ServicePorts
from rebalancer.app.history import History
from rebalancer.app.page_data import ServicePageData
from rebalancer.domain.memory import Memory
from rebalancer.domain.plan import Decision, ModelDecision, Plan, Unplanned
from rebalancer.obs.journal_files import JournalFiles
from rebalancer.obs.metrics import Metrics
from rebalancer.obs.recorder import Recorder
from tests.app.test_cycle_ports import acknowledged
from tests.app.test_status_reporter import Seen
from tests.builders import NOW, a_policy, a_write_stop, an_override
from tests.state.objects import changed, feed

POLICY = a_policy()


class InForce:
    """The policy as it is followed, with nothing to say of its past."""

    def in_force(self) -> object:
        return POLICY

    def last_change(self) -> None:
        return None


@pytest.fixture
def seen(tmp_path: Path) -> Seen:
    """A service that has planned once."""
    return Seen(tmp_path)


def page(seen: Seen, history: History) -> Overview:
    parts: Any = InForce()
    return overview(
        ServicePageData(seen.reporter, seen.clock, parts, history, parts, parts).read(), ModelsQuery(), seats={}
    )


def test_while_cycles_fail_a_write_stop_and_an_override_are_shown_and_a_need_names_the_failure(seen: Seen) -> None:
    history = History()
    history.cycle(seen.state.snapshot(NOW, 1), Decision(Plan(1, NOW), Memory()), POLICY)
    seen.failing(planned=0.0, ended=0.0, cycles=0)
    assert (page(seen, history).attention, page(seen, history).writes_stopped) == ((), None)

    feed(seen.state, changed(a_write_stop()), changed(an_override("pause", "a")))
    seen.clock.passed = 10.0
    seen.failing(planned=0.0, ended=10.0, cycles=3)
    shown = page(seen, history)
    assert shown.writes_stopped == a_write_stop()
    assert [each.kind for each in shown.overrides] == ["pause"]
    assert [(each.severity, each.text) for each in shown.attention] == [
        ("critical", "3 cycles in a row failed, the last with KeyError: 'a100'; nothing moves until a cycle plans")
    ]


def test_a_pool_on_which_planning_fails_is_one_need_and_its_models_are_not_told_beside_it(seen: Seen) -> None:
    history = History()
    unplanned = (Unplanned(("a100",), ("a", "b"), "KeyError: 'n1'"),)
    kept = tuple(ModelDecision(name, None, 1, 1, 1, 0, 0, 1, surge=False, lent=0, borrowed=0, why="") for name in "ab")
    seen.ports.last_plan = Plan(1, NOW, models=kept, unplanned=unplanned)
    history.cycle(seen.state.snapshot(NOW, 1), Decision(seen.ports.last_plan, Memory()), POLICY)
    seen.failing(planned=0.0, ended=0.0, cycles=0)
    assert [(each.severity, each.text) for each in page(seen, history).attention] == [
        ("critical", "planning failed on pool a100 (KeyError: 'n1'): a and b stay as they are")
    ]


def test_who_holds_the_lease_and_does_not_act_yet_says_so_among_what_needs_somebody(seen: Seen) -> None:
    history = History()
    history.cycle(seen.state.snapshot(NOW, 1), Decision(Plan(1, NOW), Memory()), POLICY)
    seen.failing(planned=0.0, ended=0.0, cycles=0)
    seen.reporter.waits_for("topic state cannot be read")
    ((severity, text),) = [(each.severity, each.text) for each in page(seen, history).attention]
    assert severity == "critical"
    assert text.endswith("what the leader before it did: topic state cannot be read; nothing moves until it does")
    seen.reporter.waits_for(None)
    assert page(seen, history).attention == ()


async def test_who_follows_the_pages_hears_of_a_cycle_that_failed(seen: Seen, tmp_path: Path) -> None:
    history = History()
    recorder = Recorder(JournalFiles(tmp_path, 1 << 20), acknowledged, lambda _key, _line: None)
    shadow = Shadow(seen.clock, recorder)
    ports = ServicePorts(
        POLICY, Memory(), seen.state, recorder, shadow, Metrics(), seen.clock, lambda: None, 1, history
    )
    before = history.version
    ports.recover(NOW)
    assert await history.newer_than(before) == before + 1

"""What probes and metrics say of a wheel that turns for nothing: only cycles that planned count."""

import random
from pathlib import Path
from typing import Any

import pytest

from rebalancer.api.text.checks import of_status
from rebalancer.app.leadership import Leadership
from rebalancer.app.status_reporter import DEAD_SECONDS, FRUITLESS_SECONDS, StatusReporter
from rebalancer.domain.cluster import SOURCES
from rebalancer.domain.events import SourceState
from rebalancer.domain.plan import Plan, Unplanned
from rebalancer.kafka.broker import Broker
from rebalancer.kafka.outbox import Outbox
from rebalancer.loop.clock import SteppedClock
from rebalancer.loop.runner import Runner
from rebalancer.obs.journal_files import JournalFiles
from rebalancer.obs.metrics import Metrics
from rebalancer.obs.recorder import Recorder
from rebalancer.settings.policy_file import PolicyFile
from rebalancer.settings.service import ServiceSettings
from rebalancer.state import ClusterState
from rebalancer.survey.finding import WARN
from tests.act.rig import SteppingClock
from tests.builders import NOW, a_policy
from tests.loop.test_runner import CountingPorts
from tests.state.objects import a_cluster_node, a_state


class Kept:
    """A checkpoint that was acknowledged at an instant, or none yet."""

    acknowledged_monotonic: float | None = None


class Restored:
    """Nothing of ours is on anything that left the policy."""

    pinned = ()


class Heard:
    """An intake that has no trouble, and watches that met no unusable object."""

    trouble = None

    def __init__(self) -> None:
        self.sources: dict[str, Any] = {}
        self.counts: dict[str, int] = {}
        self.behind: dict[str, float] = {}
        self.missing: dict[str, float] = {}
        self.passed_over: tuple[str, ...] = ()
        self.consumer = self

    def stuck_seconds(self) -> float:
        return 0.0

    def stuck_by_topic(self) -> dict[str, float]:
        return {}

    def behind_by_topic(self) -> dict[str, float]:
        return self.behind

    def missing_by_topic(self) -> dict[str, float]:
        return self.missing


class Seen:
    """The insight of a service whose wheel, clock and sources are a test's."""

    def __init__(self, folder: Path, lease_name: str = "") -> None:
        self.clock = SteppingClock()
        settings = ServiceSettings(kafka_bootstrap="none:1", policy_path=folder / "policy.yaml", lease_name=lease_name)
        outbox = Outbox(Broker("none:1"), self.clock, random.Random(1))
        outbox.trouble = None

        async def publish(_key: bytes, _line: bytes) -> bool:
            return True

        recorder = Recorder(JournalFiles(folder, 1 << 20), publish, lambda _key, _line: None)
        cycle_ports: Any = CountingPorts(a_policy(plan_every_seconds=10.0))
        cycle_ports.last_plan = None
        policy_file = PolicyFile(folder / "policy.yaml", allow_empty_policy=False)
        lead = Leadership(settings, self.clock)
        self.reporter = StatusReporter(
            settings, SteppedClock(self.clock), Metrics(), policy_file, outbox, recorder, lead
        )
        self.ports = cycle_ports
        self.runner = Runner(cycle_ports, self.clock)
        self.kept = Kept()
        checkpoints: Any = self.kept
        restoring: Any = Restored()
        self.state: ClusterState = a_state(a_policy(), a_cluster_node())
        self.heard = Heard()
        heard: Any = self.heard
        self.reporter.connect(self.state, cycle_ports, self.runner, heard, heard, checkpoints, restoring)
        self.runner.began_monotonic = 0.0

    def plan_trouble(self) -> str | None:
        return next((one.detail for one in self.reporter.unready() if one.what == "plan"), None)

    def failing(self, *, planned: float | None, ended: float, cycles: int) -> None:
        """The last `cycles` cycles failed, the last of them at `ended`."""
        self.runner.planned_monotonic, self.runner.ended_monotonic = planned, ended
        self.runner.failed_in_a_row, self.runner.failure = cycles, "KeyError: 'a100'"


@pytest.fixture
def seen(tmp_path: Path) -> Seen:
    return Seen(tmp_path)


def test_it_is_ready_while_the_last_cycle_planned_and_is_not_old(seen: Seen) -> None:
    assert seen.plan_trouble() == "nothing is decided yet"
    seen.failing(planned=0.0, ended=0.0, cycles=0)
    seen.clock.passed = 60.0
    assert seen.plan_trouble() is None
    seen.clock.passed = 61.0
    assert seen.plan_trouble() == "no plan for 61 s"


def test_a_cycle_that_failed_makes_it_unready_and_is_named(seen: Seen) -> None:
    seen.failing(planned=0.0, ended=10.0, cycles=2)
    seen.clock.passed = 10.0
    assert seen.plan_trouble() == "2 cycles in a row failed, the last with KeyError: 'a100'"
    assert b"rebalancer_failed_cycles_in_a_row 2.0" in seen.reporter.metrics()


def test_pools_on_which_planning_fails_are_named_and_leave_it_ready(seen: Seen) -> None:
    seen.failing(planned=0.0, ended=0.0, cycles=0)
    seen.ports.last_plan = Plan(2, NOW, unplanned=(Unplanned(("a100",), ("a", "b"), "KeyError: 'n1'"),))
    seen.runner.pools_failed_in_a_row = {"a100": 2}
    assert seen.plan_trouble() is None
    told = [(one.what, one.detail) for one in seen.reporter.status().unready]
    why = "planning failed on pool a100 (KeyError: 'n1'): a and b stay as they are"
    assert ("plan of a100", why) in told
    assert "plan of a100" not in {one.what for one in seen.reporter.unready()}
    assert b'rebalancer_pool_failed_cycles_in_a_row{pool="a100"} 2.0' in seen.reporter.metrics()


def test_a_wheel_that_stands_still_is_dead(seen: Seen) -> None:
    seen.failing(planned=0.0, ended=0.0, cycles=0)
    seen.clock.passed = DEAD_SECONDS
    assert seen.reporter.dead() is None
    seen.clock.passed = DEAD_SECONDS + 1.0
    assert seen.reporter.dead() == "no cycle ended for 181 s"


@pytest.mark.parametrize("planned", [None, 0.0])
def test_a_wheel_that_turns_for_nothing_is_dead_after_a_quarter_of_an_hour(seen: Seen, planned: float | None) -> None:
    for passed, dead in ((FRUITLESS_SECONDS, False), (FRUITLESS_SECONDS + 1.0, True)):
        seen.clock.passed = passed
        seen.failing(planned=planned, ended=passed - 5.0, cycles=90)
        still_seen(seen)
        assert (seen.reporter.dead() is not None) is dead


def still_seen(seen: Seen) -> None:
    """The sources spoke a moment ago."""
    now = seen.clock.now()
    seen.state.apply_all([SourceState(source, now) for source in SOURCES], now)


def test_no_restart_helps_where_the_cluster_is_not_seen(seen: Seen) -> None:
    seen.clock.passed = FRUITLESS_SECONDS + 1.0
    seen.failing(planned=None, ended=FRUITLESS_SECONDS - 4.0, cycles=90)
    assert seen.state.sync(seen.clock.now()).stale
    assert seen.reporter.dead() is None


def test_the_checkpoint_is_as_old_as_its_acknowledgement_and_before_the_first_as_the_service(seen: Seen) -> None:
    seen.clock.passed = 40.0
    assert b"rebalancer_checkpoint_age_seconds 40.0" in seen.reporter.metrics()
    seen.kept.acknowledged_monotonic = 30.0
    assert b"rebalancer_checkpoint_age_seconds 10.0" in seen.reporter.metrics()


@pytest.mark.parametrize(("lease", "acts"), [("", b"1.0"), ("rebalancer", b"0.0")])
def test_a_replica_that_does_not_hold_the_lease_is_the_leader_by_neither_name(
    tmp_path: Path, lease: str, acts: bytes
) -> None:
    lines = Seen(tmp_path, lease).reporter.metrics().splitlines()
    assert {b"rebalancer_leader " + acts, b"rebalancer_leading " + acts} <= set(lines)


def test_a_topic_that_is_read_late_is_named_and_the_replica_stays_ready(seen: Seen) -> None:
    seen.heard.behind = {"metrics": 54.4, "notices": 2.0}
    behind = [(one.what, one.detail) for one in seen.reporter.status().unready if one.what.startswith("kafka-in")]
    assert behind == [("kafka-in metrics", "behind: read to where it ended 54 s ago")]
    assert not any(one.what.startswith("kafka-in") for one in seen.reporter.unready())


def test_a_topic_that_is_not_seen_is_named_in_status_and_by_the_doctor_and_the_replica_stays_ready(seen: Seen) -> None:
    seen.heard.missing = {"telegraf": 15.4, "notices": 2.0}
    status = seen.reporter.status()
    (row,) = [each for each in status.unready if each.what.startswith("kafka-in")]
    assert row.what == "kafka-in telegraf"
    assert row.detail == (
        "not seen for 15 s: there is no such topic, or no right to see it (Describe), so nothing of it is read"
    )
    assert not any(each.what.startswith("kafka-in") for each in seen.reporter.unready())
    assert any(each.state == WARN and "kafka-in telegraf: not seen" in each.said for each in of_status(status))


def test_a_producer_of_the_policy_whose_topic_is_our_own_is_named_and_the_replica_stays_ready(seen: Seen) -> None:
    seen.heard.passed_over = ("rebalancer.notices",)
    rows = [(one.what, one.detail) for one in seen.reporter.status().unready if one.what.startswith("producer")]
    assert [what for what, _ in rows] == ["producer rebalancer.notices"]
    assert "take it out of the policy's producers" in rows[0][1]
    assert not any(one.what.startswith("producer") for one in seen.reporter.unready())


def test_a_login_that_cannot_be_read_again_is_named_and_the_replica_stays_ready(seen: Seen) -> None:
    class Unread:
        """A client whose certificate was spoiled while it was renewed."""

        login_trouble = "its client certificate us.crt cannot be used: no start line"

    unread: Any = Unread()
    seen.reporter.kube = unread
    rows = {each.what: each.detail for each in seen.reporter.status().unready}
    assert rows["kubernetes-login"] == f"what was read before stays in use: {Unread.login_trouble}"
    assert "kubernetes-login" not in {each.what for each in seen.reporter.unready()}

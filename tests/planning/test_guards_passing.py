"""Who must ask which guard: a world in which this guard alone declines, and one replica that goes for every purpose."""

from msgspec.structs import replace

from rebalancer.domain.readings import Work
from rebalancer.domain.sync import Sync
from rebalancer.planning.guards.release import Purpose
from tests.builders import NOW
from tests.planning.doubts import an_outage
from tests.planning.judged import a_needed_model, declined, lost, verdicts

EVERYBODY = set(Purpose)
NOT_IN_ANY_CASE = EVERYBODY - {Purpose.DRAIN, Purpose.OVERRIDE, Purpose.RECLAIM}
NOBODYS = {Purpose.BUDGET, Purpose.SURPLUS, Purpose.MINIMUM}  # goes to nobody


class TestFloor:
    def test_everybody_asks_it(self) -> None:
        assert declined(a_needed_model(floor=8), "floor") == EVERYBODY


class TestEmpty:
    def test_everybody_asks_it(self) -> None:
        story = a_needed_model()
        story.pool("a100", nodes=())
        assert declined(story, "empty") == EVERYBODY


class TestStart:
    def test_a_drain_and_a_person_need_not_ask(self) -> None:
        story = a_needed_model()
        story.snapshot = replace(story.snapshot, sync=Sync(stale=("pods",), synced_at=NOW - 600.0))
        assert declined(story, "start") == EVERYBODY - {Purpose.DRAIN, Purpose.OVERRIDE}

    def test_who_gains_from_what_a_model_needs_asks_whether_more_than_its_first_samples_were_seen(self) -> None:
        story = a_needed_model()
        story.foresee("a", {count: 10.0 - count for count in range(1, 9)}, level=8.0)
        first = Work(short=8.0, last_60s=8.0, slow=8.0, source="arrivals")
        story.load("a", {"concurrency": 32.0}, first, outlook=story.snapshot.loads[0].outlook)
        assert declined(story, "start") == {Purpose.SHIFT}
        story.load("b", {"concurrency": 32.0}, first)
        assert declined(story, "start") == set(), "all are strangers"
        known = replace(first, long=8.0)
        story.load("a", {"concurrency": 32.0}, known, outlook=story.snapshot.loads[0].outlook)
        assert declined(story, "start") == set()


class TestBlind:
    def test_a_drain_a_person_and_a_reclaim_need_not_ask(self) -> None:
        story = a_needed_model()
        story.load("a", work=8.0)
        assert declined(story, "blind") == NOT_IN_ANY_CASE


class TestAgree:
    def test_a_drain_a_person_and_a_reclaim_need_not_ask(self) -> None:
        story = a_needed_model(signals={"concurrency": {"per_replica": 4.0}, "utilisation": True})
        assert declined(story, "agree") == NOT_IN_ANY_CASE


class TestSudden:
    def test_a_drain_a_person_and_a_reclaim_need_not_ask(self) -> None:
        story = a_needed_model()
        story.memory = replace(story.memory, outages=(an_outage(story),))
        assert declined(story, "sudden") == NOT_IN_ANY_CASE


class TestStep:
    def test_what_goes_to_nobody_asks(self) -> None:
        story = a_needed_model()
        lost(story, "a", 2, "step")
        assert declined(story, "step") == NOBODYS

    def test_its_window_ends_after_five_minutes(self) -> None:
        for age, by in ((299.5, "step"), (300.0, None)):
            story = a_needed_model()
            lost(story, "a", 2, "step", age)
            assert verdicts(story)[Purpose.SURPLUS] == by


class TestFleet:
    def test_what_goes_to_nobody_asks(self) -> None:
        story = a_needed_model()
        lost(story, "b", 2, "step")
        assert declined(story, "fleet") == NOBODYS

    def test_its_window_ends_after_five_minutes(self) -> None:
        for age, by in ((299.5, "fleet"), (300.0, None)):
            story = a_needed_model()
            lost(story, "b", 2, "step", age)
            assert verdicts(story)[Purpose.SURPLUS] == by


class TestShift:
    def test_what_goes_to_somebody_asks(self) -> None:
        story = a_needed_model()
        lost(story, "a", 7, "shift", age=9.0)
        assert declined(story, "shift") == {Purpose.SHIFT}

    def test_its_window_ends_after_ten_seconds(self) -> None:
        for age, by in ((9.5, "shift"), (10.0, None)):
            story = a_needed_model()
            lost(story, "a", 7, "shift", age)
            assert verdicts(story)[Purpose.SHIFT] == by

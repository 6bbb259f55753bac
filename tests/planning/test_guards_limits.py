"""The limits of guards, to the last step: what still passes, and what no longer does."""

from tests.builders import NOW, a_reading
from tests.planning.doubts import a_fleet, offered
from tests.planning.story import Story, refused
from tests.planning.test_scenarios_guards import a_donor_and_a_needy


def blind(story: Story) -> bool:
    return ("blind", "a") in refused(story.plan())


class TestBlind:
    def test_a_reading_of_ninety_seconds_is_usable_and_an_older_one_is_not(self) -> None:
        for age, too_old in ((90.0, False), (90.5, True)):
            story = a_donor_and_a_needy()
            story.load("a", {"concurrency": a_reading(28.0, NOW - age)}, interval_seconds=60.0)
            assert blind(story) is too_old

    def test_a_lag_that_is_usual_comes_on_top(self) -> None:
        for age, too_old in ((75.0, False), (75.5, True)):
            story = a_donor_and_a_needy()
            story.load("a", {"concurrency": a_reading(28.0, NOW - age)}, interval_seconds=5.0, lag_seconds=60.0)
            assert blind(story) is too_old

    def test_so_is_one_of_eight_pods_in_ten_and_one_of_fewer_is_not(self) -> None:
        for coverage, too_few in ((0.8, False), (0.795, True)):
            story = a_donor_and_a_needy()
            story.load("a", {"concurrency": a_reading(28.0, coverage=coverage)})
            assert blind(story) is too_few


class TestSudden:
    def test_half_a_replica_of_work_is_some(self) -> None:
        story = a_fleet()
        for name in ("m2", "m3"):
            offered(story, name, 0.5)
        story.turn(30.0)
        for name in ("m0", "m2", "m3"):
            offered(story, name, 0.0)
        story.turn()
        assert [(outage.fell, outage.of) for outage in story.memory.outages] == [(3, 4)]

"""Sources that plans are better with and are made without."""

from rebalancer.domain.cluster import ADVISORY, OF_PEOPLE, SOURCES
from rebalancer.domain.events import SourceState
from rebalancer.state.sources import SILENT_AFTER_SECONDS, Sources
from tests.builders import NOW


def listed() -> Sources:
    sources = Sources()
    for source in SOURCES.keys() - {"resourcequotas"}:
        sources.listed(source, NOW)
    return sources


def test_what_nobody_may_read_is_waited_for_no_longer_and_told() -> None:
    sources = listed()
    assert sources.sync(NOW).missing == ("resourcequotas",)
    sources.reported(SourceState("resourcequotas", NOW, "forbidden: no right", denied=True), NOW)
    assert (sources.sync(NOW).missing, sources.sync(NOW).stale) == ((), ())
    assert sources.trouble() == {"resourcequotas": "forbidden: no right"}


def test_what_cannot_be_reached_at_a_start_is_waited_for() -> None:
    sources = listed()
    sources.reported(SourceState("resourcequotas", NOW, "unreachable: 503"), NOW)
    assert sources.sync(NOW).missing == ("resourcequotas",)


def test_pods_that_nobody_may_read_are_waited_for() -> None:
    sources = Sources(("pods",))
    sources.reported(SourceState("pods", NOW, "forbidden: no right", denied=True), NOW)
    assert sources.sync(NOW).missing == ("pods",)


def test_while_they_are_silent_what_they_told_last_stands() -> None:
    sources = listed()
    sources.listed("resourcequotas", NOW)
    late = NOW + 2 * SILENT_AFTER_SECONDS
    assert set(sources.sync(late).stale) == SOURCES.keys() - ADVISORY


def test_who_only_observes_waits_neither_for_crds_that_are_not_there_nor_for_the_right_to_read_them() -> None:
    sources = Sources(tuple(OF_PEOPLE), others=OF_PEOPLE)
    sources.reported(SourceState("overrides", NOW, absent=True), NOW)
    sources.reported(SourceState("writestops", NOW, "forbidden: no right", denied=True), NOW)
    assert (sources.sync(NOW).missing, sources.sync(NOW).stale) == ((), ())
    writes = Sources(tuple(OF_PEOPLE))
    writes.reported(SourceState("overrides", NOW, absent=True), NOW)
    writes.reported(SourceState("writestops", NOW, "forbidden: no right", denied=True), NOW)
    assert set(writes.sync(NOW).missing) == OF_PEOPLE, "a write stop that nobody sees stops nobody"

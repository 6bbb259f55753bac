"""Random streams of notices through the pure core: nothing raises, and no write of ours breaks a floor."""

import pytest

from rebalancer.ingest.wrappings import MAX_LAYERS
from tests.ingest.notice_streams import FIRST_SEED, STREAMS, page, run, run_beside

STREAMS_EVERYDAY = 60


def test_no_stream_of_notices_raises_or_breaks_a_floor() -> None:
    met = run(range(STREAMS_EVERYDAY))
    assert met["notices"] > STREAMS_EVERYDAY  # streams that say nothing would show nothing
    assert met["turns with a node under notice"] > STREAMS_EVERYDAY
    assert met["writes judged"]
    assert MAX_LAYERS < 40  # the deepest torn record is refused, not followed


def test_a_run_that_ends_early_says_so_on_its_page() -> None:
    met, seconds = run_beside(3, 1, lambda: False)
    assert met["streams"] == 3
    assert "It was ended" not in page(met, 3, seconds, "it")
    met, seconds = run_beside(3, 1, lambda: True)
    assert "0 streams" in page(met, 3, seconds, "it")
    assert "It was ended before the 3 that were asked for" in page(met, 3, seconds, "it")


@pytest.mark.proof  # some 10 ms a stream: a third of an hour of one core
@pytest.mark.timeout(0)
@pytest.mark.parametrize("part", range(100))
def test_no_stream_of_a_hundred_thousand_raises_or_breaks_a_floor(part: int) -> None:
    size = STREAMS // 100
    assert run(range(FIRST_SEED + part * size, FIRST_SEED + (part + 1) * size))["notices"] > size

"""What colour marks on a terminal. Pure."""

import pytest

from rebalancer.api.text.words import span
from rebalancer.cli.terminal.paint import RED, RULES
from rebalancer.domain.instant import when
from tests.cli.scene import NOW


@pytest.mark.parametrize("seconds", [48, 93, 10_020, 97_200, 400_000])
def test_a_picture_that_is_not_live_is_red_however_old(seconds: float) -> None:
    pattern, colour = RULES[0]
    assert colour == RED
    assert pattern.fullmatch(f"NOT LIVE: {span(seconds)} old")
    assert pattern.fullmatch(f"NOT LIVE since {when(NOW - seconds, NOW)}")

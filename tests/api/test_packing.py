"""Who gets answers packed: who says that they unpack gzip."""

import pytest
from aiohttp.test_utils import make_mocked_request

from rebalancer.api.http.packing import takes_gzip


@pytest.mark.parametrize(
    ("accepted", "packed"),
    [
        ("gzip, deflate, br", True),
        ("deflate, GZIP", True),
        ("br;q=1.0, gzip;q=0.8", True),
        ("gzip ; q=0.001", True),
        ("gzip;q=0", False),
        ("deflate, gzip; q=0.000", False),
        ("identity", False),
        ("notgzip", False),
        ("", False),
    ],
)
def test_gzip_is_sent_to_who_names_it_and_not_with_a_weight_of_zero(accepted: str, packed: bool) -> None:  # noqa: FBT001 - a row of the table
    assert takes_gzip(make_mocked_request("GET", "/", {"Accept-Encoding": accepted})) is packed

"""What is looked for in a record before it is read."""

import pytest

from rebalancer.ingest.rejected import RejectedError, refuse_duplicate_keys

KEYS = 300_000  # compared each with each, 45 billion comparisons: the test would not end


def test_a_key_that_is_there_twice_is_found_in_one_pass_however_many_keys_there_are() -> None:
    keys = ",".join(f'"{number}":0' for number in range(KEYS))
    with pytest.raises(RejectedError, match=f"key '{KEYS - 1}' is there twice"):
        refuse_duplicate_keys(f'{{{keys},"{KEYS - 1}":0}}'.encode())


def test_the_same_key_in_two_objects_is_no_double() -> None:
    refuse_duplicate_keys(b'[{"a": {"a": 1}}, {"a": 1}]')

"""What is looked for in a record before it is read."""

import tracemalloc

import pytest

from rebalancer.ingest.rejected import MAX_VALUE_BYTES, RejectedError, not_finite_at, refuse_duplicate_keys

KEYS = 300_000  # compared each with each, 45 billion comparisons: the test would not end


def test_a_key_that_is_there_twice_is_found_in_one_pass_however_many_keys_there_are() -> None:
    keys = ",".join(f'"{number}":0' for number in range(KEYS))
    with pytest.raises(RejectedError, match=f"key '{KEYS - 1}' is there twice"):
        refuse_duplicate_keys(f'{{{keys},"{KEYS - 1}":0}}'.encode())


def test_the_same_key_in_two_objects_is_no_double() -> None:
    refuse_duplicate_keys(b'[{"a": {"a": 1}}, {"a": 1}]')


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ('{"a": {"b": [1, NaN]}}', ".a.b[1]"),
        ("-Infinity", ""),
        ('{"a": [1.5, 2]}', None),
        ("{", None),
    ],
)
def test_the_place_of_what_is_not_finite_is_spelled(text: str, path: str | None) -> None:
    assert not_finite_at(text) == path


def test_to_say_where_a_record_has_a_nan_takes_little_more_than_the_record_however_long_its_keys_are() -> None:
    key = "a" * (MAX_VALUE_BYTES // 2)
    text = f'{{"{key}": [NaN, {"0, " * (MAX_VALUE_BYTES // 6)}0]}}'
    tracemalloc.start()
    try:
        assert not_finite_at(text) == f".{key}[0]"
        assert tracemalloc.get_traced_memory()[1] < 100 * MAX_VALUE_BYTES
    finally:
        tracemalloc.stop()

"""Gauges that cannot be (an exporter's blank, a ratio above one, a negative or infinite amount) or nobody knows. Pure.

Such a gauge is absent, and what else its producer told counts. DCGM writes 9223372036854775794 or 2147483632 for what
it does not know, a rate over nothing is NaN. Nothing is clamped: a ratio of 1.02 is a fault of unknown size and no full
use, and no exporter that we know of documents such a rounding. (What a mean of ones has in its last digits is one.)
"""

import json
from collections.abc import Mapping
from math import isfinite
from typing import Any

import msgspec

from rebalancer.domain.events import Gauges

IMPOSSIBLE = "impossible."  # and the name of a gauge: a word that is counted
GAUGES: tuple[str, ...] = Gauges.__struct_encode_fields__


def impossible(gauges: Mapping[str, Any]) -> dict[str, float]:
    """Gauges of a sample, by their names on the wire, that are numbers and cannot be.

    What is no number, or no gauge, is another fault.
    """
    return {
        name: value
        for name, value in gauges.items()
        if name in GAUGES and type(value) in {int, float} and not _may_be(name, value)
    }


def without_faulty(value: bytes) -> tuple[bytes, dict[str, float], tuple[str, ...]]:
    """A sample's record without gauges that cannot be or that nobody knows, in either mode of CloudEvents.

    What was left out comes with it: the impossible ones with their values, the names of the unknown; mostly nothing.
    """
    try:
        whole = json.loads(value.decode(), parse_int=float)
    except (ValueError, RecursionError):
        return value, {}, ()
    data = whole.get("data", whole) if isinstance(whole, dict) else None
    if not isinstance(data, dict) or not isinstance(gauges := data.get("gauges"), dict):
        return value, {}, ()
    cannot_be = impossible(gauges)
    unknown = tuple(name for name in gauges if name not in GAUGES)
    if not cannot_be and not unknown:
        return value, {}, ()
    data["gauges"] = {name: gauges[name] for name in gauges if name in GAUGES and name not in cannot_be}
    return json.dumps(whole).encode(), cannot_be, unknown


def _may_be(name: str, value: float) -> bool:
    try:
        msgspec.convert({name: value}, Gauges)
    except msgspec.ValidationError:
        return False
    return isfinite(value)

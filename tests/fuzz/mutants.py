"""Bytes that nobody would send on purpose: real records with a field spoiled, a piece missing, a bit turned."""

import json
import random
from collections.abc import Iterator
from copy import deepcopy
from typing import Any, Final

HOSTILE: Final[tuple[Any, ...]] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63), 10**400, 0.5, -0.0, 1e308, float("nan"), float("inf"),
    "", " ", "0", "-1", "1e999", "nan", "8Gi", "1n", "9" * 5000, "\x00", "\ud800", "a" * 70_000, "<script>", "../..",
    "2027-13-45T99:99:99Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999Z", "2027-01-15T08:00:00+99:00",
    [], {}, [None], [[]], {"": ""}, [{}], {"a": {"b": {"c": None}}},
)  # fmt: skip
"""Stands in place of any value of a record."""

MANY: Final = 500
"""A record of so many values is not made fifty times larger: five such changes would fill the memory."""


def spoiled(seed: bytes, rng: random.Random) -> bytes:
    """One record made from a real one, mostly still JSON."""
    if rng.random() < 0.25:
        return _bent(seed, rng)
    try:
        tree = json.loads(seed)
        for _ in range(rng.choice((1, 1, 1, 2, 5))):
            tree = _changed(tree, rng)
        text = json.dumps(tree, ensure_ascii=rng.random() < 0.5)
    except (ValueError, RecursionError):  # no JSON, or of a thousand levels
        return _bent(seed, rng)
    if rng.random() < 0.05:
        text = text.replace("{", '{"twice": 1, "twice": 2, ', 1)
    if rng.random() < 0.02:
        text = '{"a":' * 3000 + text + "}" * 3000
    return text.encode(errors="surrogatepass")


def _changed(tree: Any, rng: random.Random) -> Any:  # noqa: ANN401  # any JSON
    """A tree with one place, chosen at any depth, put otherwise."""
    places = list(_places(tree))
    if not places:
        return deepcopy(rng.choice(HOSTILE))
    holder, key = rng.choice(places)
    deed = rng.randrange(5)
    if deed == 0:
        del holder[key]
    elif deed == 1:
        holder[key] = [deepcopy(holder[key]) for _ in range(rng.choice((1, 2, 50) if len(places) < MANY else (1,)))]
    elif deed == 2 and isinstance(holder, dict):  # one of five deeds
        holder[rng.choice(("", key + " ", key.upper(), "unknown"))] = holder.pop(key)
    elif deed == 3:  # same
        other, theirs = rng.choice(places)
        if theirs in other if isinstance(other, dict) else theirs < len(other):
            holder[key] = deepcopy(other[theirs])
    else:
        holder[key] = deepcopy(rng.choice(HOSTILE))
    return tree


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:  # noqa: ANN401  # any JSON
    held: list[Any] = [tree]
    while held:
        one = held.pop()
        keys = list(one) if isinstance(one, dict) else range(len(one)) if isinstance(one, list) else ()
        for key in keys:
            yield one, key
            held.append(one[key])


def _bent(seed: bytes, rng: random.Random) -> bytes:
    if not seed:
        return bytes(rng.randrange(256) for _ in range(rng.randrange(20)))
    data = bytearray(seed)
    at = rng.randrange(len(data))
    deed = rng.randrange(4)
    if deed == 0:
        del data[at:]
    elif deed == 1:
        del data[at : at + rng.randrange(1, 20)]
    elif deed == 2:  # one of four deeds
        data[at:at] = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 8)))
    else:
        data[at] ^= 1 << rng.randrange(8)
    return bytes(data)

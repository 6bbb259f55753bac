"""By what a model is known in pictures: two letters and a colour, the same on every page and after a restart."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from zlib import crc32

from msgspec import Struct

from rebalancer.domain.policy import Policy

HUES = 8  # as many as people tell apart; the letters tell the rest

_WORDS = re.compile(r"[^\W_]+")


class Badge(Struct, frozen=True):
    """`letters`: two of the model's name, unlike any other's while there are enough; `hue`: a colour's number, 0-7."""

    letters: str
    hue: int


def badges_of(policy: Policy, others: Iterable[str] = ()) -> dict[str, Badge]:
    """The badge of each model of the policy, and of `others` that left it."""
    return badges(tuple(sorted({*(model.id for model in policy.models), *others})))


@lru_cache(maxsize=8)
def badges(names: tuple[str, ...]) -> dict[str, Badge]:
    """The badge of each name. A name keeps its own colour unless one before it in `names` has it."""
    letters: set[str] = set()
    hues: Counter[int] = Counter()
    given: dict[str, Badge] = {}
    for name in names:
        choices = list(_letters(name))
        spelled = next((each for each in choices if each not in letters), choices[0])
        own = crc32(name.encode())
        hue = min(range(HUES), key=lambda each: (hues[each], (each - own) % HUES))  # used at once
        letters.add(spelled)
        hues[hue] += 1
        given[name] = Badge(spelled, hue)
    return given


def _letters(name: str) -> Iterator[str]:
    """`L7`, `Ll`, `La`, ... of llama-70b: the initials of its words, then its first letter with each later one."""
    words = _WORDS.findall(name) or ["?"]
    spelled = "".join(words)
    first, rest = spelled[0], spelled[1:]
    if len(words) > 1:
        yield first.upper() + words[1][0]
    yield from (first.upper() + each for each in rest)
    yield from (first.upper() + each for each in "0123456789")

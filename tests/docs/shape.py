"""Whether what a command printed has the shape that a page shows: numbers may differ, `...` stands for anything."""

import re
from collections.abc import Sequence

ANYTHING = "..."


def missing(shown: Sequence[str], printed: str) -> list[str]:
    """Shown lines that no printed line matches, in their order; a line `...` alone stands for any lines."""
    left = printed.splitlines()
    absent = []
    for line in shown:
        if line.strip() in {"", ANYTHING}:
            continue
        at = next((index for index, said in enumerate(left) if _pattern(line).fullmatch(_plain(said))), None)
        if at is None:
            absent.append(line)
        else:
            left = left[at + 1 :]
    return absent


def _pattern(line: str) -> re.Pattern[str]:
    parts = [re.escape(_plain(part)) for part in line.split(ANYTHING)]
    return re.compile(re.sub(r"(\\ )+", " *", ".*".join(parts)))


def _plain(line: str) -> str:
    """One kind of number and of space."""
    return re.sub(r"\s+", " ", re.sub(r"\d+", "0", line)).strip()

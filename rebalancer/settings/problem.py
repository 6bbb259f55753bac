"""One thing that is wrong in a file that a person wrote, with all that is needed to put it right."""

import json

from msgspec import Struct

SHOWN_CHARACTERS = 60


class Problem(Struct, frozen=True, order=True):
    """One thing that is wrong.

    line: line of the file, from 1; 0: the file as a whole.
    path: path of the value in the policy, as people read it; "" where it is about no value.
    value: the value as given, "" where nothing was.
    what: what is wrong with it.
    allowed: what would be right, in words, as "0 to 100000"; "" where that cannot be said.
    fix: what to do about it, "" where that is plain.
    file: name of the file, "" before it is known.
    at: the path as keys and places in lists.
    """

    line: int
    path: str
    value: str
    what: str
    allowed: str = ""
    fix: str = ""
    file: str = ""
    at: tuple[str | int, ...] = ()

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        where = " ".join(part for part in (place, self.path) if part)
        given = f"is {self.value}" if self.value else ""
        numbers = ", ".join(part for part in (given, self.allowed and f"allowed {self.allowed}") if part)
        return "; ".join(part for part in (f"{self.what} at {where}", numbers, self.fix) if part)


def show(value: object) -> str:
    """A given value in one short line: JSON for scalars, a word for the rest."""
    if isinstance(value, dict):
        return "a mapping" if value else "{}"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    spelled = json.dumps(value, ensure_ascii=True, default=str)
    return spelled if len(spelled) <= SHOWN_CHARACTERS else f"{spelled[: SHOWN_CHARACTERS - 3]}..."

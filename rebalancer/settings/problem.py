"""One thing that is wrong in a file that a person wrote, with all that is needed to put it right."""

import json

from msgspec import Struct

SHOWN_CHARACTERS = 60


class Problem(Struct, frozen=True, order=True):
    """`what` is wrong with `value` at `line` (from 1; 0 = the file as a whole) of `file`, at `path` in the policy.

    `value` as given ("" when nothing was), `allowed` in words ("0 to 100000"), `fix` what to do; each may be "".
    `at`: the path as keys and places in lists.
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

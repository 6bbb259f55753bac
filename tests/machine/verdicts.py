"""What the oracle notes: verdicts, debts that are not paid yet, and what the API server showed of each pod."""

from msgspec import Struct


class Verdict(Struct, frozen=True):
    """A rule that was broken, when, and how."""

    rule: str
    at: float
    text: str

    def __str__(self) -> str:
        return f"({self.rule}) {self.text}"


class Broken(Exception):
    """Carries the verdict out of whatever was going on; no Exception of a cycle may swallow it."""


class Debt(Struct):
    """GPUs that were taken from somebody who needed them, until somebody else serves with them.

    `each`: of one replica. Less than that may be left over: fewer replicas would not have freed what somebody uses.
    `paid`: GPUs with which somebody serves.
    """

    model: str
    pool: str
    gpus: int
    each: int
    at: float
    due: float
    text: str
    touched: bool = False
    paid: int = 0


class Seen(Struct):
    """What the API server showed of one pod: whether it serves, and whether it certainly goes (None: perhaps).

    `counted`: on GPUs that are any, or on none yet; `active`: nobody has deleted it; `overdue`: its node goes before
    any replacement could end its grace and load, so that nobody may count on it; `loads`: it is not Ready yet, on a
    node that is.
    """

    serves: bool
    goes: bool | None
    counted: bool
    placed: bool
    active: bool
    gpus: int
    model: str
    overdue: bool = False
    loads: bool = False

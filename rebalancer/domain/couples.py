"""Couples: two models that are roles of one, as prefill and decode, and the ratio that their replicas must keep.

Planning and the gate judge a write by the same sum: the ratio stays within its bounds. Where a lost node or somebody
else's write has taken it out of them, a write may not take it further.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

from rebalancer.domain.policy import Policy

ROUNDING = 1e-9  # replicas: bounds such as 0.1 are no exact numbers
ANY = 1_000_000  # replicas beside which a role need not be there at all


class Role(NamedTuple):
    """The replicas that a role would have by itself (`aim`), and the least and the most that it can have."""

    aim: int
    least: int
    most: int


class Couple(NamedTuple):
    """Two models that are the roles of one.

    of: id of the model whose replicas are bounded.
    to: id of the other model, whose replicas bound them.
    least: the fewest replicas of `of` for each replica of `to`.
    most: the most replicas of `of` for each replica of `to`.
    """

    of: str
    to: str
    least: float
    most: float

    def other(self, name: str) -> str:
        """The id of the model that `name` is coupled with."""
        return self.to if name == self.of else self.of

    def excess(self, name: str, own: int, others: int) -> float:
        """Replicas of `of` by which the ratio is out of bounds when `name` has `own` and the other model `others`."""
        of, to = (own, others) if name == self.of else (others, own)
        beyond = max(self.least * to - of, of - self.most * to)
        return beyond if beyond > ROUNDING else 0.0

    def bears(self, name: str, before: int, after: int, others: Iterable[int]) -> bool:
        """Whether `name` may go from `before` to `after` replicas, whichever of `others` the other one has then.

        Not out of bounds that held, nor further from bounds that did not.
        """
        return all(self.excess(name, after, one) <= self.excess(name, before, one) + ROUNDING for one in others)

    def span(self, name: str, others: int) -> tuple[int, int]:
        """The least and the most replicas of `name` beside `others` of the other one; there may be none between."""
        if name == self.of:
            return math.ceil(self.least * others - ROUNDING), math.floor(self.most * others + ROUNDING)
        most = math.floor(others / self.least + ROUNDING) if self.least else ANY
        return math.ceil(others / self.most - ROUNDING), most

    def most_of(self, name: str, own: int, others: int) -> int:
        """The most replicas of `name`, which may have `own` at most, where the other one may have `others` at most."""
        return min(own, self.span(name, others)[1])

    def pair(self, of: Role, to: Role, *, by_worth: bool) -> tuple[int, int]:
        """The replicas of both within the ratio, as far as they can be.

        `by_worth`: the richer role is to have less, else the poorer one more; the other way, too, where that alone does
        not do.
        """
        aims = of.aim, to.aim
        for lowers in (by_worth, not by_worth, by_worth):
            if self.excess(self.of, *aims) == 0.0:
                break
            aims = self._lowered(of, to, aims) if lowers else self._raised(of, to, aims)
        return aims

    def _lowered(self, of: Role, to: Role, aims: tuple[int, int]) -> tuple[int, int]:
        most_of, most_to = self.span(self.of, aims[1])[1], self.span(self.to, aims[0])[1]
        return min(aims[0], max(of.least, most_of)), min(aims[1], max(to.least, most_to))

    def _raised(self, of: Role, to: Role, aims: tuple[int, int]) -> tuple[int, int]:
        least_of, least_to = self.span(self.of, aims[1])[0], self.span(self.to, aims[0])[0]
        return max(aims[0], min(of.most, least_of)), max(aims[1], min(to.most, least_to))

    def words(self, name: str, others: int) -> str:
        """`its replicas are 0.5 to 2 times those of decode, which has 4`, or the same seen from the other one."""
        times = f"{self.least:g} to {self.most:g} times"
        if name == self.of:
            return f"its replicas are {times} those of {self.to}, which has {others}"
        return f"replicas of {self.of} are {times} its own, and there are {others}"


def couples(policy: Policy) -> dict[str, Couple]:
    """The couple of every model that is one of two, by its id."""
    by_model: dict[str, Couple] = {}
    for model in policy.models:
        if model.ratio is not None:
            couple = Couple(model.id, model.ratio.to, model.ratio.least, model.ratio.most)
            by_model |= {couple.of: couple, couple.to: couple}
    return by_model

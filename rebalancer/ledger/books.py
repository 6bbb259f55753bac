"""Adds up who held the GPUs: GPU-microseconds as whole numbers, so that sums are exact and nothing is left over.

What a look shows is taken to last until the next one. After more than `LONGEST_LOOKS` plan intervals (at least
`LEAST_SECONDS`) without a look nobody knows what was: that time is `unknown`, at the capacity seen last.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from rebalancer.domain.policy import Policy
from rebalancer.ledger.inventory import OWNED, Hold, Inventory, Shelf
from rebalancer.ledger.states import OWNED_BUSY, OWNED_IDLE, UNKNOWN

MICRO = 1_000_000
HOUR = 3600 * MICRO
ALL_TIME = 10**9 * HOUR  # as the width of a piece: one that never ends, for who keeps sums alone
LONGEST_LOOKS = 3  # plan intervals: a service that turns at all turns once in each, and one late turn is no gap
LEAST_SECONDS = 60.0  # readings are of a minute, and a start takes about one: what is older says nothing of now
GAPS_KEPT = 200
NO_PRICES: Mapping[Shelf, float] = MappingProxyType({})


class Charge(NamedTuple):
    """GPU-microseconds that one hold comes to within one piece of time.

    piece: which, as `Books` numbers them.
    shelf: where the GPUs are.
    model: id of the model, "" where none holds them.
    state: a word of `ledger.states.STATES`.
    amount: GPU-microseconds.
    """

    piece: int
    shelf: Shelf
    model: str
    state: str
    amount: int


class Gap(NamedTuple):
    """From `since` to `until` (epoch seconds) nothing is known, and why."""

    since: float
    until: float
    why: str


def micro(at: float) -> int:
    """Whole microseconds: a float of today's epoch seconds has steps of a quarter of one."""
    return round(at * MICRO)


def patience_seconds(policy: Policy) -> float:
    """How long a look holds good."""
    return max(LEAST_SECONDS, LONGEST_LOOKS * policy.plan_every_seconds)


class Books:
    """Accounts of consecutive looks. `see` each of them in the order in which they were taken.

    `width`: microseconds of a piece of time; pieces count from the epoch, and so are hours of UTC unless told
    otherwise. `capacity`: GPU-microseconds that there were by (piece, shelf), counted from the nodes; `charged`: the
    same by who held them, (piece, shelf, model, state); `usd`: what all of these came to at the prices that `see` was
    given, by (shelf, model, state); `lent`: by (piece, pool, owner), the owner's side of what is `borrowed`. `gaps`:
    the first `GAPS_KEPT` stretches of which nothing is known; `unknown_micro`: all of them
    together. `since` and `until`: first and last instant in the accounts, in microseconds; None before the first look.
    """

    def __init__(self, width: int = HOUR) -> None:
        self.width = width
        self.capacity: Counter[tuple[int, Shelf]] = Counter()
        self.charged: Counter[tuple[int, Shelf, str, str]] = Counter()
        self.usd: defaultdict[tuple[Shelf, str, str], float] = defaultdict(float)
        self.lent: Counter[tuple[int, str, str]] = Counter()
        self.gaps: list[Gap] = []
        self.unknown_micro = 0
        self.since: int | None = None
        self.until: int | None = None
        self._last: Inventory | None = None
        self._prices = NO_PRICES
        self._why = ""

    def see(self, now: Inventory, patience: float, prices: Mapping[Shelf, float] = NO_PRICES) -> None:
        """`now` was seen; what was seen before it lasted until then, if that is at most `patience` seconds ago.

        `prices`: USD of a GPU-hour from now until the next look, where they are known. A clock that was set back is
        waited for: no second counts twice.
        """
        before, at = self._last, micro(now.at)
        if self.until is None:
            self.since = self.until = at
        elif before is not None and at > self.until:
            self._book(before, self.until, at, patience)
            self.until = at
        self._last, self._prices, self._why = now, prices, ""

    def lost(self, why: str) -> None:
        """Between the last look and the next one something is missing, so that time is unknown however short it is."""
        self._why = why

    def residual(self) -> dict[tuple[int, Shelf], int]:
        """What was there less what was charged, where that is not 0. It never is."""
        left = Counter(self.capacity)
        for (piece, shelf, _, _), amount in self.charged.items():
            left[piece, shelf] -= amount
        return {key: amount for key, amount in left.items() if amount}

    def _book(self, seen: Inventory, since: int, until: int, patience: float) -> None:
        why = self._why or seen.unknown
        if not why and until - since > patience * MICRO:
            why = "no cycle was recorded"
        if why:
            self.unknown_micro += until - since
            if len(self.gaps) < GAPS_KEPT:
                self.gaps.append(Gap(since / MICRO, until / MICRO, why))
        for begin, end in pieces(since, until, self.width):
            piece, lasted = begin // self.width, end - begin
            for shelf, gpus in seen.capacity.items():
                self.capacity[piece, shelf] += gpus * lasted
            for charge in charges(seen, piece, lasted, known=not why):
                self.charged[piece, charge.shelf, charge.model, charge.state] += charge.amount
                if charge.shelf in self._prices:
                    usd = self._prices[charge.shelf] * charge.amount / HOUR
                    self.usd[charge.shelf, charge.model, charge.state] += usd
            if not why:
                for (pool, owner), gpus in seen.lent.items():
                    self.lent[piece, pool, owner] += gpus * lasted


def pieces(since: int, until: int, width: int) -> Iterator[tuple[int, int]]:
    """(since, until) cut at the multiples of `width`, all in microseconds."""
    while since < until:
        end = min(until, (since // width + 1) * width)
        yield since, end
        since = end


def charges(seen: Inventory, piece: int, lasted: int, *, known: bool = True) -> Iterator[Charge]:
    """What `seen` comes to in `lasted` microseconds; unless it is `known`, each shelf is unknown as a whole."""
    if not known:
        yield from (Charge(piece, shelf, "", UNKNOWN, gpus * lasted) for shelf, gpus in seen.capacity.items())
        return
    for hold, gpus in seen.held.items():
        if hold.state == OWNED:
            yield from _owned(hold, gpus * lasted, seen.busy.get(hold.model), piece)
        else:
            yield Charge(piece, hold.shelf, hold.model, hold.state, gpus * lasted)


def _owned(hold: Hold, amount: int, share: float | None, piece: int) -> Iterator[Charge]:
    """Busy as far as `share` says, the rest idle: a whole number and what it leaves, so that both add up."""
    if share is None:
        yield Charge(piece, hold.shelf, hold.model, UNKNOWN, amount)
        return
    busy = min(amount, round(share * amount))
    yield Charge(piece, hold.shelf, hold.model, OWNED_BUSY, busy)
    yield Charge(piece, hold.shelf, hold.model, OWNED_IDLE, amount - busy)

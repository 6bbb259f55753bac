"""Quantities as Kubernetes spells them: 8, "1500m", "1k", "1e3", "2Ki". Who writes 1000 may read it back as "1k"."""

import re
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache

Quantity = str | int | float
Quantities = dict[str, Quantity]

MAX_DIGITS = 9
MOST_THOUSANDTHS = 9 * 10**18  # what 64 bits hold; more than 9 petabytes are as many as anybody has
MOST = 2**63

_QUANTITY = re.compile(r"([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)([numkMGTPE]|[KMGTPE]i)?", re.ASCII)
_SCALES = {suffix: Decimal(1000) ** power for power, suffix in enumerate(("n", "u", "m", "", "k", *"MGTPE"), -3)}
_SCALES |= {suffix: Decimal(1024) ** power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)}


def devices(number: Quantity) -> int:
    """Whole devices in a Kubernetes quantity, rounded down. Raises ValueError."""
    if isinstance(number, str) and len(number) < MAX_DIGITS and number.isdecimal():
        return int(number)
    return _devices(str(number))


@lru_cache(maxsize=1024)
def _devices(text: str) -> int:
    number = _decimal(text)
    if 0 <= number < 10**MAX_DIGITS:
        return int(number)
    raise ValueError(f"{text[:40]!r} is no number of devices")


def beyond_devices(number: Quantity) -> bool:
    """Whether it is 10^9 or more, as bytes are: more than anybody has devices."""
    return _decimal(str(number)) >= Decimal(10) ** MAX_DIGITS


@lru_cache(maxsize=4096)
def thousandths(number: Quantity) -> int:
    """A Kubernetes quantity in thousandths of its unit, rounded up as the API server does. Raises ValueError."""
    amount = _decimal(str(number)) * 1000
    if amount >= 0:
        return min(MOST_THOUSANDTHS, int(amount.to_integral_value(ROUND_CEILING)))
    raise ValueError(f"{str(number)[:40]!r} is no quantity")


@lru_cache(maxsize=1024)
def amount(quantity: Quantity) -> int:
    """A Kubernetes quantity of anything, bytes say, rounded down. Raises ValueError."""
    number = _decimal(str(quantity))
    if 0 <= number < MOST:
        return int(number)
    raise ValueError(f"{str(quantity)[:40]!r} is no amount")


def _decimal(text: str) -> Decimal:
    """The number that a quantity spells, in its unit; -1 where it spells none."""
    quantity = _QUANTITY.fullmatch(text)
    try:
        return Decimal(quantity[1]) * _SCALES[quantity[2] or ""] if quantity else Decimal(-1)
    except ArithmeticError:
        return Decimal(-1)

"""Whole numbers in the strings of others: what Python reads of them is more, and less, than digits."""

from typing import Final

MOST_DIGITS: Final = 18
"""All numbers of so many fit 64 bits; of more than 4,300 Python raises ValueError."""


def whole_number(text: str | None) -> int | None:
    """The number that ASCII digits spell, None for anything else: `²` is a digit to `isdigit`, and none to `int`."""
    if text is None or len(text) > MOST_DIGITS or not (text.isascii() and text.isdigit()):
        return None
    return int(text)

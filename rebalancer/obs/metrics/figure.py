"""One number of one metric."""

from typing import NamedTuple


class Figure(NamedTuple):
    """`name` as in the catalogue; `labels` are the values of its labels, in their order there."""

    name: str
    value: float
    labels: tuple[str, ...] = ()

"""What a panel of the dashboard is."""

from typing import NamedTuple

NEVER = "nothing of that kind has happened"


class Query(NamedTuple):
    """`legend`: Grafana's template of a series' name; `empty`: why it may find nothing on a healthy service."""

    expr: str
    legend: str = ""
    empty: str = ""


class DashboardPanel(NamedTuple):
    """`kind`: stat or timeseries; `width` of 24 columns; `words` name values, as {0: "stopped"}."""

    title: str
    kind: str
    queries: tuple[Query, ...]
    description: str
    unit: str = "short"
    width: int = 8
    words: tuple[tuple[int, str, str], ...] = ()  # value, word, colour


class DashboardRow(NamedTuple):
    """One question of whoever looks, and the panels that answer it."""

    title: str
    panels: tuple[DashboardPanel, ...]

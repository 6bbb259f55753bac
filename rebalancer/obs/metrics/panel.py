"""What a panel of the dashboard is."""

from typing import NamedTuple

NEVER = "nothing of that kind has happened"


class Query(NamedTuple):
    """`legend`: Grafana's template of a series' name; `empty`: why it may find nothing on a healthy service."""

    expr: str
    legend: str = ""
    empty: str = ""


class DashboardPanel(NamedTuple):
    """A panel of the dashboard.

    title: words above the panel.
    kind: stat or timeseries.
    queries: what it shows.
    description: sentences that say how to read it.
    unit: unit of its values, by Grafana's name.
    width: columns that it takes, of 24.
    words: words that are shown in place of values, as (1, "stopped", "red"); empty where numbers are shown.
    """

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

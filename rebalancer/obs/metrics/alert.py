"""What an alert rule is."""

from typing import NamedTuple

CRITICAL, WARNING, INFO = "critical", "warning", "info"  # info wakes nobody: it is read in working hours


class Alert(NamedTuple):
    """`hold`: how long the symptom lasts before anybody is told (Prometheus' `for`)."""

    name: str
    severity: str
    expr: str
    hold: str
    summary: str
    description: str

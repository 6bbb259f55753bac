"""What an alert rule is."""

from typing import NamedTuple

CRITICAL, WARNING, INFO = "critical", "warning", "info"  # info wakes nobody: it is read in working hours


class Alert(NamedTuple):
    """A rule by which Prometheus calls somebody.

    name: name of the alert.
    severity: `critical`, `warning` or `info`.
    expr: PromQL that finds something while the symptom is there.
    hold: how long the symptom lasts before anybody is told, as `5m` (Prometheus' `for`).
    summary: sentence that says what is wrong.
    description: sentences with names and numbers, as a template of Prometheus.
    """

    name: str
    severity: str
    expr: str
    hold: str
    summary: str
    description: str

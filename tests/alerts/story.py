"""One story per test: fine for 30 samples, otherwise for 120, fine again for 60; told to promtool as a YAML file.

A sample is of 10 seconds unless the case says otherwise: fine for 5 minutes, 20 minutes otherwise, fine for 10.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

STEP_SECONDS = 10
FINE, OTHERWISE, AFTER = 30, 120, 60  # samples of each part
BEFORE_IT, IN_IT, AFTER_IT = FINE - 1, FINE + OTHERWISE - 1, FINE + OTHERWISE + AFTER - 1

Series = Mapping[str, str]  # a series -> its samples as promtool spells them


def told(otherwise: float | str, fine: float | str = 0, samples: int = OTHERWISE) -> str:
    """`fine`, then `otherwise` for so many samples, then `fine`. A text is spelled as it is: `_` no sample."""
    parts = ((fine, FINE), (otherwise, samples), (fine, OTHERWISE - samples + AFTER))
    return " ".join(_run(value, count) for value, count in parts if count)


def always(value: float) -> str:
    """The same all along."""
    return _run(value, FINE + OTHERWISE + AFTER)


def _run(value: float | str, count: int) -> str:
    if value == "_":
        return f"_x{count}"
    start = value if isinstance(value, str) else f"{value}+0"
    return f"{start}x{count - 1}"


class Fired(NamedTuple):
    """What whoever is on call reads."""

    labels: Mapping[str, str]
    description: str


class Case(NamedTuple):
    """`symptom` makes the alert fire as `fired` says; none of `near` does. `step_seconds`: between two samples."""

    alert: str
    symptom: Series
    fired: Fired
    near: tuple[Series, ...]
    step_seconds: int = STEP_SECONDS


def story_file(
    rules: str, alert: str, stories: Iterable[tuple[Series, list[dict[str, Any]]]], step_seconds: int
) -> dict[str, Any]:
    """Stories of one alert: the series, and what fires in the middle; before and after nothing does."""
    return {
        "rule_files": [rules],
        "evaluation_interval": f"{step_seconds}s",
        "tests": [
            {
                "interval": f"{step_seconds}s",
                "input_series": [{"series": name, "values": values} for name, values in series.items()],
                "alert_rule_test": [
                    {"eval_time": f"{at * step_seconds}s", "alertname": alert, "exp_alerts": alerts}
                    for at, alerts in ((BEFORE_IT, []), (IN_IT, fired), (AFTER_IT, []))
                ],
            }
            for series, fired in stories
        ],
    }

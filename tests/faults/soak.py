"""What a soak showed: figures of each fault played, the slopes of them, and the page."""

import statistics
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from tests.faults.evidence import Evidence
from tests.machine.page import commit_now

PAGE: Final = Path(__file__).parent / "results" / "soak.md"
FIGURES: Final = (
    "resident_mib", "standby_mib", "descriptors", "threads", "tasks", "cpu_percent", "calls_per_second"
)  # fmt: skip
FEWEST: Final = 8
"""Rounds that say something: two for each quarter."""
MORE: Final = {
    "resident_mib": 30.0, "standby_mib": 30.0, "descriptors": 10.0,
    "threads": 4.0, "tasks": 10.0, "calls_per_second": 5.0,
}  # fmt: skip
"""By how much the median of the last quarter may be above that of the second: the first one is warming up."""
STATE_SEGMENTS: Final = {"segment.bytes": str(1024 * 1024), "segment.ms": "15000"}
"""Of the topic `state`: with the 64 MiB of the service's own settings no soak of hours would see it compacted."""
MOST_STATE_KIB: Final = 1024
"""Of the topic `state`: its pasts and memory take some 40, and it grows by 170 a minute where nobody compacts it."""


class Round(NamedTuple):
    """One fault. Medians while it was played, `at` seconds after the begin: MiB, open descriptors, threads, tasks.

    standby_mib: of the replica that stands by, in the end. cpu_percent: of one core. calls_per_second: of both replicas
    to the API server, watches' beginnings included. topics: bytes on disk.
    """

    row: str
    at: float
    resident_mib: float
    standby_mib: float
    descriptors: float
    threads: float
    tasks: float
    cpu_percent: float
    calls_per_second: float
    topics: dict[str, int]


def round_of(row: str, at: float, evidence: Evidence, standby_mib: float, topics: dict[str, int]) -> Round:
    """The figures of a fault that is over."""
    vitals, span = evidence.vitals, evidence.span
    resident, descriptors, threads, tasks = (
        statistics.median(float(getattr(each, figure)) for each in vitals)
        for figure in ("resident_mib", "descriptors", "threads", "tasks")
    )
    calls = len(evidence.calls) / (span.until - span.since)
    cpu = (vitals[-1].cpu_seconds - vitals[0].cpu_seconds) / (vitals[-1].at - vitals[0].at)
    return Round(row, at, resident, standby_mib, descriptors, threads, tasks, 100.0 * cpu, calls, topics)


def quarter(rounds: list[Round], number: int, figure: str) -> float:
    """The median of a figure in a quarter of the rounds, the first one is 0."""
    size = max(1, len(rounds) // 4)
    return statistics.median(float(getattr(each, figure)) for each in rounds[number * size : (number + 1) * size])


def slope(instants: list[float], values: list[float]) -> float:
    """Least squares, per hour."""
    return 3600.0 * statistics.linear_regression(instants, values).slope if len(set(instants)) > 1 else 0.0


def steady(rounds: list[Round]) -> list[str]:
    """What grew."""
    if len(rounds) < FEWEST:
        return [f"{len(rounds)} rounds say nothing"]
    state_kib = max(each.topics.get("state", 0) for each in rounds) // 1024
    bloated = [f"state: {state_kib} KiB, {MOST_STATE_KIB} may be"] if state_kib > MOST_STATE_KIB else []
    return bloated + [
        f"{figure}: {quarter(rounds, 3, figure):.1f}, {quarter(rounds, 1, figure):.1f} two quarters before"
        for figure, more in MORE.items()
        if quarter(rounds, 3, figure) > quarter(rounds, 1, figure) + more
    ]


def page(rounds: list[Round], seconds: float) -> None:
    """Written after each round, so that a run that is cut off leaves what it saw."""
    later = rounds[len(rounds) // 4 :]
    instants = [each.at for each in later]
    when = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    lines = [
        "# Soak",
        "",
        "One process of the service on a real API server and broker, with a second one that stands by; one fault of",
        "[the catalogue](catalogue.md) after the other, drawn among those that do not end the process, each while GPUs",
        "change hands, and all invariants judged after each. Slopes are of all but the first quarter of the faults, in",
        "which it warms up.",
        "",
        f"`python -m tests.faults --soak {seconds:g}`, commit {commit_now()}, {when}.",
        "",
        f"{len(rounds)} faults in {rounds[-1].at:.0f} s: {', '.join(each.row for each in rounds)}.",
        "",
        "| figure | second quarter | last quarter | slope per hour |",
        "|---|---:|---:|---:|",
    ]
    for figure in FIGURES:
        early, late = (quarter(rounds, number, figure) for number in (1, 3))
        per_hour = slope(instants, [getattr(each, figure) for each in later])
        lines.append(f"| {figure.replace('_', ' ')} | {early:.1f} | {late:.1f} | {per_hour:+.1f} |")
    lines += ["", "| topic | KiB at the end | KiB more per hour |", "|---|---:|---:|"]
    for topic in sorted(rounds[-1].topics):
        sizes = [each.topics.get(topic, 0) / 1024 for each in later]
        lines.append(f"| {topic} | {sizes[-1]:.0f} | {slope(instants, sizes):+.0f} |")
    lines += ["", f"`state` may have {MOST_STATE_KIB} KiB: for the soak its segments are of {STATE_SEGMENTS}."]
    PAGE.write_text("\n".join(lines) + "\n")

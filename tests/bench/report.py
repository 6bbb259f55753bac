"""What a run found: a table for people, one JSON file for machines."""

import json
import os
import platform
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build" / "bench"


class Measure(NamedTuple):
    """One figure. `aim`: what it should be at least (`more` is better) or at most; None has no aim.

    `notes`: how it came about, and where an aim is missed what the time goes into.
    """

    key: str
    what: str
    value: float
    unit: str
    aim: float | None = None
    more: bool = False
    notes: Sequence[str] = ()

    @property
    def met(self) -> bool:
        """Without an aim nothing is missed."""
        if self.aim is None:
            return True
        return self.value >= self.aim if self.more else self.value <= self.aim


def table(measures: Sequence[Measure]) -> str:
    """Lines for a terminal; notes are below their figure."""
    width = max(len(each.what) for each in measures)
    lines = []
    for each in measures:
        aim = "" if each.aim is None else f"aim {'>=' if each.more else '<='} {_number(each.aim)}"
        verdict = "" if each.aim is None else "met" if each.met else "MISSED"
        lines.append(f"{each.what:<{width}}  {_number(each.value):>9} {each.unit:<4} {aim:<15} {verdict}".rstrip())
        lines += [f"    {note}" for note in each.notes]
    return "\n".join(lines)


def write(measures: Sequence[Measure], file: Path) -> None:
    """The JSON file, its folder made when missing."""
    file.parent.mkdir(parents=True, exist_ok=True)
    found = {
        "measures": {each.key: round(each.value, 3) for each in measures},
        "machine": machine(),
        "commit": commit(),
    }
    file.write_text(json.dumps(found, indent=2) + "\n")


def machine() -> str:
    """Processor, cores, what else ran meanwhile, Python."""
    load = os.getloadavg()[0]
    return f"{_processor()}, {os.cpu_count()} cores, load {load:.1f}, Python {platform.python_version()}"


def commit() -> str:
    """The commit that was measured, `-dirty` when files differ from it; empty outside of a checkout."""
    command = ["git", "describe", "--always", "--abbrev=12", "--dirty", "--exclude=*"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"

"""What Linux says of a process."""

import os
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def resident_mib(pid: int) -> float:
    """What it holds in memory right now; its peak would also count the bytes that lists came in."""
    return _mib(pid, "VmRSS")


def most_resident_mib(pid: int) -> float:
    """The most that it has held in memory since its start."""
    return _mib(pid, "VmHWM")


def _mib(pid: int, what: str) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(f"{what}:")).split()[1]) / 1024


def busy_seconds(pid: int) -> float:
    """What it has had of the processor since its start, all threads together."""
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / _TICKS

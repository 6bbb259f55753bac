"""Thirty days of 20 models, a cycle every ten seconds, in the ledger: its size, and what a report of it takes.

A day is made by `tests.report.month` (readings and pods, no decisions) and written as the service writes it; the other
29 are that day again at their own instants. `nice python -m tests.bench.ledger_month [DAYS]`.
"""

import asyncio
import gzip
import re
import resource
import sys
import tempfile
import time
from pathlib import Path

from rebalancer.ledger.looks import look
from rebalancer.obs.journal_files import JournalFiles
from rebalancer.obs.ledger_reading import ledger_files
from rebalancer.obs.ledger_recorder import LedgerRecorder
from rebalancer.report.gathering import gather
from rebalancer.report.report import report
from tests.report.month import BEGIN, Month, a_month_policy

DAY, STEP = 86_400, 10.0
AT = re.compile(rb'^\{"at":([0-9.]+)')


async def write_day(folder: Path) -> None:
    policy = a_month_policy(STEP)
    month = Month(policy, STEP)
    ledger = LedgerRecorder(JournalFiles(folder, 1 << 30, name="ledger", packs=True), 300.0)
    ledger.start()
    for step in range(int(DAY / STEP)):
        ledger.see(look(month.snapshot(step), policy), policy)
    await ledger.close()


def write_again(day: Path, folder: Path, number: int) -> None:
    """The day, so many days later."""
    for hour, path in enumerate(ledger_files(day)):
        plain = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        moved = b"".join(
            AT.sub(lambda at: b'{"at":%.1f' % (float(at[1]) + number * DAY), line)
            for line in plain.splitlines(keepends=True)
        )
        (folder / f"ledger-{number * 24 + hour + 1:06}.jsonl.gz").write_bytes(gzip.compress(moved, mtime=0))


def main() -> None:
    days = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    with tempfile.TemporaryDirectory() as place:
        day, folder = Path(place) / "day", Path(place) / "month"
        folder.mkdir()
        began = time.process_time()
        asyncio.run(write_day(day))
        cycles = DAY / STEP
        print(f"written: {1000 * (time.process_time() - began) / cycles:.2f} ms a cycle, its making included")
        for number in range(days):
            write_again(day, folder, number)
        size = sum(path.stat().st_size for path in ledger_files(folder))
        print(f"{days} days: {size / 1e6:.1f} MB, {size / days / 1e6:.2f} MB a day")
        began, clock = time.process_time(), time.monotonic()
        made = report(gather(folder, 40.0 * DAY), {})
        print(
            f"report: {time.process_time() - began:.0f} s of processor, {time.monotonic() - clock:.0f} s by the clock,"
            f" {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB"
        )
        hours = made.bill.capacity_gpu_hours
        print(f"{made.cycles:,} cycles, {hours:,.3f} GPU-hours, residual {made.bill.residual_gpu_microseconds}")
        assert made.since == BEGIN


if __name__ == "__main__":
    main()

"""Each UTC day that has ended is predicted once, by `rebalancer report` in a process of its own that gives way."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

import structlog

from rebalancer.app.predictions import StoredPredictions
from rebalancer.obs.clock import Clock
from rebalancer.obs.predictions import NAME

DAY_SECONDS = 86_400.0
LOOK_SECONDS = 60.0
SETTLED_SECONDS = 600.0  # after midnight: cycles and ledger are on disk
SKIPPED_SECONDS = 60.0  # of the day's begin: the last cycle is some seconds old, and no second is of the day before
LEAST_PRIORITY = 19

Play = Callable[[Path, float], Awaitable[str]]
"""Predicts the days that end in so many last seconds of that journal; why it could not, "" where it could."""

log = structlog.get_logger()


async def played_apart(journal_dir: Path, seconds: float) -> str:
    """A `Play` that takes minutes of a core: nobody waits for it, and at a stop it ends with this process."""
    words = ("--quiet", "--output", "json", "--last", f"{seconds / 60:.1f}m", "--journal", str(journal_dir))
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "rebalancer", "report", *words, "--predictions", str(journal_dir / NAME)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as error:  # no room for a process, or no memory: the service goes on without
        return f"its process could not be started: {error}"
    try:
        os.setpriority(os.PRIO_PROCESS, process.pid, LEAST_PRIORITY)
        _, stderr = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if not process.returncode:
        return ""
    return stderr.decode(errors="replace").strip() or f"it ended with {process.returncode}"


async def predict_days(
    stored: StoredPredictions, journal_dir: Path, clock: Clock, play: Play = played_apart
) -> NoReturn:
    """Look each minute whether yesterday is to be predicted; a day that fails is tried again by the next process."""
    tried = ""
    await stored.look()
    while True:
        now = clock.now()
        since_midnight = now % DAY_SECONDS
        day = f"{datetime.fromtimestamp(now - since_midnight - DAY_SECONDS, UTC):%Y-%m-%d}"
        is_known = any(each.day == day for each in stored.known)
        if day != tried and not is_known and since_midnight >= SETTLED_SECONDS:
            tried = day
            why = await play(journal_dir, DAY_SECONDS + since_midnight - SKIPPED_SECONDS)
            if why:
                log.warning("yesterday was not predicted", day=day, why=why)
            await stored.look()
        await clock.sleep(LOOK_SECONDS)

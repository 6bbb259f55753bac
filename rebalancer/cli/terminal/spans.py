"""Durations and instants as people type them."""

import math
import re
from datetime import UTC, datetime, timedelta

from rebalancer.api.text.words import span
from rebalancer.cli.failure import USAGE, Failed

SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_SPAN = re.compile(r"(?:\d+[smhd])+")
_CLOCK = re.compile(r"\d{1,2}:\d{2}(:\d{2})?")


def seconds_of(text: str, option: str, most: float = math.inf) -> float:
    """Seconds of `30m`, `1h30m`, `90s`, at most `most`. Raises Failed naming `option`."""
    if not _SPAN.fullmatch(text):
        raise Failed(f"{option} {text}: say a duration as 30m, 1h30m, 90s or 2d", USAGE)
    seconds = sum(int(number) * SECONDS[unit] for number, unit in re.findall(r"(\d+)([smhd])", text))
    if seconds == 0:
        raise Failed(f"{option} {text}: say more than 0 s", USAGE)
    if seconds > most:
        raise Failed(f"{option} {text} is too long: allowed up to {span(most)}", USAGE)
    return float(seconds)


def spelled(at: float) -> str:
    """`2027-01-15 03:06:20`, in UTC."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")


def instant_of(text: str, option: str, now: float) -> float:
    """The instant of RFC 3339, or of a UTC time of day: the last one that is past. Raises Failed naming `option`."""
    today = datetime.fromtimestamp(now, UTC)
    try:
        if _CLOCK.fullmatch(text):
            parts = [int(part) for part in text.split(":")]
            at = today.replace(hour=parts[0], minute=parts[1], second=([*parts, 0])[2], microsecond=0)
            return (at if at <= today else at - timedelta(days=1)).timestamp()
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise Failed(f"{option} {text}: say a UTC time of day (03:06:20) or RFC 3339", USAGE) from error
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()

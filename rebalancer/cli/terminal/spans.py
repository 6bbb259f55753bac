"""Durations and instants as people type them."""

import math
import re
from datetime import UTC, datetime, timedelta

from rebalancer.api.text.words import span
from rebalancer.cli.failure import USAGE, Failed

_END_OF_SECOND = 0.999
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_SPAN = re.compile(r"(?:\d+[smhd])+")
_NONE = re.compile(r"(?<=[dhm])0[hms]$")
_AGO = re.compile(r"-?((?:\d+[smhd])+)( ago)?")
_CLOCK = re.compile(r"\d{1,2}:\d{2}(:\d{2})?")


def seconds_of(text: str, option: str, most: float = math.inf) -> float:
    """Seconds of `30m`, `1h30m`, `90s`, at most `most`. Raises Failed naming `option`."""
    if not _SPAN.fullmatch(text):
        raise Failed(f"{option} {text}: say a duration as 30m, 1h30m, 90s or 2d", USAGE)
    seconds = sum(int(number) * SECONDS[unit] for number, unit in re.findall(r"(\d+)([smhd])", text))
    if seconds == 0:
        raise Failed(f"{option} {text}: say more than 0 s", USAGE)
    if seconds > most:
        raise Failed(f"{option} {text} is too long: allowed up to {as_typed(most)}", USAGE)
    return float(seconds)


def as_typed(seconds: float) -> str:
    """`7d`, `10m`, `1h30m`: as a person would type it, without a unit of which there is none."""
    return _NONE.sub("", span(seconds))


def spelled(at: float) -> str:
    """`2027-01-15 03:06:20`, in UTC."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")


def instant_of(text: str, option: str, now: float) -> float:
    """The instant of RFC 3339, of a UTC time of day (the last one that is past), or of `1m30s ago`; ` UTC` may follow.

    A whole second is meant to its end, as far as that is past: people type what a line prints, which has no fractions.
    Raises Failed naming `option`.
    """
    ago = _AGO.fullmatch(text)
    at = now - seconds_of(ago[1], option) if ago else _written(text.removesuffix(" UTC"), option, now)
    if at < 0:
        raise Failed(f"{option} {text}: that is before 1970, and nothing is known of then", USAGE)
    if ago:
        return at
    return max(at, min(at + _END_OF_SECOND, now)) if at.is_integer() else at


def _written(text: str, option: str, now: float) -> float:
    today = datetime.fromtimestamp(now, UTC)
    try:
        if _CLOCK.fullmatch(text):
            parts = [int(part) for part in text.split(":")]
            at = today.replace(hour=parts[0], minute=parts[1], second=([*parts, 0])[2], microsecond=0)
            return (at if at <= today else at - timedelta(days=1)).timestamp()
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise Failed(
            f"{option} {text}: say a UTC time of day (03:06:20), RFC 3339, or how long ago (90s)", USAGE
        ) from error
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()

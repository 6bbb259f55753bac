"""Sends one write once, and finds out whether it happened even when the reply is lost or makes no sense."""

import structlog

from rebalancer.act.driver import Ask, C_contra, Driver, Refused
from rebalancer.domain.outcome import UNKNOWN, WRITTEN
from rebalancer.kube.errors import Ambiguous, KubeError
from rebalancer.kube.resources import Object

log = structlog.get_logger()


async def write_once(driver: Driver[C_contra], change: C_contra, seen: Object) -> tuple[str, str, Ask | None]:
    """The status (written or unknown), what is to be told about it, and what is asked for as stored, where known.

    Raises Refused and the KubeErrors that say that nothing was written.
    """
    try:
        stored = await driver.write(change, seen)
    except Ambiguous as error:
        return *await _read_back(driver, change, error), None
    except (Refused, KubeError):
        raise
    except Exception as error:
        log.exception("the reply to a write could not be understood", change=str(change))
        return *await _read_back(driver, change, error), None
    return WRITTEN, "", stored


async def _read_back(driver: Driver[C_contra], change: C_contra, error: Exception) -> tuple[str, str]:
    """Ask the object itself. Never write again: the first write may still be under way."""
    try:
        if await driver.shows(change):
            return WRITTEN, "the reply was lost; the object shows our value"
    except KubeError as unreadable:
        return UNKNOWN, f"{error}; and then {unreadable}"
    return UNKNOWN, f"{error}; the object does not show it yet"

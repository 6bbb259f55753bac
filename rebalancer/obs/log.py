"""Logging: one line per event, JSON for machines or text for a terminal; fields capped, no control characters."""

import logging
import sys

import structlog
from structlog.typing import EventDict, WrappedLogger

FIELD_MOST = 256  # what comes from outside must not flood or forge a log line


def _capped(_logger: WrappedLogger, _name: str, event: EventDict) -> EventDict:
    for key, value in event.items():
        if isinstance(value, str) and key != "exception":
            clean = "".join(each if each.isprintable() else " " for each in value)
            event[key] = clean if len(clean) <= FIELD_MOST else clean[:FIELD_MOST] + "..."
    return event


def configure(level: str, log_format: str) -> None:
    """Set up structlog for the process; `level` as in settings, `log_format` json or text. To stderr."""
    last: structlog.typing.Processor = (
        structlog.processors.JSONRenderer() if log_format == "json" else structlog.dev.ConsoleRenderer(colors=False)
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _capped,
            last,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(level.upper())),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )

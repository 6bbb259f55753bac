"""Logging: one line per event, JSON for machines or text for a terminal; fields capped, no control characters.

Lines are rendered and written by a thread of their own: a pipe that nobody reads, or a traceback whose source has to
be read from disk, must not hold the event loop. What the queue cannot hold is dropped and counted.
"""

import logging
import queue
import sys
import threading
from typing import Any

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

FIELD_MOST = 256  # what comes from outside must not flood or forge a log line
EXCEPTION_MOST = 8_192  # a hundred lines of traceback; the rest is mostly an error's own text
QUEUE_MOST = 10_000


class LogThread:
    """Renders and writes event dicts in order. `dropped`: lines that found the queue full."""

    def __init__(self, log_format: str) -> None:
        self.dropped = 0
        self._queue: queue.Queue[EventDict] = queue.Queue(QUEUE_MOST)
        render: list[Processor] = (
            [structlog.processors.JSONRenderer()]
            if log_format == "json"
            else [_indented, structlog.dev.ConsoleRenderer(colors=False)]
        )
        self._processors: list[Processor] = [structlog.processors.format_exc_info, _capped, *render]
        threading.Thread(target=self._run, name="log", daemon=True).start()

    def put(self, **event: Any) -> None:  # noqa: ANN401  # structlog's event dict
        """Queue one event."""
        try:
            self._queue.put_nowait(event)
        except queue.Full:
            self.dropped += 1

    def flush(self) -> None:
        """Wait until everything queued is written, at most 2 s: nobody may be reading."""
        with self._queue.all_tasks_done:
            self._queue.all_tasks_done.wait_for(lambda: not self._queue.unfinished_tasks, timeout=2.0)

    def _run(self) -> None:
        while True:
            event = self._queue.get()
            try:
                line: Any = event
                for processor in self._processors:
                    line = processor(None, "", line)
                sys.stderr.write(f"{line}\n")
                sys.stderr.flush()
            except (OSError, ValueError):
                self.dropped += 1
            finally:
                self._queue.task_done()


class _Queued:
    """structlog's logger: every level goes to the thread."""

    def __init__(self, thread: LogThread) -> None:
        self._thread = thread

    def msg(self, **event: Any) -> None:  # noqa: ANN401  # structlog's event dict
        self._thread.put(**event)

    debug = info = warning = error = critical = exception = fatal = log = msg


def _with_exception(_logger: WrappedLogger, _name: str, event: EventDict) -> EventDict:
    """Take hold of the exception here, where it is current; its text is made in the thread."""
    if event.get("exc_info") is True:
        event["exc_info"] = sys.exc_info()
    return event


def _capped(_logger: WrappedLogger, _name: str, event: EventDict) -> EventDict:
    for key, value in event.items():
        if isinstance(value, str):
            event[key] = _traceback(value) if key == "exception" else _field(value)
    return event


def _field(text: str) -> str:
    clean = _printable(text)
    return clean if len(clean) <= FIELD_MOST else clean[:FIELD_MOST] + "..."


def _traceback(text: str) -> str:
    """Line by line; of a long one where it began, and what the error said last."""
    if len(text) > EXCEPTION_MOST:
        half = EXCEPTION_MOST // 2
        text = f"{text[:half]}\n...\n{text[-half:]}"
    return "\n".join(map(_printable, text.split("\n")))


def _printable(text: str) -> str:
    return "".join(each if each.isprintable() else " " for each in text)


def _indented(_logger: WrappedLogger, _name: str, event: EventDict) -> EventDict:
    """A traceback has lines, and an error's text may have some that look like the log's: none begins where those do."""
    if isinstance(text := event.get("exception"), str):
        event["exception"] = "\n".join(f"  {line}" for line in text.split("\n"))
    return event


def configure(level: str, log_format: str) -> LogThread:
    """Set up structlog for the process; `level` as in settings, `log_format` json or text. Writes to stderr."""
    thread = LogThread(log_format)
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _with_exception,
            lambda _logger, _name, event: ((), event),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(level.upper())),
        logger_factory=lambda *_: _Queued(thread),
        cache_logger_on_first_use=False,
    )
    return thread

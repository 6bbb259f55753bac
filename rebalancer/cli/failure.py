"""How a command ends when it did not do what was asked."""

from collections.abc import Iterator
from contextlib import contextmanager

DONE = 0
FAILED = 1
USAGE = 2
DIFFERS = 3  # only with --exit-code: there are differences, or unmet need
UNREACHABLE = 4
INTERRUPTED = 130

EXTRA = ("llvmlite", "matplotlib", "numba", "pyarrow", "scipy")
"""What `pip install 'rebalancer[sim]'` brings."""


class Failed(Exception):
    """Ends the command: `message` says what was wrong, where, and what to do; `code` is the exit code."""

    def __init__(self, message: str, code: int = FAILED) -> None:
        super().__init__(message)
        self.code = code


class NoAnswer(Failed):
    """The service could not be asked, or does not answer us: what can do without its answer goes on."""


class CannotSay(NoAnswer):
    """The service is there and cannot say now (HTTP 5xx): asked again, it may."""


@contextmanager
def extra_installed() -> Iterator[None]:
    """Around the imports of a command that wants the extra. Raises Failed where a library of it is missing."""
    try:
        yield
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in EXTRA:
            raise
        raise Failed(f"{missing.name} is not installed: pip install 'rebalancer[sim]'") from missing


def why_silent(error: BaseException) -> str:
    """Why a server gave no answer: the system's own word where there is one, without a client's wrapping."""
    inner: BaseException | None = error
    while inner is not None:
        if isinstance(inner, OSError) and inner.strerror:
            return f"no answer ({inner.strerror})"
        inner = inner.__cause__ or inner.__context__
    return str(error) or type(error).__name__

"""Which of the series in a Prometheus are this cluster's, where it has several clusters': labels with their values."""

import re
from typing import Final

_PAIR: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.ASCII)


def matchers_problem(labels: str) -> str | None:
    """Why `labels` are refused, None where they are `LABEL=VALUE`, separated by commas, or nothing."""
    wrong = [pair for pair in labels.split(",") if labels and not _PAIR.fullmatch(pair)]
    return f"{wrong[0]!r} is no LABEL=VALUE; several are separated by commas" if wrong else None

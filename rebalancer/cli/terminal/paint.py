"""Colour for a terminal, put on finished lines: text stays the same with and without."""

import re

from rebalancer.cli.terminal.talk import colours

RED, GREEN, YELLOW, CYAN, BOLD, PLAIN = "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[36m", "\x1b[1m", "\x1b[0m"


def _lines(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.MULTILINE)


RULES = (
    (_lines(r"NOT LIVE(?: since (?:[\d-]+ )?[\d:]+|: [\ddhms ]+ old)"), RED),
    (_lines(r"WRITES STOPPED|no leader: nothing changes|no leader known|^Writes stopped by"), RED),
    (_lines(r"\bshort (?:of )?\d+|^unmet\b|\bdoomed \d+|^FAIL\b|^NOTICE .*?(?=  OVERRIDES|$)"), RED),
    (_lines(r"LATE \d+ s|^Not read yet:|^Silent:|^Shadow: nothing is written\.|^warn\b|^refused\b"), YELLOW),
    (_lines(r"^(MODEL|NAME|POOL) .*$"), BOLD),
    (_lines(r"^\+(?= )"), GREEN),
    (_lines(r"^-(?= )"), RED),
    (_lines(r"^[~>=](?= )"), CYAN),
    (_lines(r"^!(?= )"), YELLOW),
)


def painted(text: str) -> str:
    """`text` with colour where the terminal shows it, else as it is."""
    if not colours():
        return text
    for pattern, colour in RULES:
        text = pattern.sub(rf"{colour}\g<0>{PLAIN}", text)
    return text

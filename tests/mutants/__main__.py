"""The table: which tests notice which broken guard."""

import sys

from tests.mutants.broken import NAMED
from tests.mutants.killed import verdict


def main() -> int:
    """Print a line per guard; 1 when one of them lives."""
    lives = False
    for guard in NAMED:
        found = verdict(guard)
        lives |= not found.killers
        sys.stdout.write(f"{found}\n")
    return int(lives)


if __name__ == "__main__":
    sys.exit(main())

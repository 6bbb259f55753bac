"""The table: guard, mutant, killed by."""

import sys

from tests.mutants.broken import MUTANTS
from tests.mutants.killed import verdict


def main() -> int:
    """Print a line per mutant; 1 when one of them lives."""
    lives = 0
    for mutant in MUTANTS:
        found = verdict(mutant)
        lives += not found.killers
        sys.stdout.write(f"{found}\n")
    sys.stdout.write(f"{len(MUTANTS)} mutants of {len({one.guard for one in MUTANTS})} guards, {lives} of them live\n")
    return int(lives > 0)


if __name__ == "__main__":
    sys.exit(main())

"""`python -m rebalancer.app.reference [--check]`: writes the pages under `docs/reference/` that come from code.

With `--check` nothing is written, and the exit code is 1 when a page is not what would be written.
"""

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from rebalancer.app.reference.api import api_page
from rebalancer.app.reference.policy import policy_page
from rebalancer.app.reference.reasons import reasons_page
from rebalancer.app.reference.settings import settings_page

PAGES: Mapping[str, Callable[[], str]] = {
    "api.md": api_page,
    "policy.md": policy_page,
    "reasons.md": reasons_page,
    "settings.md": settings_page,
}
NOTE = "<!-- Written by `python -m rebalancer.app.reference`; do not edit. -->\n"


def main(arguments: list[str]) -> int:
    """Write or check the pages; the exit code."""
    parser = argparse.ArgumentParser(description="Writes the reference pages that come from code.")
    parser.add_argument("--check", action="store_true", help="only say whether the pages are up to date")
    parser.add_argument("--folder", type=Path, default=Path("docs/reference"), help="default: docs/reference")
    chosen = parser.parse_args(arguments)
    texts = {chosen.folder / name: NOTE + page() for name, page in PAGES.items()}
    stale = [path for path, text in texts.items() if not path.exists() or path.read_text() != text]
    if chosen.check:
        for path in stale:
            sys.stderr.write(f"error: {path} is out of date; run: python -m rebalancer.app.reference\n")
        return 1 if stale else 0
    for path in stale:
        path.write_text(texts[path])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

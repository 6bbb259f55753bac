"""`python -m rebalancer.obs.metrics.generate [--check]`: writes the reference page, the alert rules and the dashboard.

With `--check` nothing is written, and the exit code is 1 when a file is not what would be written.
"""

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from rebalancer.obs.metrics.alerts import rules_text
from rebalancer.obs.metrics.dashboard import dashboard_text
from rebalancer.obs.metrics.reference import reference_text

FILES: Mapping[str, Callable[[], str]] = {
    "docs/reference/metrics.md": reference_text,
    "charts/rebalancer/files/alerts.yaml": rules_text,
    "charts/rebalancer/files/dashboard.json": dashboard_text,
}


def main(arguments: list[str]) -> int:
    """Write or check the files; the exit code."""
    parser = argparse.ArgumentParser(description="Writes what is made from the metrics' catalogue.")
    parser.add_argument("--check", action="store_true", help="only say whether the files are up to date")
    parser.add_argument("--folder", type=Path, default=Path(), help="the repository; default: where you are")
    chosen = parser.parse_args(arguments)
    stale = []
    for name, text in FILES.items():
        path = chosen.folder / name
        if path.exists() and path.read_text() == text():
            continue
        stale.append(name)
        if not chosen.check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text())
    if not (stale and chosen.check):
        return 0
    sys.stderr.write(f"error: out of date: {', '.join(stale)}; run: python -m rebalancer.obs.metrics.generate\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

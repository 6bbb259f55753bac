"""`python -m rebalancer.generate [--check]`: writes the files that come from code: schemas, reference pages, alerts.

With `--check` nothing is written, and the exit code is 1 when a file is not what would be written.
"""

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from rebalancer.api.serving.routes import openapi_text
from rebalancer.app.reference.api import api_page
from rebalancer.app.reference.asyncapi import asyncapi_text
from rebalancer.app.reference.effects import effects_page
from rebalancer.app.reference.notices import notices_page
from rebalancer.app.reference.owners import owners_page
from rebalancer.app.reference.policy import policy_page
from rebalancer.app.reference.readings import readings_page
from rebalancer.app.reference.reasons import reasons_page
from rebalancer.app.reference.settings import settings_page
from rebalancer.app.reference.traps import traps_page
from rebalancer.cli.reference import cli_page
from rebalancer.obs.metrics.alerts import rules_text
from rebalancer.obs.metrics.dashboard import dashboard_text
from rebalancer.obs.metrics.reference import metrics_page
from rebalancer.sandbox.api import definitions
from rebalancer.settings.schema import schema_text

COMMAND = "python -m rebalancer.generate"
CRD_NOTE = f"# Written by `{COMMAND}` from rebalancer/sandbox/crds; do not edit.\n"
NOTE = f"<!-- Written by `{COMMAND}`; do not edit. -->\n"
PAGES: Mapping[str, Callable[[], str]] = {
    "docs/metrics.md": readings_page,
    "docs/reference/api.md": api_page,
    "docs/reference/cli.md": cli_page,
    "docs/reference/effects.md": effects_page,
    "docs/reference/metrics.md": metrics_page,
    "docs/reference/owners.md": owners_page,
    "docs/reference/notices.md": notices_page,
    "docs/reference/policy.md": policy_page,
    "docs/reference/reasons.md": reasons_page,
    "docs/reference/settings.md": settings_page,
    "docs/reference/traps.md": traps_page,
}
FILES: Mapping[str, Callable[[], str]] = {
    "charts/rebalancer/files/alerts.yaml": rules_text,
    "charts/rebalancer/files/dashboard.json": dashboard_text,
    "config/policy.schema.json": schema_text,
    "docs/reference/asyncapi.json": asyncapi_text,
    "docs/reference/openapi.json": openapi_text,
}


def texts() -> dict[str, str]:
    """Every file by its path in the repository."""
    pages = {name: NOTE + page() for name, page in PAGES.items()}
    crds = {f"charts/rebalancer/crds/{name}": CRD_NOTE + text for name, text in definitions.texts().items()}
    return pages | crds | {name: text() for name, text in FILES.items()}


def main(arguments: list[str]) -> int:
    """Write or check the files; the exit code."""
    parser = argparse.ArgumentParser(prog=COMMAND, description="Writes the files that come from code.")
    parser.add_argument("--check", action="store_true", help="only say which files are out of date")
    parser.add_argument("--folder", type=Path, default=Path(), help="the repository; default: where you are")
    chosen = parser.parse_args(arguments)
    stale = {
        path: text
        for name, text in texts().items()
        if not (path := chosen.folder / name).exists() or path.read_text() != text
    }
    for path, text in stale.items():
        if chosen.check:
            sys.stderr.write(f"error: {path} is out of date; run: {COMMAND}\n")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return 1 if chosen.check and stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

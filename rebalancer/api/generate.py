"""`python -m rebalancer.api.generate [--check]`: writes `docs/reference/openapi.json` from the routes.

With `--check` nothing is written, and the exit code is 1 when the file is not what would be written.
"""

import argparse
import sys
from pathlib import Path

from rebalancer.api.routes import openapi_text

DOCUMENT_FILE = Path("docs/reference/openapi.json")


def main(arguments: list[str]) -> int:
    """Write or check the file; the exit code."""
    parser = argparse.ArgumentParser(description="Writes the API's OpenAPI document.")
    parser.add_argument("--check", action="store_true", help="only say whether the file is up to date")
    parser.add_argument("--file", type=Path, default=DOCUMENT_FILE, help=f"default {DOCUMENT_FILE}")
    chosen = parser.parse_args(arguments)
    if not chosen.check:
        chosen.file.parent.mkdir(parents=True, exist_ok=True)
        chosen.file.write_text(openapi_text())
        return 0
    if chosen.file.exists() and chosen.file.read_text() == openapi_text():
        return 0
    sys.stderr.write(f"error: {chosen.file} is out of date; run: python -m rebalancer.api.generate\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

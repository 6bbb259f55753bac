"""`python -m rebalancer.settings.generate [--check]`: writes `config/policy.schema.json` from the policy's types.

With `--check` nothing is written, and the exit code is 1 when the file is not what would be written.
"""

import argparse
import json
import sys
from pathlib import Path

from rebalancer.domain.policy import json_schema

SCHEMA_FILE = Path("config/policy.schema.json")


def schema_text() -> str:
    """The policy's JSON schema as its file holds it."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"


def main(arguments: list[str]) -> int:
    """Write or check the schema file; the exit code."""
    parser = argparse.ArgumentParser(description="Writes the policy's JSON schema.")
    parser.add_argument("--check", action="store_true", help="only say whether the file is up to date")
    parser.add_argument("--file", type=Path, default=SCHEMA_FILE, help=f"default {SCHEMA_FILE}")
    chosen = parser.parse_args(arguments)
    if not chosen.check:
        chosen.file.write_text(schema_text())
        return 0
    if chosen.file.exists() and chosen.file.read_text() == schema_text():
        return 0
    sys.stderr.write(f"error: {chosen.file} is out of date; run: python -m rebalancer.settings.generate\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

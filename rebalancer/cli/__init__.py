"""The command line: results on stdout, talk on stderr, and an exit code that scripts can trust.

One small module per command in `commands/`, listed in `entry.py`; a command imports heavy rooms (`app`, the HTTP
client, the policy) inside its function, so that `rebalancer --help` answers at once. `render/` holds pure functions
from domain values to text.
"""


def main() -> int:
    """Run the command that `sys.argv` names; the exit code."""
    import sys

    from rebalancer.cli.entry import run

    return run(sys.argv[1:])

"""The command line: results on stdout, talk on stderr, and an exit code that scripts can trust.

`commands` has a module per command, or a folder where the command has work of its own: its `__init__.py` holds the
options, the modules beside it do the work. `entry.py` lists them. `remote` reaches the service and the cluster,
`terminal` talks with the person, `render` holds pure functions from domain values to text. A command imports heavy
rooms (`app`, the HTTP client, the policy) inside its function, so that `rebalancer --help` answers at once.
"""


def main() -> int:
    """Run the command that `sys.argv` names; the exit code."""
    import sys

    from rebalancer.cli.entry import run

    return run(sys.argv[1:])

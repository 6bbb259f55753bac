"""`rebalancer version`."""

import typer

from rebalancer import __version__


def command() -> None:
    """Print the version of this command."""
    typer.echo(f"rebalancer {__version__}")

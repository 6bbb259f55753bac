"""How far something is: a bar that moves on a terminal, a line for each quarter elsewhere."""

import sys

import typer

CELLS = 24


class ProgressLine:
    """`at` as often as one likes; the bar's line ends when all is done."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._quarter = -1

    def at(self, done: int, of: int) -> None:
        """Shows that `done` of `of` parts are done."""
        if sys.stderr.isatty():
            full = CELLS * done // of if of else CELLS
            bar = "#" * full + "." * (CELLS - full)
            typer.echo(f"\r{self._what} [{bar}] {done}/{of}", nl=done >= of, err=True)
        elif (quarter := 4 * done // of if of else 4) > self._quarter:
            self._quarter = quarter
            typer.echo(f"{self._what}: {done} of {of}", err=True)

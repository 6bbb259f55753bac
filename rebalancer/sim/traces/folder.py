"""Where traces are found: a folder named on the command line, or by `REBALANCER_TRACES`."""

from collections.abc import Mapping
from pathlib import Path

VARIABLE = "REBALANCER_TRACES"
_WHERE = "docs/benchmarks.md says where the public traces come from and how the folder is laid out"


class MissingTrace(LookupError):
    """A trace, or the folder of all of them, is not there; the text says what was looked for, and where."""


def traces_folder(option: Path | None, environment: Mapping[str, str]) -> Path:
    """The folder given by `--traces`, else the one that the environment names. Raises MissingTrace."""
    if option is not None:
        origin, folder = "--traces", option
    elif environment.get(VARIABLE):
        origin, folder = VARIABLE, Path(environment[VARIABLE])
    else:
        raise MissingTrace(f"no folder of traces: give --traces FOLDER or set {VARIABLE}; {_WHERE}")
    if not folder.is_dir():
        raise MissingTrace(f"{origin} is {str(folder)!r}, and there is no such folder; {_WHERE}")
    return folder


def trace_file(folder: Path, name: str) -> Path:
    """The file of that name in the folder of traces. Raises MissingTrace."""
    path = folder / name
    if not path.is_file():
        raise MissingTrace(f"no trace {name!r} in {str(folder)!r}; {_WHERE}")
    return path

"""Where tests find what is in no clone: the folder that a variable names, else `../shared` seen from the root."""

import os
from pathlib import Path

import pytest

from rebalancer.sim.traces.folder import VARIABLE
from tests.house.repository import ROOT


def recorded_traffic() -> Path:
    """The folder of public traces; skips the test without one. Only tests look beside the checkout."""
    return folder("traces", VARIABLE)


def folder(name: str, variable: str, root: Path = ROOT) -> Path:
    """The folder that `variable` names, else `../shared/NAME` beside `root`; skips the test where there is neither.

    A variable that names no folder is a mistake, no reason to skip: the test fails.
    """
    there = folder_if_any(name, variable, root)
    if there is None:
        pytest.skip(f"no {name}: set {variable}, or put them into ../shared/{name}")
    return there


def folder_if_any(name: str, variable: str, root: Path = ROOT) -> Path | None:
    """The same for who does without: None where there is neither."""
    if named := os.environ.get(variable):
        if not Path(named).is_dir():
            pytest.fail(f"{variable} is {named!r}, and there is no such folder", pytrace=False)
        return Path(named)
    beside = root.parent / "shared" / name
    return beside if beside.is_dir() else None

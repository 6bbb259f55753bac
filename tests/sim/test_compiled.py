"""Machine code that is kept is that of the source as it is now, wherever the edit was."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import rebalancer.sim

CALLER = """
from rebalancer.sim.compiled import compiled
from kernels.called import FACTOR, grown

@compiled
def twice(value):
    return grown(grown(value)) * FACTOR
"""
CALLED = """
from rebalancer.sim.compiled import compiled
from kernels.constants import FACTOR

@compiled
def grown(value):
    return value + {by}
"""
RUN = "from kernels.caller import twice; print(twice(1.0), sum(twice.stats.cache_hits.values()))"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package whose kernel calls one of another file, which gives it the constant of a third."""
    folder = tmp_path / "kernels"
    folder.mkdir()
    for name, source in (
        ("__init__", ""),
        ("caller", CALLER),
        ("called", CALLED.format(by=1.0)),
        ("constants", "FACTOR = 1.0"),
    ):
        (folder / f"{name}.py").write_text(source)
    return folder


def ran(package: Path) -> str:
    """What a new process makes of it: the result, and how much machine code was found on disk."""
    places = {"XDG_CACHE_HOME": str(package.parent / "cache"), "NUMBA_CACHE_DIR": ""}
    roots = [str(package.parent), str(Path(rebalancer.__path__[0]).parent)]
    done = subprocess.run(  # noqa: S603  # our own interpreter on our own lines
        [sys.executable, "-c", RUN],
        env={**os.environ, **places, "PYTHONPATH": os.pathsep.join(roots)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_what_a_kernel_calls_and_reads_in_other_files_is_never_stale(package: Path) -> None:
    assert ran(package) == "3.0 0"
    (package / "called.py").write_text(CALLED.format(by=2.0))
    assert ran(package) == "5.0 0"
    (package / "constants.py").write_text("FACTOR = 3.0")  # neither the caller nor what it calls was touched
    assert [ran(package), ran(package)] == ["15.0 0", "15.0 1"]


def test_where_the_package_cannot_be_written_the_users_cache_is_used(package: Path) -> None:
    (package / "__pycache__").write_text("in the way of a folder, even for root")
    assert [ran(package), ran(package)] == ["3.0 0", "3.0 1"]
    assert list((package.parent / "cache" / "rebalancer").glob("kernels-*/*/*.nbc"))


def test_where_nothing_can_be_written_it_compiles_anew_and_works(package: Path) -> None:
    (package / "__pycache__").write_text("in the way")
    (package.parent / "cache").write_text("in the way")
    assert ran(package) == "3.0 0"


def test_every_kernel_of_the_simulator_is_kept_so() -> None:
    kernels = [path for path in Path(rebalancer.sim.__path__[0]).rglob("*.py") if "njit" in path.read_text("utf-8")]
    assert [path.name for path in kernels] == ["compiled.py"]

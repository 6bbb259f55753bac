"""Compiled functions, kept on disk by what they are made of.

Numba keeps machine code by the file of the outermost function alone: edit a function (or a constant) of another file
that it uses, and the old one goes on running. Here the folder that it keeps code in is named by a digest of the
function's module and of every module of the same package that this one imports, directly or not. Whatever is edited,
the next process compiles anew; what was compiled before stays until `__pycache__` is emptied.

The folder lies in the `__pycache__` beside the module, or, where that cannot be written (an installed package, a
read-only root), in the user's cache folder, or where NUMBA_CACHE_DIR says. Where nothing can be written, nothing is
kept: every process compiles what it calls, 1 s for the fluid form, 15 s for continuous batching.
"""

import ast
import os
import sys
from collections.abc import Callable, Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, ParamSpec, TypeVar

import numba

P = ParamSpec("P")
R = TypeVar("R")

DIGEST_LETTERS = 16
SETTINGS: Any = numba.config  # its variables are made while it is imported: no type says which


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """A decorator: `numba.njit`, with the machine code kept as said above."""
    folder = _folder(function.__module__)
    before = SETTINGS.CACHE_DIR  # read while a function is decorated, and only then
    SETTINGS.CACHE_DIR = "" if folder is None else str(folder)
    try:
        kernel: Callable[P, R] = numba.njit(cache=folder is not None)(function)
    finally:
        SETTINGS.CACHE_DIR = before
    return kernel


@cache
def _folder(module: str) -> Path | None:
    """Where the machine code of a module goes; None where nothing can be written."""
    file = Path(sys.modules[module].__file__ or "")
    if not file.is_file():
        return None
    name, given = f"kernels-{digest(module)}", SETTINGS.CACHE_DIR
    own = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "rebalancer")
    for place in [Path(given)] if given else [file.parent / "__pycache__", own]:
        try:
            (place / name).mkdir(parents=True, exist_ok=True)
            TemporaryFile(dir=place / name).close()
        except OSError:
            continue
        return place / name
    return None


def digest(module: str) -> str:
    """A hash of the source of an imported module and of all that it imports from its own package."""
    package = sys.modules[module.partition(".")[0]]
    root = Path(package.__file__ or "").parent.parent
    sources, left = {}, [module]
    while left:
        name = left.pop()
        if name in sources:
            continue
        sources[name] = source = _source(root, name)
        left += [other for other in _imported(source) if other.partition(".")[0] == package.__name__]
    return sha256(repr(sorted(sources.items())).encode()).hexdigest()[:DIGEST_LETTERS]


def _source(root: Path, module: str) -> str:
    """Empty for a name that is no module: `from module import name` may mean either."""
    path = root.joinpath(*module.split("."))
    for file in (path.with_suffix(".py"), path / "__init__.py"):
        if file.is_file():
            return file.read_text("utf-8")
    return ""


def _imported(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{name.name}" for name in node.names)

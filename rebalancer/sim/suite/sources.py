"""What decides an outcome, as digests: modules with all that they import of this package, and what is played."""

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

import numpy as np

import rebalancer

PACKAGE = "rebalancer"


def sources(roots: Iterable[str], leaves: frozenset[str] = frozenset()) -> Mapping[str, Path]:
    """The files of modules called `roots` and of what they import of the package, packages around them included.

    Of `leaves` the files count, but not what they import. Raises ValueError for a root that is no module.
    """
    files: dict[str, Path] = {}
    left = list(roots)
    for root in left:
        if _file(root) is None:
            raise ValueError(f"no module {root}")
    while left:
        name = left.pop()
        path = _file(name)
        if path is None or name in files:  # `from module import name`: a name that is no module has no file
            continue
        files[name] = path
        if "." in name:
            left.append(name.rpartition(".")[0])
        if name not in leaves:
            left += _imported(path)
    return files


@cache
def digest_of(roots: tuple[str, ...], leaves: frozenset[str] = frozenset()) -> str:
    """A hash of the source of these modules and what they import; comments and docstrings do not count."""
    files = sources(roots, leaves)
    return sha256("".join(f"{name} {_done(path)}\n" for name, path in sorted(files.items())).encode()).hexdigest()


def digest_of_values(*values: object) -> str:
    """A hash of values: dataclasses, lists and tuples, arrays, and whatever its `repr` says all of."""
    digest = sha256()
    for part in _parts(values):
        digest.update(part)
    return digest.hexdigest()


def _parts(value: object) -> Iterator[bytes]:
    if isinstance(value, np.ndarray):
        yield f"{value.dtype} {value.shape} ".encode()
        yield np.ascontiguousarray(value).tobytes()
    elif is_dataclass(value) and not isinstance(value, type):
        yield f"{type(value).__name__}(".encode()
        for each in fields(value):
            yield f"{each.name}=".encode()
            yield from _parts(getattr(value, each.name))
    elif isinstance(value, list | tuple):
        yield f"[{len(value)} ".encode()
        for each in value:
            yield from _parts(each)
    else:
        yield f"{value!r}, ".encode()


def _file(module: str) -> Path | None:
    root = Path(rebalancer.__file__).parent.parent.joinpath(*module.split("."))
    return next((path for path in (root.with_suffix(".py"), root / "__init__.py") if path.is_file()), None)


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


@cache
def _imported(path: Path) -> tuple[str, ...]:
    """Names that may be modules of the package."""
    return tuple(name for name in _names(_tree(path)) if name.partition(".")[0] == PACKAGE)


def _names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{each.name}" for each in node.names)


@cache
def _done(path: Path) -> str:
    tree = ast.parse(path.read_text("utf-8"))
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            and ast.get_docstring(node) is not None
        ):
            node.body = node.body[1:]
    return ast.dump(tree)

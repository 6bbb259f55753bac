"""Reads a folder of manifests as people keep them: YAML and JSON, many documents in a file."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from rebalancer.survey.objects import Object, Survey, taken_apart

SUFFIXES = (".yaml", ".yml", ".json")


def survey_of(path: Path) -> Survey:
    """All objects below the folder `path`, or in that one file; one file that is broken costs no other.

    Raises FileNotFoundError where there is no such path.
    """
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such file or folder")
    objects: list[Object] = []
    unread: list[str] = []
    files: list[str] = []
    for file in _files(path):
        try:
            in_file = list(taken_apart(_documents(file)))
        except (OSError, ValueError, YAMLError) as error:
            unread.append(f"{file}: {_why(error)}")
            continue
        if not in_file:
            unread.append(f"{file}: holds no Kubernetes object: nothing in it has a kind")
        objects += in_file
        files += [str(file)] * len(in_file)
    return Survey(tuple(objects), tuple(unread), tuple(files))


def _files(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
        return
    yield from sorted(each for each in path.rglob("*") if each.suffix in SUFFIXES and each.is_file())


def _why(error: Exception) -> str:
    """Why a file is not read, and where in it."""
    match error:
        case UnicodeDecodeError():
            return f"no UTF-8 at byte {error.start}"
        case json.JSONDecodeError():
            return f"not JSON on line {error.lineno}"
        case MarkedYAMLError(problem_mark=mark) if mark is not None:
            return f"not YAML on line {mark.line + 1}: {error.problem}"
        case OSError(strerror=str(reason)):
            return f"cannot be read ({reason})"
    return str(error).strip() or "cannot be read"


def _documents(file: Path) -> list[Any]:
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".json":
        return [json.loads(text)]
    return list(YAML(typ="safe", pure=True).load_all(text))

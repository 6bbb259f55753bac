"""Reads a folder of manifests as people keep them: YAML and JSON, many documents in a file."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.constructor import SafeConstructor
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, SequenceNode

from rebalancer.survey.objects import Object, Survey, taken_apart

SUFFIXES = (".yaml", ".yml", ".json")
MOST_VALUES: Final = 1_000_000  # of a file with aliases: an alias of aliases grows without end
MERGE_KEY: Final = "tag:yaml.org,2002:merge"  # written as <<


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
        except (OSError, ValueError, YAMLError, RecursionError) as error:
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
        case RecursionError():
            return "it is nested too deeply"
        case OSError(strerror=str(reason)):
            return f"cannot be read ({reason})"
    return str(error).strip() or "cannot be read"


def _documents(file: Path) -> list[Any]:
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".json":
        return [json.loads(text)]
    yaml = YAML(typ="safe", pure=True)
    yaml.Constructor = _BoundedConstructor
    documents = list(yaml.load_all(text))
    _refuse_grown(documents, max(MOST_VALUES, len(text)))  # without aliases there are fewer values than letters
    return documents


def _refuse_grown(documents: list[Any], most: int) -> None:
    """Raise ValueError where there are more than `most` values, as where an alias stands within what it names."""
    todo, values = list(documents), 0
    while todo:
        each = todo.pop()
        inner = each.values() if isinstance(each, dict) else each if isinstance(each, list) else ()
        values += len(inner)
        if values > most:
            raise _grown(most)
        todo += inner


def _grown(most: int) -> ValueError:
    return ValueError(f"its aliases make more than {most:,} values of it: write them out, or leave them out")


class _BoundedConstructor(SafeConstructor):
    """Raises ValueError where merge keys copy more than MOST_VALUES pairs: they are copied before there is a value."""

    merged = 0

    def flatten_mapping(self, node: Any) -> None:  # noqa: ANN401  ruamel's own signature
        for key, value in node.value:
            if key.tag == MERGE_KEY:
                self._count(value.value if isinstance(value, SequenceNode) else [value])
        super().flatten_mapping(node)

    def _count(self, merged: list[Any]) -> None:
        for node in merged:
            if isinstance(node, MappingNode):  # else the constructor says what is wrong
                self.flatten_mapping(node)
                self.merged += len(node.value)
                if self.merged > MOST_VALUES:
                    raise _grown(MOST_VALUES)

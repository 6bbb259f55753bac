"""Other names for everything that is no word of ours: models, namespaces, nodes, pods, teams, people, labels.

What is kept are the words of the rebalancer's own code and schema, numbers and instants; all other words become `x0001`
and so on, the same word always the same, and in the same order, since names break ties. The parts of a name are words
of their own (`fraud-7d9f-x2`), because the planner puts names together. A part that is a word of ours too, as `spot`
is, stays: it tells little, and where the code asks for it, it must.
"""

import ast
import json
import re
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from itertools import takewhile
from typing import Any, Final
from zoneinfo import available_timezones

from rebalancer.settings.schema import schema_text

_WORD: Final = re.compile(r"\d+(?:\.\d+){3}|\d{4}-\d\d-\d\dT[\d:.]+Z?|[^\W_]\w*")
# Numbers, spans, the ids of shifts (s50) and grants (g61), and instants.
_FIGURE: Final = re.compile(r"[gs]?\d+(?:[eE]\d*|[smhd])?|\d{4}-\d\d-\d\dT[\d:.]+Z?")
_STORIES: Final = ("sandbox", "sim", "world")  # rooms with names of their own, which may be yours
_NUMBERED: Final = re.compile(r"([a-z]+[A-Z][A-Za-z]*)\d+")  # lateAt3, which the code puts together


class Pseudonyms:
    """Made for all the texts that will be rewritten: of those no name is left out."""

    def __init__(self, texts: Iterable[str]) -> None:
        ours = _ours()
        words = {word for text in texts for word in _WORD.findall(text)}
        names = sorted(word for word in words if not _stays(word, ours))
        width = max(4, len(str(len(names))))
        # Digits in front stay there: `1` is a figure, and sorts before `1a` and after `0g`.
        self._instead = {
            name: f"{''.join(takewhile(str.isdigit, name))}x{number:0{width}}" for number, name in enumerate(names, 1)
        }

    def __len__(self) -> int:
        return len(self._instead)

    def rewrite(self, text: str) -> str:
        """The text with other names."""
        return _WORD.sub(lambda word: self._instead.get(word[0], word[0]), text)


def texts_of(value: Any) -> Iterator[str]:  # noqa: ANN401  any JSON
    """Every text in a JSON value, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from texts_of(each)
    elif isinstance(value, dict):
        yield from value
        for each in value.values():
            yield from texts_of(each)


def _stays(word: str, ours: frozenset[str]) -> bool:
    """Whether a word may be told: it is ours, or a figure."""
    numbered = _NUMBERED.fullmatch(word)
    return word in ours or (numbered is not None and numbered[1] in ours) or _FIGURE.fullmatch(word) is not None


@cache
def _ours() -> frozenset[str]:
    """Words of our code (but for what it says in docstrings), of the policy's schema, and of time zones."""
    return frozenset(_read())


def _read() -> Iterator[str]:
    for room in resources.files("rebalancer").iterdir():
        if room.is_dir() and room.name not in _STORIES:
            for source in _sources(room):
                yield from _of_code(ast.parse(source.read_text()))
    for text in (*texts_of(json.loads(schema_text())), *available_timezones()):
        yield from _WORD.findall(text)


def _sources(folder: Traversable) -> Iterator[Traversable]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _sources(entry)
        elif entry.name.endswith(".py"):
            yield entry


def _of_code(tree: ast.Module) -> Iterator[str]:
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield from _WORD.findall(node.value)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id

"""A policy's text as plain values that remember their lines.

Only the plain part of YAML is read: mappings, lists and scalars. Anchors and aliases (an alias of aliases grows
exponentially), tags and deep nesting are refused where they stand; a key given twice is a problem of its own, and the
first one counts.
"""

import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer, ComposerError
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from rebalancer.settings.problem import Problem, show

Path = tuple[str | int, ...]

MAX_CHARACTERS = 1 << 20  # 1 MiB, what a ConfigMap can hold; 1,000 models take about 0.4 MiB
MAX_DEPTH = 20  # a policy needs 8
PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]{1,63}")
STANDARD_TAG = "tag:yaml.org,2002:"  # written as !!
NOT_TEXT = {f"{STANDARD_TAG}{kind}" for kind in ("int", "float", "bool", "null")}
# the library's own, on "\\U80000000" and on odd %YAML lines: of 1.3 it asserts that there is none
STUMBLES = (ValueError, OverflowError, LookupError, AssertionError)
TAB = "found character '\\t' that cannot start any token"


@dataclass(frozen=True)
class Document:
    """A YAML file, read.

    value: dicts, tuples and scalars.
    lines: the line on which each path starts, from 1.
    spelled: numbers, booleans and nulls as the file spells them, by path.
    """

    value: object
    lines: dict[Path, int]
    spelled: dict[Path, str] = field(default_factory=dict)

    def line(self, path: Path) -> int:
        """Line of `path`, or of the nearest part around it that exists."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)

    def get(self, path: Path) -> object:
        """The value at `path`, None where there is none."""
        value = self.value
        for key in path:
            if isinstance(value, dict):
                value = value.get(key)
            elif isinstance(value, tuple) and isinstance(key, int) and key < len(value):
                value = value[key]
            else:
                return None
        return value

    def spell(self, path: Path) -> str:
        """`path` for people: list items by their id or name, as in `models.qwen-32b.minReplicas`."""
        spelled = ""
        for depth, key in enumerate(path):
            name = self._name(path[: depth + 1]) if isinstance(key, int) else key
            if isinstance(name, str) and PLAIN_KEY.fullmatch(name):
                spelled += f".{name}" if spelled else name
            else:
                spelled += f"[{key if isinstance(key, int) else show(key)}]"
        return spelled

    def _name(self, path: Path) -> object:
        item = self.get(path)
        return (item.get("id") or item.get("name")) if isinstance(item, dict) else None


def read_document(text: str) -> tuple[Document | None, tuple[Problem, ...]]:
    """The document in `text` and what is wrong with its YAML; None when it cannot be read at all."""
    if len(text) > MAX_CHARACTERS:
        return None, (
            _whole(f"the file has {len(text):,} characters", f"at most {MAX_CHARACTERS:,}", "split the fleet"),
        )
    yaml = YAML(typ="safe", pure=True)
    yaml.Composer = _PlainComposer
    yaml.max_depth = MAX_DEPTH
    try:
        root = yaml.compose(text)
    except (YAMLError, *STUMBLES) as error:
        return None, (_unreadable(error, text),)
    if root is None:
        return None, (_whole("the file is empty", "", "start from config/policy.yaml"),)
    reader = _Reader(yaml.constructor)
    document = Document(reader.value(root, ()), reader.lines, reader.spelled)
    problems = [
        Problem(line=flaw.line, path=document.spell(flaw.path), value="", what=flaw.what, fix=flaw.fix, at=flaw.path)
        for flaw in reader.flaws
    ]
    return document, tuple(problems)


class _PlainComposer(Composer):
    """Refuses what a policy never needs and a bomb does, before anything is expanded."""

    def compose_node(self, parent: Any, index: Any) -> Any:  # noqa: ANN401  ruamel's own signature
        event = self.parser.peek_event()
        if getattr(event, "anchor", None) is not None:
            raise ComposerError(None, None, "anchors and aliases are not allowed", event.start_mark)
        if getattr(event, "ctag", None) is not None:
            tag = str(event.ctag).replace(STANDARD_TAG, "!!")
            raise ComposerError(None, None, f"the tag {tag} is not allowed", event.start_mark)
        return super().compose_node(parent, index)


class _Flaw(NamedTuple):
    """A problem before the whole is read: only then do list items have names."""

    line: int
    path: Path
    what: str
    fix: str


@dataclass
class _Reader:
    constructor: Any
    lines: dict[Path, int] = field(default_factory=dict)
    spelled: dict[Path, str] = field(default_factory=dict)
    flaws: list[_Flaw] = field(default_factory=list)

    def value(self, node: Node, path: Path) -> object:
        self.lines.setdefault(path, _line(node))
        if isinstance(node, MappingNode):
            return self._mapping(node, path)
        if isinstance(node, SequenceNode):
            return tuple(self.value(item, (*path, index)) for index, item in enumerate(node.value))
        return self._scalar(node, path)

    def _mapping(self, node: MappingNode, path: Path) -> dict[str, object]:
        result: dict[str, object] = {}
        for key, value in node.value:
            if not isinstance(key, ScalarNode):
                self._flaw(key, path, "a key is not text", "write one plain word before the colon")
            elif key.value in result:
                first = self.lines[*path, key.value]
                self._flaw(key, (*path, key.value), f"{key.value} is given twice", f"first on line {first}; keep one")
            else:
                self.lines[*path, key.value] = _line(key)
                result[key.value] = self.value(value, (*path, key.value))
        return result

    def _scalar(self, node: Node, path: Path) -> object:
        if node.tag not in NOT_TEXT:
            return node.value  # text, and what YAML might take for a date
        self.spelled[path] = node.value
        try:
            return self.constructor.construct_object(node)
        except ValueError:  # Python refuses to parse integers of more than 4,300 digits
            self._flaw(node, path, "the number is too long", "")
            return None

    def _flaw(self, node: Node, path: Path, what: str, fix: str) -> None:
        self.flaws.append(_Flaw(_line(node), path, what, fix))


def _line(node: Node) -> int:
    return int(node.start_mark.line) + 1


def _whole(what: str, allowed: str, fix: str) -> Problem:
    return Problem(line=0, path="", value="", what=what, allowed=allowed, fix=fix)


_OPEN = ("expected ',' or ']'", "expected ',' or '}'")
_UNCLOSED = ("a bracket is not closed", "close it with ] or }")
_SAID = {
    "found unexpected end of stream": ("a quoted text is not closed", "close it with the quote it opens with"),
    "mapping values are not allowed here": (
        "a colon where no key can be",
        "put text with a colon in quotes, or indent",
    ),
    "expected the node content": (
        "a bracket is not closed here, or a value is missing",
        "close it with ] or }, or write the value",
    ),
    "expected <block end>": ("the indentation does not fit the lines above", "align it with its neighbours"),
    "but found another document": (
        "another document begins here",
        "a policy is one document: leave the --- out, and what is after it",
    ),
    "expected alphabetic or numeric character": ("a character that begins nothing here", "put the text in quotes"),
}


def _unreadable(error: Exception, text: str) -> Problem:
    """A syntax error as a problem. Not every error of the library has a mark (control characters have none)."""
    if not isinstance(error, MarkedYAMLError) or error.problem_mark is None:
        return _whole(f"not YAML we read: {' '.join(str(error).split())}", "", "")
    mark, problem = error.problem_mark, str(error.problem)
    opens = problem.startswith(_OPEN)
    what, fix = _UNCLOSED if opens else (problem, "")
    if problem == TAB:
        indents = not text.splitlines()[mark.line][: mark.column].strip()
        what, fix = ("a tab in the indentation", "indent with spaces") if indents else ("a tab", "put a space there")
    elif opens and error.context_mark is not None:
        what += f" that opens on line {error.context_mark.line + 1}"
    elif not isinstance(error, ComposerError):
        what = what.split(",", maxsplit=1)[0]
    what, fix = _SAID.get(what, (what, fix))
    return Problem(line=int(mark.line) + 1, path="", value="", what=f"not YAML we read: {what}", fix=fix)

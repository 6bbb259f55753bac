"""Words: each public class name stands once in the product; no variable or function hides what it is or returns.

What docs/glossary.md gives up for a meaning, in its column `not`, is in no page, runbook or docstring.

A local variable, parameter or attribute called `found` or `said` makes the reader look up what it is, and a function of
that name what it returns. Fields of msgspec Structs are the keys of journals, checkpoints and answers of the API, which
go on as they are.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.house.repository import ROOT, tracked

GLOSSARY = ROOT / "docs/glossary.md"
PROSE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)  # code, in which names of others stand as they are
DOCSTRING = re.compile(r'"""(.*?)"""', re.DOTALL)
OTHERS = ("rebalancer/sim/",)  # controllers there are told in the words of their papers
RIDDLES = frozenset({"asked", "found", "kept", "said", "told"})
OF_FUNCTIONS = RIDDLES | {"held"}  # which as a variable is a number of GPUs or replicas, or whether a check holds


def classes(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """(line, name) of the public classes of a module; those inside functions and other classes are nobody else's."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.lineno, node.name


def riddles(tree: ast.Module, structs: frozenset[str] = frozenset({"Struct"})) -> Iterator[str]:
    """Variables and functions with one of those names, with or without an underscore before it: `line: name`."""
    keys = {
        id(item.target)
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and structs & {ast.unparse(base).rpartition(".")[2] for base in node.bases}
        for item in node.body
        if isinstance(item, ast.AnnAssign)
    }
    for node in ast.walk(tree):
        names = RIDDLES
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names = OF_FUNCTIONS
            case ast.Name(id=name, ctx=ast.Store()) if id(node) not in keys:
                pass
            case ast.arg(arg=name) | ast.Attribute(attr=name, ctx=ast.Store()):
                pass
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                pass
            case ast.ExceptHandler(name=str(name)) | ast.alias(asname=str(name)):
                pass
            case _:
                continue
        if name.lstrip("_") in names:
            yield f"{node.lineno}: {name}"


@cache
def product() -> dict[Path, ast.Module]:
    paths = tracked("rebalancer/*.py")
    assert len(paths) > 500  # else the pattern sees nothing
    return {path: ast.parse((ROOT / path).read_text()) for path in paths}


@cache
def given_up() -> tuple[str, ...]:
    """The words of the glossary's column `not`."""
    rows = re.findall(r"^\| [\w -]+ \| .* \| ?([^|]*?) ?\| `[\w.]+` \|$", GLOSSARY.read_text(), re.MULTILINE)
    words = tuple(word for row in rows for word in row.split(", ") if word)
    assert len(rows) > 35
    assert len(words) > 15
    return words


def written(text: str) -> list[str]:
    """Words in the text that are given up, in the singular or the plural; code is left out."""
    small = text.lower()
    near = [word for word in given_up() if word in small]  # the pattern alone would take half a minute for all pages
    return [word for word in near if re.search(rf"\b{word}s?\b", PROSE.sub("", small))]


def test_no_page_and_no_docstring_has_a_word_that_the_glossary_gives_up() -> None:
    pages = [*tracked("docs/*.md"), *tracked("runbooks/*.md"), Path("README.md"), Path("CONTRIBUTING.md")]
    texts = {path: (ROOT / path).read_text() for path in pages if ROOT / path != GLOSSARY}
    modules = {
        path: (ROOT / path).read_text() for path in tracked("rebalancer/*.py") if not str(path).startswith(OTHERS)
    }
    texts |= {path: "\n".join(DOCSTRING.findall(text)) for path, text in modules.items()}
    named = [f"{path}: {word}" for path, text in texts.items() for word in written(text)]
    assert not named, "\n" + "\n".join(named)


def test_a_word_is_given_up_in_prose_and_not_in_code() -> None:
    word = given_up()[0]
    assert written(f"Two {word}s gave.") == [word]
    assert written(f"`swings.{word}` and\n```\n{word}\n```\n") == []


def test_each_public_class_name_stands_once_in_the_product() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path, tree in product().items():
        for line, name in classes(tree):
            places[name].append(f"{path}:{line}")
    twice = [f"{name}: {', '.join(where)}" for name, where in sorted(places.items()) if len(where) > 1]
    assert not twice, "\n" + "\n".join(twice)


def test_no_variable_or_function_is_called_found_kept_told_said_or_asked_and_no_function_held() -> None:
    named = [f"{path}:{each}" for path, tree in product().items() for each in riddles(tree)]
    assert not named, "\n" + "\n".join(named)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("found = []", ["1: found"]),
        ("def rows(kept, *, told=None): ...", ["1: kept", "1: told"]),
        ("for said in texts: ...", ["1: said"]),
        ("self._asked = 1", ["1: _asked"]),
        ("if (found := rows()): ...", ["1: found"]),
        ("match value:\n    case str() as said: ...", ["2: said"]),
        ("from words import say as said", ["1: said"]),
        ("class Step(NamedTuple):\n    said: str", ["2: said"]),
        ("class Step(Struct, frozen=True):\n    said: str", []),
        ("class Step(msgspec.Struct):\n    said: str", []),
        ("text = step.said", []),
        ("def told(): return 1", ["1: told"]),
        ("async def _asked(): ...", ["1: _asked"]),
        ("class Gate:\n    def held(self): ...", ["2: held"]),
        ("def outer():\n    def kept(): ...", ["2: kept"]),
        ("held = gpus_of(model)", []),
        ("def told_at(): ...", []),
    ],
)
def test_a_name_is_noticed_wherever_it_is_bound_and_a_key_of_a_struct_is_none(text: str, named: list[str]) -> None:
    assert sorted(riddles(ast.parse(text))) == named


def test_a_class_is_public_where_others_can_import_it() -> None:
    tree = ast.parse("class Pod: ...\nclass _Held: ...\ndef f():\n    class Pod: ...\nclass A:\n    class B: ...")
    assert list(classes(tree)) == [(1, "Pod"), (5, "A")]

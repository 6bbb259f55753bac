"""Docstrings: everything public has one that begins with what it is about, and each field of four or more a line."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.house.repository import ROOT, tracked

MODULES = tracked("rebalancer/*.py")
LEAST_FIELDS = 4  # a class of fewer fields may describe them in a sentence
NO_NOUN = re.compile(  # a reader asks: those what? of what? "As `plan`", which names a function, is clear
    r"(Those|These|This|That|They|It|Its|Their|Both|Who|Whom|Whoever|Whose|There|Of|Once|Again|Since|Until)\b"
    r"|As (?!`)"
)
RESTATED = re.compile(r"^(?P<name>\w+): (the|its|their) (?P=name)s?( (itself|themselves))?\.$", re.MULTILINE)

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def undescribed(tree: ast.Module) -> Iterator[str]:
    """Modules, classes, functions without a docstring that names its subject, fields without a line: `line: name`."""
    module = ast.get_docstring(tree)
    if module is None:
        yield "1: the module"
    elif NO_NOUN.match(module) and not module.startswith("Who "):  # as a title: "Who else writes", "Who may act"
        yield f"1: the module begins with {module.split()[0]}"
    parts = {node.name for node in tree.body if isinstance(node, ast.ClassDef) if ast.get_docstring(node)}
    for node, name in public(tree):
        docstring = ast.get_docstring(node)
        if docstring is None:
            yield f"{node.lineno}: {name}"
            continue
        if NO_NOUN.match(docstring):
            yield f"{node.lineno}: {name} begins with {docstring.split()[0]}"
        yield from (f"{node.lineno}: {name} says only {line[0]}" for line in RESTATED.finditer(docstring))
        if isinstance(node, ast.ClassDef):
            fields = [
                item for item in node.body if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
            ]
            if len(fields) >= LEAST_FIELDS:
                yield from (
                    f"{field.lineno}: {name}.{ast.unparse(field.target)}"
                    for field in fields
                    if not described(field, docstring) and not (of_policy(node) and names(field) & parts)
                )


def public(scope: ast.Module | ast.ClassDef, within: str = "") -> Iterator[tuple[Definition, str]]:
    """Public classes, functions and methods with their dotted names; those inside functions are nobody else's."""
    for node in scope.body:
        if isinstance(node, Definition) and not node.name.startswith("_"):
            yield node, within + node.name
            if isinstance(node, ast.ClassDef):
                yield from public(node, f"{within}{node.name}.")


def described(field: ast.AnnAssign, docstring: str) -> bool:
    """By its line `name: ...`, or by the description of a pydantic field, which the published schema shows."""
    if isinstance(field.value, ast.Call) and any(word.arg == "description" for word in field.value.keywords):
        return True
    return re.search(rf"^{ast.unparse(field.target)}: \S", docstring, re.MULTILINE) is not None


def of_policy(node: ast.ClassDef) -> bool:
    """Whether it is a mapping of the policy file: a field that is one itself is described by its class."""
    return any(isinstance(base, ast.Name) and base.id == "Part" for base in node.bases)


def names(field: ast.AnnAssign) -> set[str]:
    return {node.id for node in ast.walk(field.annotation) if isinstance(node, ast.Name)}


@pytest.mark.parametrize("room", sorted({path.parts[1] for path in MODULES}))  # folders, and modules beside them
def test_everything_public_is_described_and_so_is_each_field_of_a_class_of_four_or_more(room: str) -> None:
    paths = [path for path in MODULES if path.parts[1] == room]
    found = [f"{path}:{each}" for path in paths for each in undescribed(ast.parse((ROOT / path).read_text()))]
    assert not found, "\n" + "\n".join(found)


FOUR = "a: int\n    b: int\n    c: int\n    d: int"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("def f(): ...", ["1: the module", "1: f"]),
        ("'A module.'\ndef _f(): ...", []),
        ("'A module.'\nclass A:\n    'An A.'\n    def f(self): ...", ["4: A.f"]),
        (f"'A module.'\nclass A:\n    '''An A.\n\n    a: x\n    b: y\n    d: z\n    '''\n    {FOUR}", ["11: A.c"]),
        ("'A module.'\ndef f():\n    'Those of f.'", ["2: f begins with Those"]),
        ("'Of a module.'\ndef f():\n    'As it is sent.'", ["1: the module begins with Of", "2: f begins with As"]),
        ("'A module.'\ndef f():\n    'As `g`, without a copy.'", []),
        ("'A module.'\nclass A:\n    '''An A.\n\n    name: its name.\n    '''", ["2: A says only name: its name."]),
        ("'A module.'\nclass A:\n    'An A of a, b and c.'\n    a: int\n    b: int\n    c: int", []),
    ],
    ids=[
        "nothing",
        "private",
        "a method",
        "a field",
        "no noun",
        "a condition",
        "as a function",
        "a name restated",
        "three fields",
    ],
)
def test_a_lack_of_words_is_seen(text: str, found: list[str]) -> None:
    assert list(undescribed(ast.parse(text))) == found

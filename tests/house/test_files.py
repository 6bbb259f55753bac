"""What is committed: modules of a readable size, exceptions with reasons, nothing of one machine, pins with hashes."""

import re
import tokenize
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.house.repository import ROOT, pyproject, tracked

MODULE_LINES = 400  # the house scale is 80-250
LONGER_MODULES: dict[str, str] = {}  # path -> why it is one thing

# In pieces, so that this file does not name what it looks for.
INDEX_HOSTS = re.compile(
    "|".join(
        [
            r"py" + r"pi\.(org|python)",
            "python" + "hosted",
            r"proxy\.go" + "lang",
            r"registry\.npm" + "js",
            r"crates" + r"\.io",
            r"repo1?\.ma" + "ven",
            r"deb\.deb" + "ian",
        ]
    )
)
MACHINE_PATHS = re.compile(
    r"(^|[^\w./$}-])/(" + "|".join(["wo" + "rk", "ro" + "ot", "tm" + "p", r"home/\w+"]) + r")(/|\b)"
)

EXEMPTION = re.compile(r"#\s*(noqa|type:\s*ignore)")
REASONED = re.compile(r"#\s*(noqa:\s*[A-Z]+[0-9]+(,\s*[A-Z]+[0-9]+)*|type:\s*ignore\[[\w, -]+\])\W+.*\w{3,}")

PIN = re.compile(r"^(?P<name>[a-z0-9][a-z0-9.-]*)==(?P<version>[^\s;]+)(?P<marker> ; .+?)? \\$")
HASH = re.compile(r"^    --hash=sha256:[0-9a-f]{64}( \\)?$")


def test_a_module_is_short_enough_to_be_read_in_one_sitting() -> None:
    lines = {str(path): len((ROOT / path).read_text().splitlines()) for path in tracked("*.py")}
    long = [f"{path}: {n} lines" for path, n in lines.items() if n > MODULE_LINES and path not in LONGER_MODULES]
    assert not long, listed(long)
    settled = [path for path in LONGER_MODULES if lines.get(path, 0) <= MODULE_LINES]
    assert not settled, listed(settled)


@pytest.mark.parametrize("unwanted", [INDEX_HOSTS, MACHINE_PATHS], ids=["package index", "path of one machine"])
def test_no_file_names_a_package_index_or_a_path_of_one_machine(unwanted: re.Pattern[str]) -> None:
    found = [f"{path}:{number}: {line}" for path, number, line in text_lines() if unwanted.search(line)]
    assert not found, listed(found)


@pytest.mark.parametrize("line", ["see /wo" + "rk/x", "'/tm" + "p/x'", "cd /ro" + "ot", "at /home/" + "ann/x"])
def test_a_path_of_one_machine_is_seen(line: str) -> None:
    assert MACHINE_PATHS.search(line)


@pytest.mark.parametrize("line", ["build/tm" + "p/x", "$HOME/wo" + "rk/x", "GET /ro" + "otless", "/api/wo" + "rk"])
def test_other_paths_are_left_alone(line: str) -> None:
    assert not MACHINE_PATHS.search(line)


def test_every_exemption_from_a_rule_says_which_and_why() -> None:
    bare = [
        f"{path}:{number}: {text}"
        for path in tracked("*.py")
        for number, text in comments(path)
        if EXEMPTION.match(text) and not REASONED.match(text)
    ]
    assert not bare, listed(bare)


@pytest.mark.parametrize("path", tracked("requirements/*.txt"), ids=lambda path: str(path.name))
def test_a_requirements_file_holds_only_pins_with_hashes(path: Path) -> None:
    lines = (ROOT / path).read_text().splitlines()
    other = [line for line in lines if not PIN.match(line) and not HASH.match(line)]
    assert not other, listed(other)
    unhashed = [pin for pin, following in pairwise([*lines, ""]) if PIN.match(pin) and not HASH.match(following)]
    assert not unhashed, listed(unhashed)


def test_the_requirements_files_agree_and_the_larger_hold_the_smaller() -> None:
    base, sandbox, sim, test = (pins(f"{name}.txt") for name in ("base", "sandbox", "sim", "test"))
    assert base <= sandbox <= test
    assert base <= sim
    together = base | sandbox | sim | test
    assert len({(name, marker) for name, _, marker in together}) == len(together)


def test_every_dependency_of_the_project_is_pinned() -> None:
    project = pyproject()["project"]
    for file, wanted in {
        "base.txt": project["dependencies"],
        **{f"{extra}.txt": project["optional-dependencies"][extra] for extra in ("sandbox", "sim", "test")},
    }.items():
        names = {re.split(r"[\[<>=~!; ]", line)[0].lower().replace(".", "-").replace("_", "-") for line in wanted}
        assert names - {name for name, _, _ in pins(file)} <= {"rebalancer"}, file


def listed(offences: list[str]) -> str:
    return "\n" + "\n".join(offences)


def pins(file: str) -> set[tuple[str, str, str]]:
    """(name, version, marker) of each pin."""
    matches = map(PIN.match, (ROOT / "requirements" / file).read_text().splitlines())
    return {(match["name"], match["version"], match["marker"] or "") for match in matches if match}


def text_lines() -> Iterator[tuple[Path, int, str]]:
    for path in tracked():
        try:
            text = (ROOT / path).read_text()
        except UnicodeDecodeError:
            continue  # a picture
        for number, line in enumerate(text.splitlines(), 1):
            yield path, number, line


def comments(path: Path) -> Iterator[tuple[int, str]]:
    with tokenize.open(ROOT / path) as file:
        for token in tokenize.generate_tokens(file.readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string

"""The pages, and the fenced blocks in them: what is to be run, and what says why it cannot be."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.house.repository import ROOT

DOCS = ROOT / "docs"
FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
BRACED = re.compile(r'^\{\.(?P<language>\w+)(?: no-run="(?P<why>[^"]+)")?\}$')


@dataclass(frozen=True)
class Block:
    """One fenced block; `why_not` says why it is not run, None when it is."""

    page: str
    line: int
    language: str
    text: str
    why_not: str | None = None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def commands(self) -> list[tuple[str, list[str]]]:
        """(command, lines of output shown below it) of a console block."""
        found: list[tuple[str, list[str]]] = []
        for line in self.text.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
        return found


def pages() -> list[Path]:
    """Every page, written by hand or generated."""
    return sorted(DOCS.rglob("*.md"))


def written_pages() -> list[Path]:
    """Those that people write."""
    return [page for page in pages() if page.parent.name != "reference"]


def blocks(*languages: str) -> list[Block]:
    """The blocks of all written pages in these languages (all without)."""
    return [
        block for page in written_pages() for block in _blocks(page) if block.language in languages or not languages
    ]


def runnable(*languages: str) -> list[Block]:
    """Those that do not say why they are not run."""
    return [block for block in blocks(*languages) if block.why_not is None]


def _blocks(page: Path) -> Iterator[Block]:
    text = page.read_text()
    for found in FENCE.finditer(text):
        braced = BRACED.match(found["info"])
        language, why = (braced["language"], braced["why"]) if braced else (found["info"], None)
        line = text[: found.start()].count("\n") + 1
        yield Block(str(page.relative_to(DOCS)), line, language, found["text"], why)

"""A runbook as data: its sections, and the commands in them."""

import re
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "runbooks"
SECTIONS = ("Meaning", "Impact", "Diagnosis", "Mitigation")

_FENCE = re.compile(r"^```(?P<info>[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Command:
    """One command line. `not_run`: why no test can run it, "" when one does."""

    line: str
    not_run: str


@dataclass(frozen=True)
class Page:
    """One file of `runbooks/`: its heading, and the text of each section."""

    name: str
    heading: str
    sections: dict[str, str]

    def commands(self, section: str) -> list[Command]:
        """The lines after a `$` in the fenced blocks of a section."""
        found = []
        for fence in _FENCE.finditer(self.sections[section]):
            why = re.search(r'no-run="([^"]+)"', fence["info"])
            lines = [line.removeprefix("$ ") for line in fence["body"].splitlines() if line.startswith("$ ")]
            found += [Command(line, why[1] if why else "") for line in lines]
        return found


def page(name: str) -> Page:
    """Read `runbooks/NAME.md`. Raises FileNotFoundError."""
    text = (FOLDER / f"{name}.md").read_text()
    heading, _, rest = text.partition("\n")
    parts = re.split(r"^## (.+)$", rest, flags=re.MULTILINE)
    return Page(name, heading.removeprefix("# "), dict(zip(parts[1::2], parts[2::2], strict=True)))

"""The page of a recording in whose course somebody set the machine's clock back."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from rebalancer.obs import journal
from rebalancer.obs.journal_lines import journal_files
from rebalancer.report.gathering import gather
from rebalancer.report.page import page
from rebalancer.report.report import report
from tests.report.month import write_month

CYCLES, STEP = 40, 60.0


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty minutes."""
    folder = tmp_path_factory.mktemp("forty-minutes")
    write_month(folder, CYCLES, STEP)
    return folder


def set_back(recorded: Path, seconds: float, cycle: int, into: Path) -> Path:
    """The same, with the clock set back by `seconds` at `cycle`."""
    lines = []
    for path in journal_files(recorded):
        for raw in path.read_bytes().splitlines():
            line = journal.decode(raw)
            if isinstance(line, journal.FrameLine | journal.CycleLine) and line.delta.cycle >= cycle:
                line = replace(line, delta=replace(line.delta, at=line.delta.at - seconds))
            lines.append(journal.encode(line))
    (into / "journal-000001.jsonl").write_bytes(b"".join(lines))
    return into


@pytest.mark.parametrize(
    ("seconds", "cycle", "drawn"), [(600.0, 30, True), (590.0, 38, True), (3600.0, 35, False), (7200.0, 10, False)]
)
def test_the_page_is_made_and_draws_what_lies_between_its_ends(
    recorded: Path, tmp_path: Path, seconds: float, cycle: int, *, drawn: bool
) -> None:
    seen = gather(set_back(recorded, seconds, cycle, tmp_path), 30 * 86_400.0)
    text = page(report(seen, {}), seen)
    assert ("<svg" in text) is drawn
    assert ("the clock was set back" in text) is not drawn
    assert "By model" in text

"""Files that are written from code are what the code writes."""

from pathlib import Path

import pytest

from rebalancer.generate import main, texts
from tests.house.repository import ROOT

Captured = pytest.CaptureFixture[str]


def test_what_is_committed_is_what_the_code_writes(capsys: Captured) -> None:
    assert main(["--check", "--folder", str(ROOT)]) == 0, capsys.readouterr().err


def test_a_file_that_is_missing_or_was_edited_is_told_with_what_to_run_and_written_again(
    tmp_path: Path, capsys: Captured
) -> None:
    assert main(["--check", "--folder", str(tmp_path)]) == 1
    assert capsys.readouterr().err.count("is out of date; run: python -m rebalancer.generate") == len(texts())
    assert main(["--folder", str(tmp_path)]) == 0
    assert main(["--check", "--folder", str(tmp_path)]) == 0
    page = tmp_path / "docs/reference/cli.md"
    page.write_text(page.read_text().replace("--reason", "--because"))
    assert main(["--check", "--folder", str(tmp_path)]) == 1
    assert "cli.md is out of date" in capsys.readouterr().err

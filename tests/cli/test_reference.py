"""The page about the commands is made of the commands."""

from pathlib import Path

from rebalancer.cli.reference import FILE, main, text


def test_the_page_in_the_docs_is_up_to_date() -> None:
    assert main(["--check"]) == 0, "run: python -m rebalancer.cli.reference"


def test_an_old_page_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / FILE.name
    assert main(["--check", "--file", str(page)]) == 1
    assert main(["--file", str(page)]) == 0
    assert main(["--check", "--file", str(page)]) == 0
    page.write_text(page.read_text().replace("--reason", "--because"))
    assert main(["--check", "--file", str(page)]) == 1


def test_every_command_of_the_runbooks_trade_is_told() -> None:
    said = text()
    for command in ("status", "plan", "explain", "override add", "override delete", "writes stop", "writes resume"):
        assert f"## rebalancer {command}\n" in said
    assert "REBALANCER_SERVER" in said
    assert "--confirm NAME" in said

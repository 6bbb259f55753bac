"""The page about the commands is made of the commands."""

from rebalancer.cli.reference import cli_page


def test_every_command_of_the_runbooks_trade_is_told() -> None:
    said = cli_page()
    for command in ("status", "plan", "explain", "override add", "override delete", "writes stop", "writes resume"):
        assert f"## rebalancer {command}\n" in said
    assert "REBALANCER_SERVER" in said
    assert "--confirm NAME" in said

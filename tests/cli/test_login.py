"""Tokens: asked for in the person's name, kept for their eyes only, sent to the one place they are for."""

import stat
from pathlib import Path

import msgspec
import pytest

from rebalancer.cli.remote.tokens import Token, find, keep
from rebalancer.sandbox.api.server import EmbeddedKubernetes
from tests.cli.night import Night, served
from tests.cli.running import rebalancer

pytestmark = pytest.mark.usefixtures("people")

Captured = pytest.CaptureFixture[str]
VIEWER = "sandbox-system:serviceaccount:rebalancer:rebalancer-viewer"


async def test_after_login_reads_carry_the_token(night: Night, capsys: Captured) -> None:
    night.token = VIEWER
    assert await rebalancer("status") == 1
    assert "the service wants a token and there is none: run rebalancer login" in capsys.readouterr().err
    assert await rebalancer("login") == 0
    assert "Logged in as rebalancer-viewer until" in capsys.readouterr().err
    assert await rebalancer("status") == 0


async def test_a_token_that_is_not_taken_and_rights_that_lack_say_what_to_do(night: Night, capsys: Captured) -> None:
    assert await rebalancer("login", "-q") == 0
    night.token = "newer"
    assert await rebalancer("plan") == 1
    assert "that of rebalancer-viewer is not accepted: run rebalancer login" in capsys.readouterr().err
    night.token, night.allowed = None, False
    assert await rebalancer("plan") == 1
    assert "rebalancer login --as operator" in capsys.readouterr().err


async def test_as_operator_and_release_choose_the_account(server: str, home: Path, capsys: Captured) -> None:
    chosen = ("--as", "operator", "--release", "gpu", "--service-namespace", "infra", "--show-token", "-q")
    assert await rebalancer("login", *chosen) == 0
    out, err = capsys.readouterr()
    assert out == "sandbox-system:serviceaccount:infra:gpu-operator\n"
    assert err == ""
    token = find(server)
    assert token is not None
    assert token.account == "gpu-operator"


@pytest.mark.parametrize("refused", [403, 404], ids=["a viewer may ask for the chart's alone", "there is none"])
async def test_the_chart_puts_its_own_name_behind_a_release_that_does_not_have_it(
    kubernetes: EmbeddedKubernetes, server: str, refused: int
) -> None:
    kubernetes.faults.fail_next(1, refused, method="POST", path_part="/gpu-viewer/token")
    assert await rebalancer("login", "--release", "gpu") == 0
    token = find(server)
    assert token is not None
    assert token.account == "gpu-rebalancer-viewer"


async def test_a_release_whose_accounts_are_not_there_is_told_with_both_names(
    kubernetes: EmbeddedKubernetes, capsys: Captured
) -> None:
    kubernetes.faults.fail_next(2, 404, method="POST", path_part="/token")
    assert await rebalancer("login", "--release", "gpu") == 1
    assert "no service account gpu-viewer or gpu-rebalancer-viewer in namespace" in capsys.readouterr().err


async def test_the_file_is_its_owners_alone(home: Path) -> None:
    assert await rebalancer("login") == 0
    (file,) = (home / "state" / "rebalancer" / "tokens").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


async def test_a_token_goes_nowhere_but_to_its_place(night: Night) -> None:
    assert await rebalancer("login") == 0
    night.token = VIEWER
    other = Night()
    other.token = VIEWER  # it would be taken there, if it were sent
    async with served(other) as elsewhere:
        assert await rebalancer("status", "--server", elsewhere) == 1
    assert await rebalancer("status") == 0


async def test_a_token_that_has_run_out_is_not_sent(server: str, night: Night, capsys: Captured) -> None:
    night.token = VIEWER
    keep(Token(server, "rebalancer-viewer", VIEWER, 1_700_000_000.0))
    assert await rebalancer("status") == 1
    assert "there is none: run rebalancer login" in capsys.readouterr().err


async def test_a_file_that_cannot_be_read_is_no_token(server: str, night: Night) -> None:
    file = keep(Token(server, "a", "b", 4e9))
    file.write_text("{")
    assert find(server) is None
    assert await rebalancer("status") == 0


async def test_logout_forgets(server: str, capsys: Captured) -> None:
    assert await rebalancer("login") == 0
    assert await rebalancer("logout") == 0
    assert find(server) is None
    capsys.readouterr()
    assert await rebalancer("logout") == 0
    assert capsys.readouterr().err == "There was no token.\n"


async def test_no_right_to_a_token_is_said(kubernetes: EmbeddedKubernetes, capsys: Captured) -> None:
    kubernetes.faults.fail_next(1, 403, method="POST", path_part="/token")
    assert await rebalancer("login") == 1
    assert "you may not create serviceaccounts/token of rebalancer-viewer" in capsys.readouterr().err
    kubernetes.faults.fail_next(1, 404, method="POST", path_part="/token")
    assert await rebalancer("login") == 1
    assert "--service-namespace and --release say where" in capsys.readouterr().err


def test_a_token_shows_itself_in_no_text() -> None:
    token = Token("place", "account", "secret", 0.0)
    assert "secret" not in f"{token} {token!r}"
    assert b"secret" in msgspec.json.encode(token)

"""The red button from the command line."""

import asyncio
import json
import os

import pytest
from msgspec.structs import replace

from rebalancer.sandbox.api.resources import WRITESTOPS, Obj
from rebalancer.sandbox.api.server import EmbeddedKubernetes
from tests.cli.night import Night
from tests.cli.running import process, rebalancer

pytestmark = pytest.mark.usefixtures("people")

Captured = pytest.CaptureFixture[str]
STOP = ("writes", "stop", "--reason", "bad rollout")


def stops(kubernetes: EmbeddedKubernetes) -> list[Obj]:
    return list(kubernetes.store.list(WRITESTOPS))


async def test_stop_never_asks_and_the_service_confirms(kubernetes: EmbeddedKubernetes, capsys: Captured) -> None:
    assert await rebalancer(*STOP) == 0
    (stop,) = stops(kubernetes)
    assert stop["spec"] == {"reason": "bad rollout", "actor": "oncall"}
    out, err = capsys.readouterr()
    assert out.startswith("Writes stopped by oncall (stop-")
    assert err == "rb-0 confirms: nothing is written.\n"


async def test_stop_works_while_the_service_is_away(kubernetes: EmbeddedKubernetes, capsys: Captured) -> None:
    assert await rebalancer(*STOP, "--server", "http://127.0.0.1:1") == 0
    assert len(stops(kubernetes)) == 1
    assert "obeys within 2 s; it could not be asked" in capsys.readouterr().err


async def test_a_service_that_does_not_obey_is_said_to_be_so(night: Night, capsys: Captured) -> None:
    night.writes = replace(night.writes, stopped=False)
    assert await rebalancer(*STOP) == 0
    assert "has not confirmed within 3 s" in capsys.readouterr().err


async def test_a_reason_typed_at_a_terminal_without_utf8_stops_writes(kubernetes: EmbeddedKubernetes) -> None:
    assert await rebalancer("writes", "stop", "--reason", os.fsdecode(b"L\xfcfter defekt")) == 0
    (stop,) = stops(kubernetes)
    assert stop["spec"]["reason"] == "L\N{REPLACEMENT CHARACTER}fter defekt"


async def test_a_lost_reply_presses_once(kubernetes: EmbeddedKubernetes) -> None:
    kubernetes.faults.lose_next_replies(1, method="POST", path_part="/writestops")
    assert await rebalancer(*STOP) == 0
    assert len(stops(kubernetes)) == 1


async def test_a_dry_run_presses_nothing(kubernetes: EmbeddedKubernetes) -> None:
    assert await rebalancer(*STOP, "--dry-run") == 0
    assert stops(kubernetes) == []


async def test_status_says_who_stopped_the_writes_and_why(capsys: Captured) -> None:
    assert await rebalancer("writes", "status") == 0
    assert capsys.readouterr().out == "Writes are not stopped.\n"
    assert await rebalancer(*STOP, "-q") == 0
    name = capsys.readouterr().out.strip()
    assert await rebalancer("writes", "status") == 0
    assert "Writes stopped by oncall" in capsys.readouterr().out
    assert await rebalancer("writes", "status", "-o", "json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["stopped"] is True
    assert [each["name"] for each in told["stops"]] == [name]


async def test_a_reason_that_the_readers_locale_lacks_is_shown_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await rebalancer("writes", "stop", "--reason", "GPUs \N{RIGHTWARDS ARROW} spare pool") == 0
    monkeypatch.setenv("PYTHONIOENCODING", "iso-8859-1")
    with process("writes", "status") as reader:
        out, err = await asyncio.to_thread(reader.communicate)
    assert err == ""
    assert out.endswith(": GPUs \\u2192 spare pool\n")


async def test_resume_shows_the_first_plan_and_wants_a_word(
    kubernetes: EmbeddedKubernetes, night: Night, capsys: Captured
) -> None:
    for _ in range(2):
        assert await rebalancer(*STOP) == 0
    capsys.readouterr()
    assert await rebalancer("writes", "resume") == 2
    err = capsys.readouterr().err
    assert night.resume_preview.lines[0] in err
    assert "bad rollout" in err
    assert "add --yes" in err
    assert len(stops(kubernetes)) == 2
    assert await rebalancer("writes", "resume", "--dry-run") == 0
    assert len(stops(kubernetes)) == 2
    assert await rebalancer("writes", "resume", "--yes") == 0
    assert stops(kubernetes) == []
    assert capsys.readouterr().out.endswith("Writes resumed.\n")


async def test_resume_without_a_stop_says_so(capsys: Captured) -> None:
    assert await rebalancer("writes", "resume") == 0
    assert capsys.readouterr().err == "Writes are not stopped.\n"

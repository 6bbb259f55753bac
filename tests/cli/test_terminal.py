"""At a terminal there are questions and colour; in a pipe there are neither."""

import asyncio
import json
import re
import signal

import pytest
from aiohttp.test_utils import TestServer
from msgspec.structs import replace

from rebalancer.sandbox.api.resources import OVERRIDES, WRITESTOPS
from rebalancer.sandbox.api.server import EmbeddedKubernetes
from tests.cli.night import Night
from tests.cli.running import process, rebalancer
from tests.cli.scene import PLAN
from tests.cli.terminal import terminal

pytestmark = [pytest.mark.usefixtures("people"), pytest.mark.slow]  # 30 s: each is a process on a terminal

CAP = ("override", "add", "cap", "qwen-32b", "2", "--for", "30m", "--reason", "TICKET-1")
QUESTION = "Apply until 03:42 UTC as oncall? [y/N] "
ESCAPE = "\x1b["
CLEAR = f"{ESCAPE}H{ESCAPE}2J{ESCAPE}3J"


async def test_a_yes_applies(kubernetes: EmbeddedKubernetes) -> None:
    async with terminal(*CAP) as shown:
        await shown.shows(QUESTION)
        assert "now  qwen-32b 3 -> 2  passes step; floor 1 kept" in shown.screen
        assert not kubernetes.store.list(OVERRIDES)
        shown.type("y\n")
        assert await shown.ends() == 0
        assert "in force. Undo: rebalancer override delete ov-" in shown.screen
    assert len(kubernetes.store.list(OVERRIDES)) == 1


@pytest.mark.parametrize(("keys", "code"), [("\n", 1), ("n\n", 1), ("\x04", 1), ("\x03", 130)])
async def test_anything_but_a_yes_writes_nothing(kubernetes: EmbeddedKubernetes, keys: str, code: int) -> None:
    async with terminal(*CAP) as shown:
        await shown.shows(QUESTION)
        shown.type(keys)
        assert await shown.ends() == code
        assert "Traceback" not in shown.screen
    assert not kubernetes.store.list(OVERRIDES)


async def test_no_input_asks_nothing_even_at_a_terminal(kubernetes: EmbeddedKubernetes) -> None:
    async with terminal(*CAP, "--no-input") as shown:
        assert await shown.ends() == 2
        assert "nobody is there to ask: add --yes" in shown.screen


async def test_a_drain_wants_the_nodes_name_typed(kubernetes: EmbeddedKubernetes) -> None:
    drain = ("override", "add", "drain", "spot-2", "--reason", "x", "--yes")
    for typed, code, there in (("spot-1\n", 1, 0), ("spot-2\n", 0, 1)):
        async with terminal(*drain) as shown:
            await shown.shows("type spot-2 ")
            shown.type(typed)
            assert await shown.ends() == code
        assert len(kubernetes.store.list(OVERRIDES)) == there


async def test_resume_wants_the_word(kubernetes: EmbeddedKubernetes) -> None:
    assert await rebalancer("writes", "stop", "--reason", "bad") == 0
    for typed, code, there in (("yes\n", 1, 1), ("resume\n", 0, 0)):
        async with terminal("writes", "resume") as shown:
            await shown.shows("type resume ")
            assert "ends 4 replicas on spot-2, under notice" in shown.screen
            shown.type(typed)
            assert await shown.ends() == code
        assert len(kubernetes.store.list(WRITESTOPS)) == there


async def test_resume_takes_no_stop_away_that_it_did_not_show(kubernetes: EmbeddedKubernetes) -> None:
    pressed = {"apiVersion": "rebalancer.io/v1alpha1", "kind": "WriteStop", "metadata": {"name": "stop"}}
    kubernetes.store.put(pressed | {"spec": {"reason": "bad rollout", "actor": "ann"}})
    async with terminal("writes", "resume") as shown:
        await shown.shows("type resume ")
        kubernetes.store.delete(WRITESTOPS, "stop")
        kubernetes.store.put(pressed | {"spec": {"reason": "fire", "actor": "bob"}})
        shown.type("resume\n")
        assert await shown.ends() == 1
        assert "Writes resumed" not in shown.screen
        assert "writes stay stopped, somebody pressed meanwhile; look again: Writes stopped by bob" in shown.screen
    (left,) = kubernetes.store.list(WRITESTOPS)
    assert left["spec"]["actor"] == "bob"


async def test_colour_is_for_terminals_without_no_color() -> None:
    async with terminal("status") as shown:
        assert await shown.ends() == 0
        assert f"{ESCAPE}31mshort 1{ESCAPE}0m" in shown.screen
    async with terminal("status", NO_COLOR="1") as shown:
        assert await shown.ends() == 0
        assert "short 1" in shown.screen
        assert ESCAPE not in shown.screen
    with process("status") as piped:
        out, _ = await asyncio.to_thread(piped.communicate)
    assert "short 1" in out
    assert ESCAPE not in out


async def test_watch_redraws_a_terminal_until_ctrl_c(night: Night) -> None:
    async with terminal("status", "--watch") as shown:
        await shown.shows("short 1")
        night.now = replace(night.now, cluster="prod-us")
        await shown.shows(f"{CLEAR}prod-us")
        shown.type("\x03")
        assert await shown.ends() == 130
        assert "Traceback" not in shown.screen


@pytest.mark.parametrize("command", ["status", "plan"])
async def test_watch_on_a_terminal_says_that_nobody_answers_and_how_old_its_picture_is(
    night: Night, command: str
) -> None:
    async with TestServer(night.app()) as dying:
        async with terminal(command, "--watch", "--server", str(dying.make_url("/")), NO_COLOR="1") as shown:
            await shown.shows("sdxl")
            await dying.close()
            await shown.shows("; trying again")
        age, *table, word = shown.screen.partition("; trying again")[0].rpartition(CLEAR)[2].splitlines()
        assert re.fullmatch(r"NOT LIVE: \d+ s old", age)
        assert any("sdxl" in line for line in table)
        assert word.startswith("no answer from http://127.0.0.1:")


async def test_watch_in_a_pipe_is_a_line_of_json_per_change(night: Night) -> None:
    with process("plan", "--watch") as piped:
        assert piped.stdout is not None
        first = json.loads(await asyncio.to_thread(piped.stdout.readline))
        night.now = replace(night.now, plan=replace(PLAN, cycle=48_217))
        second = json.loads(await asyncio.to_thread(piped.stdout.readline))
        piped.send_signal(signal.SIGINT)
        _, err = await asyncio.to_thread(piped.communicate)
    assert (first["cycle"], second["cycle"]) == (48_216, 48_217)
    assert piped.returncode == 130
    assert err == ""


async def test_watch_outlives_a_service_that_cannot_say_for_a_while(night: Night) -> None:
    with process("plan", "--watch") as piped:
        assert piped.stdout is not None
        assert piped.stderr is not None
        await asyncio.to_thread(piped.stdout.readline)
        before, night.now = night.now, replace(night.now, plan=None)  # as of a leader that has just started
        word = await asyncio.to_thread(piped.stderr.readline)
        night.now = replace(before, plan=replace(PLAN, cycle=48_217))
        second = json.loads(await asyncio.to_thread(piped.stdout.readline))
    assert word.startswith("nothing is decided yet; see /readyz")
    assert word.endswith("; trying again\n")
    assert second["cycle"] == 48_217

"""`rebalancer demo` as people run it: a process, a pipe, an exit code."""

import re
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import IO

import pytest

from rebalancer.cli.commands.demo import command
from rebalancer.sim.product.open_loop import feed

pytestmark = pytest.mark.slow  # 35 s

REBALANCER = Path(sys.executable).with_name("rebalancer")
DEFAULT_SPEED = signature(command).parameters["speed"].default
SPEED = 6.0
ROWS = (
    "first move after the surge",
    "from giving to getting",
    "lent GPUs serve chat",
    "replacement asked for",
    "replacement serves",
    "chat in time again",
    "code has its GPUs back",
    "override obeyed",
    "override over",
    "floors held",
    "grants into free GPUs",
)
TRACE = "t_seconds,model,requests,input_tokens,output_tokens\n" + "".join(
    f"{second},chat,12,9600,1200\n" for second in range(20)
)


@dataclass(frozen=True)
class Run:
    """What a demo left behind."""

    code: int
    out: str
    err: str
    folder: Path

    def row(self, what: str) -> str:
        """The line of the final table about `what`."""
        table = self.out.split("WHAT", 1)[1]
        return next(line for line in table.splitlines() if f"  {what}  " in line)


def run(folder: Path, *arguments: str) -> Run:
    """Run the command in a folder of its own."""
    done = subprocess.run(  # noqa: S603  the command under test
        [str(REBALANCER), *arguments], cwd=folder, capture_output=True, text=True, check=False, timeout=150
    )
    return Run(done.returncode, done.stdout, done.stderr, folder)


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One run for all tests about it."""
    return run(tmp_path_factory.mktemp("demo"), "demo", "--speed", str(SPEED))


@pytest.mark.timeout(180)
def test_the_demo_shows_all_that_it_promises(story: Run) -> None:
    assert story.code == 0, story.out + story.err
    for what in ROWS:
        assert story.row(what).startswith("ok "), story.row(what)
    assert story.err == ""


@pytest.mark.timeout(180)
def test_the_address_of_the_console_comes_first(story: Run) -> None:
    assert re.match(r"Console: http://127\.0\.0\.1:\d+/console/ ", story.out)


@pytest.mark.timeout(180)
def test_what_became_of_the_requests_is_told_beside_keda_alone_measured_and_played(story: Run) -> None:
    value = story.out.split("LATE REQUESTS", 1)[1].split("WHAT", 1)[0]
    assert re.search(r"measured +played +played", value)
    for side in ("rebalancer", "KEDA, own GPUs", "KEDA, shared"):
        assert len(re.findall(rf"^{side} .*\d", value, re.MULTILINE)) == 2  # late, and waiting
    late = {row: [int(each.replace(",", "")) for each in numbers] for row, *numbers in _numbers(value)}
    every = [sum(late[model][side] for model in ("chat", "code", "image")) for side in range(3)]
    assert late["all"] == pytest.approx(every, abs=3)  # each is rounded
    assert all(count > 0 for count in late["all"])


def _numbers(value: str) -> list[tuple[str, ...]]:
    """Model or `all`, and the late requests of the three sides."""
    return re.findall(r"^(\w+), of [\d,]+ +([\d,]+) +([\d,]+) +([\d,]+) *$", value, re.MULTILINE)


@pytest.mark.timeout(180)
def test_no_line_of_the_picture_is_wider_than_80(story: Run) -> None:
    value = story.out.split("LATE REQUESTS", 1)[1].split("rebalancer: measured", 1)[0]
    assert max(len(line.rstrip()) for line in value.splitlines()) <= 80


@pytest.mark.timeout(180)
def test_each_time_is_told_in_world_and_in_wall_seconds(story: Run) -> None:
    for what in ROWS[:-2]:
        world, wall = re.findall(r"([\d.]+) s", story.row(what))[:2]
        assert float(wall) == pytest.approx(float(world) / SPEED, abs=0.02)


@pytest.mark.timeout(180)
def test_steps_are_numbered_and_a_pipe_gets_plain_lines(story: Run) -> None:
    steps = re.findall(r"^ *[\d.]+ s  (\d)/(\d) ", story.out, re.MULTILINE)
    assert steps == [(str(number), "5") for number in range(1, 6)]
    assert "\x1b" not in story.out


@pytest.mark.timeout(180)
def test_at_default_speed_it_would_end_within_90_seconds(story: Run) -> None:
    world_seconds = float(re.findall(r"^ *([\d.]+) s  ", story.out, re.MULTILINE)[-1])
    assert world_seconds / DEFAULT_SPEED < 80  # coming up and going down take a few seconds more


@pytest.mark.timeout(180)
def test_its_journal_replays_byte_by_byte(story: Run) -> None:
    done = run(story.folder, "replay", "build/demo/journal.jsonl")
    assert done.code == 0, done.out
    cycles, same = re.findall(r"(\d+) cycles, (\d+) byte-equal", story.out)[0]
    assert int(cycles) == int(same) > 50
    assert f"{cycles} cycles replayed, {same} byte-equal, 0 differ" in done.out


@pytest.mark.timeout(180)
def test_its_journals_inputs_give_its_decisions_in_the_simulators_cycle_byte_for_byte(story: Run) -> None:
    with (story.folder / "build/demo/journal.jsonl").open("rb") as lines:
        found = feed(lines)
    assert found.differences == []
    assert found.cycles > 50
    assert found.changes > 10


@pytest.mark.timeout(120)
def test_a_service_that_writes_nothing_fails_the_demo(tmp_path: Path) -> None:
    shadow = run(tmp_path, "demo", "--speed", "40", "--write-mode", "shadow")
    assert shadow.code == 2
    said = "nothing is written, so the story cannot happen; look around with --keep"
    assert shadow.err == f"error: --write-mode shadow: {said}\n"


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_the_commands_that_a_kept_demo_prints_work_as_printed(tmp_path: Path) -> None:
    command = [str(REBALANCER), "demo", "--keep", "--write-mode", "shadow"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as demo:  # noqa: S603  as `run`
        try:
            assert demo.stdout is not None
            block = _printed_commands(demo.stdout)
            assert len(block) == 10
            # kubectl is in few places where tests run; the API it talks to has tests of its own.
            script = "\n".join(line for line in block if not line.startswith("kubectl") or shutil.which("kubectl"))
            bash = ["/bin/bash", "-eux", "-c", script]
            done = subprocess.run(bash, capture_output=True, text=True, check=False, timeout=90)  # noqa: S603  its words
            assert done.returncode == 0, done.stderr + done.stdout
            assert any("surge, as asked: chat gets 44 requests per second" in line for line in demo.stdout)
        finally:
            demo.send_signal(signal.SIGINT)


def _printed_commands(out: IO[str]) -> list[str]:
    """What a kept demo says is to be typed in another terminal."""
    lines: list[str] = []
    while "The Kubernetes API is at" not in (line := out.readline()):
        assert line, f"it ended: {''.join(lines)}"
        lines.append(line)
    return [line.strip() for line in lines[lines.index("In another terminal:\n") + 1 :]]


@pytest.mark.timeout(120)
def test_a_demo_that_a_shell_began_in_the_background_ends_by_ctrl_c_all_the_same(tmp_path: Path) -> None:
    ignoring = (
        "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"
    )
    command = [sys.executable, "-c", ignoring, str(REBALANCER), "demo", "--keep", "--write-mode", "shadow"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as demo:  # noqa: S603  as `run`
        assert demo.stdout is not None
        _printed_commands(demo.stdout)
        second = run(tmp_path, "demo", "--keep", "--write-mode", "shadow")
        assert second.err == (
            "error: another demo runs in build/demo: end it with Ctrl-C, or start this one elsewhere\n"
        )
        demo.send_signal(signal.SIGINT)
        assert demo.wait(30) == 130


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("surge",), "error: say which model; it has chat, code, image"),
        (("surge", "chta"), "error: no model chta in the demo; did you mean chat?; it has chat, code, image"),
        (("surge", "chat"), "error: no demo runs in this folder: start one here with rebalancer demo --keep"),
        (("surge", "chat", "--for", "2h"), "error: --for 2h is too long: allowed up to 1h"),
    ],
)
def test_a_surge_that_cannot_be_is_told(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    refused = run(tmp_path, "demo", *arguments)
    assert refused.code != 0
    assert refused.err.strip() == said


@pytest.mark.timeout(120)
def test_a_trace_takes_the_storys_place(tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text(TRACE)
    traced = run(tmp_path, "demo", "--speed", "10", "--trace", "trace.csv")
    assert traced.code == 0, traced.out + traced.err
    assert re.search(r"100\.0% of 2\d\d requests served", traced.row("chat"))
    assert "surge" not in traced.out
    assert traced.row("floors held").startswith("ok ")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (TRACE.replace("chat", "gpt"), "no model gpt in the demo; it has chat, code, image"),
        (TRACE + "x,chat,1,1,1\n", "line 22: t_seconds is 'x'"),
        (None, "cannot be read"),
    ],
)
def test_a_trace_that_cannot_be_played_is_told_at_once(tmp_path: Path, text: str | None, said: str) -> None:
    if text is not None:
        (tmp_path / "trace.csv").write_text(text)
    refused = run(tmp_path, "demo", "--trace", "trace.csv")
    assert refused.code == 2
    assert "trace.csv: " in refused.err
    assert said in refused.err
    assert not (tmp_path / "build").exists()

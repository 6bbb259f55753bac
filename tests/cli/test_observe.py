"""`rebalancer observe`: what it refuses before it starts, and the first table."""

from pathlib import Path

import pytest

from rebalancer.app.backfill import Backfilled
from rebalancer.cli.commands.observe import TerminalOnlooker
from rebalancer.cli.entry import run
from rebalancer.cli.render.window import render_window
from rebalancer.cli.terminal.progress import ProgressLine
from rebalancer.ingest.past.together import PoolTogether
from rebalancer.ingest.past.use import WindowUse
from rebalancer.ingest.prometheus_session import QueryCost
from rebalancer.settings.service import ServiceSettings
from tests.cli.running import process

URL = "http://127.0.0.1:9"
DAY_SECONDS = 86_400.0
BUSY = WindowUse("chat", 24.0, 6.0, 8, busy=0.625, busy_p95=0.9, by_gpus=True, idle_gpu_hours=54.0, late=0.031)
BY_REQUESTS = WindowUse("code", 6.0, 4.0, 4, busy=0.5, busy_p95=1.0, idle_gpu_hours=12.0)
UNSEEN = WindowUse("image")


@pytest.fixture
def kubeconfig(home: Path) -> str:
    (home / "kubeconfig").write_text("{}")
    return str(home / "kubeconfig")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "policy.yaml: no such file; write one with: rebalancer init --prometheus http://127.0.0.1:9"),
        (("--backfill", "a day"), "--backfill a day: say a duration as 30m, 1h30m, 90s or 2d"),
        (("--backfill", "91d"), "--backfill 91d is too long: allowed up to 90d"),
        (("--interval", "0s"), "--interval 0s: say more than 0 s"),
        (("--prometheus", "prometheus:9090"), "--prometheus prometheus:9090: give http://HOST:PORT"),
        (("--port", "99999"), "--port 99999 is too large: allowed up to 65535"),
    ],
)
def test_what_it_cannot_start_with_is_said_before_anything_is_asked(
    kubeconfig: str, home: Path, arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(home)
    if arguments:
        (home / "policy.yaml").write_text("{}")
    assert run(["observe", "--prometheus", URL, "--kubeconfig", kubeconfig, *arguments]) == 2
    assert said in capsys.readouterr().err


def test_who_has_no_kubeconfig_is_told_before_anything_else(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["observe", "--prometheus", URL]) == 2
    assert "no kubeconfig" in capsys.readouterr().err


def test_a_policy_that_is_none_ends_it_with_its_problems(kubeconfig: str, home: Path) -> None:
    """In a process of its own: the service sets up the log of the whole one."""
    (home / "policy.yaml").write_text("pools: 3")
    given = ["--policy", str(home / "policy.yaml"), "--folder", str(home / "journal"), "--kubeconfig", kubeconfig]
    ended = process("observe", "--prometheus", URL, *given)
    _, said = ended.communicate(timeout=50)
    assert ended.returncode == 1
    assert "policy.yaml" in said


def test_the_table_says_what_is_known_and_marks_what_is_not() -> None:
    past = Backfilled(
        0.0,
        DAY_SECONDS,
        (),
        (BUSY, BY_REQUESTS, UNSEEN),
        ("no answer within 60 s", "no answer within 60 s"),
        (PoolTogether("a100", 5.0, 8.25, 1234.5, ("image",)), PoolTogether("l40s", 1.0, 1.0)),
        QueryCost(12, 18.0, 2_500_000),
    )
    assert render_window(past).splitlines() == [
        "The last 1d0h in Prometheus:",
        "",
        "MODEL  GPUS  MOST   BUSY     P95  LATE  IDLE GPU-HOURS",
        "chat    6.0     8   62 %    90 %   3 %            54.0",
        "code    4.0     4  ~50 %  ~100 %     ?            12.0",
        "image     ?     ?      ?       ?     ?               ?",
        "all    10.0                                       66.0",
        "",
        "GPUS: held on the average.",
        "BUSY: of their time, on the average and in 95 of 100 steps at most.",
        "LATE: steps in which the latency was above the SLO.",
        "~: nobody tells how busy its GPUs were; a replica with a request in work counts.",
        "What sharing spares: GPUs with work at one time, in 95 of 100 steps at most.",
        (
            "  a100: 5.0 by all models together, 8.2 by each at its own busiest; GPUs without work cost 1,234 USD; "
            "nobody tells of image"
        ),
        "  l40s: 1.0 by all models together, 1.0 by each at its own busiest",
        "Nothing of image.",
        "That took 12 questions to Prometheus of 1.5 s on the average, and it looked at 2.5 million samples.",
        "Not read: no answer within 60 s",
    ]


def test_a_prometheus_that_knows_less_than_the_window_is_said_and_one_that_knows_nothing_too() -> None:
    assert "Prometheus has 6h0m of it." in render_window(Backfilled(0.0, DAY_SECONDS, (), (BY_REQUESTS,), ()))
    nothing = render_window(Backfilled(0.0, DAY_SECONDS, (), (UNSEEN,), ()))
    assert nothing.startswith("The last 1d0h in Prometheus: nothing of the policy's pods.")
    assert "rebalancer doctor" in nothing


def test_where_nobody_looks_progress_is_a_line_for_each_quarter(capsys: pytest.CaptureFixture[str]) -> None:
    progress = ProgressLine("Reading")
    for done in range(21):
        progress.at(done, 20)
    assert capsys.readouterr().err.splitlines() == [f"Reading: {done} of 20" for done in (0, 5, 10, 15, 20)]


def test_the_address_comes_first_and_a_reason_to_wait_is_told_once(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = ServiceSettings(kafka_enabled=False, prometheus_url=URL, api_auth="none", journal_dir=home)
    onlooker = TerminalOnlooker(settings)
    onlooker.serves(8080)
    for _ in range(3):
        onlooker.waits("nodes: forbidden: list nodes")
    onlooker.knows_nothing(f"{URL}: refused")
    said = capsys.readouterr()
    assert said.out.splitlines()[0] == "Console: http://127.0.0.1:8080/console/"
    assert "export REBALANCER_SERVER=http://127.0.0.1:8080" in said.out
    assert said.err.splitlines() == [
        "Waiting for nodes: forbidden: list nodes",
        f"warn  no past: {URL}: refused; it learns from now on",
    ]

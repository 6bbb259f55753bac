"""`rebalancer report` as a user runs it: the forms it has, and what it says when it cannot."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from rebalancer.app.backfill import Backfilled, store_past
from rebalancer.cli.commands.observe import OBSERVED
from rebalancer.cli.entry import run
from rebalancer.domain.memory import Memory
from rebalancer.domain.plan import Decision, Plan
from rebalancer.ingest.past.use import WindowUse
from rebalancer.obs import journal as lines
from rebalancer.obs.predictions import stored
from tests.builders import NOW, a_policy, a_snapshot
from tests.report.month import write_month

DAY_SECONDS = 86_400.0
Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("journal")
    write_month(folder, 13)
    return folder


def test_people_get_the_headline_first_and_the_table_after(journal: Path, capsys: Captured) -> None:
    assert run(["report", "--journal", str(journal)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("2027-01-01 00:00 UTC to 2027-01-01 01:00 UTC, 60 min, 13 cycles")
    assert "GPU-hours for 400 USD" in said[1]  # 160 GPUs for an hour, 2.50 USD each
    assert said[said.index("") + 1].split() == [
        "model",
        "GPU-h",
        "busy",
        "idle",
        "borr.",
        "lent",
        "other",
        "USD",
        "late",
        "alone",
    ]
    assert max(map(len, said)) <= 80


def test_what_prometheus_had_before_a_young_journal_stands_first_and_before_an_older_one_or_long_before_it_does_not(
    journal: Path, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Typed in the folder in which `rebalancer observe` was: it needs no other word."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("REBALANCER_JOURNAL_DIR", raising=False)
    OBSERVED.mkdir(parents=True)
    for file in journal.iterdir():
        (OBSERVED / file.name).write_bytes(file.read_bytes())
    day, begins = 86_400.0, 1_798_761_600.0  # the journal's first cycle: 2027-01-01T00:00:00Z
    use = WindowUse(
        "m00", hours=168.0, gpus=4.0, gpus_most=8, busy=0.5, busy_p95=0.75, by_gpus=True, idle_gpu_hours=336
    )
    for end, seconds, there in ((begins - 60.0, 7 * day, True), (begins - day, 7 * day, False), (begins, 60.0, False)):
        store_past(OBSERVED, Backfilled(end - seconds, end, (), (use,), ()))
        assert run(["report", "--last", "7d"]) == 0
        printed = capsys.readouterr().out
        assert printed.startswith("The last 7d0h in Prometheus:") is there
        assert ("That was before `rebalancer observe` began." in printed) is there
        assert ("m00     4.0     8  50 %  75 %     ?           336.0" in printed) is there


def test_before_the_first_cycle_the_past_of_prometheus_is_told_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("REBALANCER_JOURNAL_DIR", raising=False)
    store_past(OBSERVED, Backfilled(0.0, DAY_SECONDS, (), (WindowUse("chat", 24.0, 6.0, 8, busy=0.625),), ()))
    assert run(["report", "--last", "7d", "--quiet"]) == 0
    told = capsys.readouterr().out
    assert told.startswith("The last 1d0h in Prometheus:")
    assert "Nothing since `rebalancer observe` began: no journal in" in told
    assert run(["report", "--last", "7d", "--quiet", "--output", "json"]) != 0, "a script asks for the journal's"


def test_scripts_get_json_and_csv_and_a_page_goes_to_its_file(journal: Path, tmp_path: Path, capsys: Captured) -> None:
    page = tmp_path / "report.html"
    assert run(["report", "--journal", str(journal), "-o", "json", "--page", str(page)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["bill"]["residual_gpu_microseconds"], found["bill"]["capacity_gpu_hours"]) == (0, 160.0)
    assert page.read_text().endswith("</html>\n")
    assert run(["report", "--journal", str(journal), "-o", "csv", "--last", "30m"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert sum(int(row.split(",")[10]) for row in rows[1:]) == 160 * 30 * 60 * 1_000_000


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--last", "3x"], "--last 3x: a number and m, h, d or w"),
        (["--price", "h100"], "--price h100: write POOL_OR_TYPE=USD"),
        (["--price", "a1=2"], "no pool or instance type a1; there are h100, p5.48xlarge, p5e.48xlarge"),
        (["--prices", "/nowhere.csv"], "--prices /nowhere.csv: cannot be read (No such file or directory)"),
        (["--prices", __file__], "test_report.py: its first line must name since, instance_type, capacity_type, usd"),
        (["--page", "/nowhere/x.html"], "/nowhere/x.html: cannot be written"),
        (["--journal", "/nowhere"], "no journal in /nowhere"),
    ],
)
def test_what_cannot_be_is_said_with_the_way_out(
    arguments: list[str], said: str, journal: Path, capsys: Captured
) -> None:
    assert run(["report", "--journal", str(journal), *arguments]) != 0
    assert said in capsys.readouterr().err


@pytest.fixture
def over_midnight(tmp_path: Path) -> Path:
    """Ten minutes up to midnight UTC, and a look of the next day."""
    policy, midnight = a_policy(), (NOW // 86_400 + 1) * 86_400
    looks = [replace(a_snapshot(policy, {"a": 2, "b": 1}, work={"a": 1.0}), cycle=61 - n, at=midnight - 10.0 * n) for n in range(60, -1, -1)]  # noqa: E501  # fmt: skip
    put_in_force = lines.policy_line(policy, looks[0].at, "code")
    made = [lines.encode(put_in_force), *map(lines.encode, lines.keyframe(looks[0], Memory()))]
    for number, look in enumerate(looks):
        decision = Decision(Plan(look.cycle, look.at), Memory())
        made.append(lines.encode(lines.cycle_line(looks[max(0, number - 1)], look, decision, put_in_force.digest)))
    (tmp_path / "journal-000001.jsonl").write_bytes(b"".join(made))
    return tmp_path


def test_a_day_that_has_ended_is_predicted_stored_and_told(over_midnight: Path, capsys: Captured) -> None:
    path = over_midnight / "predictions.jsonl"
    words = ["report", "--journal", str(over_midnight), "--predictions", str(path)]
    assert run(words) == 0
    said = capsys.readouterr().out
    assert "Predicted of each day, and what came: " in said
    assert [each.model for each in stored(path)] == ["a", "b"]
    assert {each.seconds for each in stored(path)} == {590}
    assert run(words[:3]) == 0
    assert "Predicted of each day, and what came: " in capsys.readouterr().out
    assert run([*words, "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)["predictions"]
    assert [(each["model"], each["gpu_hours"]) for each in found] == [("a", pytest.approx(2 * 590 / 3600)), ("b", pytest.approx(590 / 3600))]  # noqa: E501  # fmt: skip


def test_predictions_that_cannot_be_written_are_a_sentence(over_midnight: Path, capsys: Captured) -> None:
    assert run(["report", "--journal", str(over_midnight), "--predictions", "/nowhere/x.jsonl"]) == 1
    assert "/nowhere/x.jsonl: cannot be written" in capsys.readouterr().err

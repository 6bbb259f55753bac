"""What a comparison of `rebalancer simulate` holds equal on both sides, and what it says of what it cannot play."""

from dataclasses import replace
from pathlib import Path

import pytest

from rebalancer.cli.commands.bundle.archive import packed
from rebalancer.cli.commands.simulate.simulation import Simulated, SimulationRequest, simulate
from rebalancer.cli.commands.simulate.speeds import Speeds, services
from rebalancer.cli.failure import Failed
from rebalancer.cli.terminal.talk import Talk
from tests.builders import NOW, a_model, a_policy
from tests.cli.test_simulate import HEADER, POLICY

REQUEST = SimulationRequest(
    trace="mine.csv",
    row_seconds=1,
    policy=Path("policy.yaml"),
    gpus=[],
    controller="static",
    compare="none",
    seed=0,
    traces=None,
    speeds=Speeds([], [], [], [], []),
    gpus_per_node=8,
    metrics_delay_seconds=None,
)


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with a policy and five minutes of traffic in which chat needs 6 of its 4 replicas."""
    monkeypatch.chdir(tmp_path)
    Path("policy.yaml").write_text(POLICY)
    rows = [f"{t},chat,4,6400,1200\n{t},vendor/code,1,800,200" for t in range(300)]
    Path("mine.csv").write_text("\n".join([HEADER, *rows]) + "\n")


def played(**changes: object) -> Simulated:
    return simulate(replace(REQUEST, **changes), Talk(quiet=False))  # type: ignore[arg-type]  # its fields


def test_another_figure_of_what_a_replica_carries_makes_no_replica_faster() -> None:
    Path("new.yaml").write_text(POLICY.replace("perReplica: 8", "perReplica: 16"))
    before, after = played(compare="new.yaml").runs
    assert after.outcome.violation == before.outcome.violation
    assert after.record.scenario.models[0].slots == before.record.scenario.models[0].slots == 10


def test_replicas_of_a_bundle_are_those_that_were_recorded_whatever_the_policy_says() -> None:
    recorded, other = (a_policy(a_model(signals={"concurrency": {"per_replica": carried}})) for carried in (4.0, 16.0))
    assert services(REQUEST.speeds, other, recorded)["b"].batch == 5
    assert services(replace(REQUEST.speeds, batch=["7"]), other, recorded)["b"].batch == 7
    assert services(REQUEST.speeds, other, a_policy(a_model("a")))["b"].batch == 20


@pytest.mark.parametrize("own", [{}, {"policy.yaml": b"fromAnotherVersion: 1\n"}], ids=["none", "unreadable"])
def test_a_bundle_plays_under_a_policy_of_ones_own_whatever_its_own_is(
    own: dict[str, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("theirs.tar.gz").write_bytes(packed({"traffic.csv": Path("mine.csv").read_bytes(), **own}, NOW))
    theirs, mine = (played(trace=name).runs[0] for name in ("theirs.tar.gz", "mine.csv"))
    assert theirs.outcome.violation == mine.outcome.violation
    note = "note: how fast replicas are is as policy.yaml says, since the bundle's policy cannot be read: "
    assert note in capsys.readouterr().err
    with pytest.raises(Failed, match=r"policy\.yaml"):
        played(trace="theirs.tar.gz", policy=None)


def test_requests_without_tokens_cost_nothing_and_that_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"{t},chat,900,0,0\n{t},vendor/code,1,800,200" for t in range(60)]
    Path("mine.csv").write_text("\n".join([HEADER, *rows]) + "\n")
    assert played().runs[0].outcome.models[0].violation == 0.0
    err = capsys.readouterr().err
    assert "note: no tokens in the trace for chat: their requests cost a replica nothing" in err
    assert "no tokens in the trace for chat, vendor/code" not in err


def test_of_a_trace_of_the_package_other_seeds_than_0_draw_other_traffic_of_the_same_shape() -> None:
    drawn = [
        played(trace="tides", policy=Path("tides.yaml"), seed=seed).result.runs[0].requests for seed in (0, 0, 1, 2)
    ]
    assert drawn[0] == drawn[1]
    assert len(set(drawn)) == 3
    assert drawn[1:] == pytest.approx([drawn[0]] * 3, rel=0.2)

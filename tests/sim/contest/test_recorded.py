"""A trace and a policy file become a scenario, or it is said why not."""

from time import process_time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.domain.policy import ModelDeferral, Policy
from rebalancer.settings.problems import check_text
from rebalancer.sim import data
from rebalancer.sim.contest.one_pool import one_pool
from rebalancer.sim.contest.recorded import ContestTerms, Unfit, read_demand, scenario_of, with_gpus
from rebalancer.sim.contest.replica import ReplicaSpeeds
from rebalancer.sim.data import generate
from rebalancer.sim.demand import DemandStreams, Stream
from rebalancer.world.traffic import BadTrace, Trace, read_trace
from tests.house.repository import ROOT

HEADER = "t_seconds,model,requests,input_tokens,output_tokens"


def policy(name: str = "surge") -> Policy:
    found, problems = check_text(data.policy(name), name)
    assert found is not None, problems
    return found


def demand(*models: str, seconds: int = 10) -> DemandStreams:
    ones = np.ones(seconds)
    return DemandStreams("made", tuple(Stream(model, ones, 800 * ones, 100 * ones) for model in models))


# --- traces


def test_four_thousand_models_are_read_as_fast_as_one() -> None:
    """Twice the time of as many rows of one model; some 60 times where each row's name is compared once per model."""
    made = [(second, number) for second in range(100) for number in range(4000)]
    of_one = "".join(f"{second},model,1,100,50\n" for second, _ in made)
    of_many = "".join(f"{second},model-{number},1,100,50\n" for second, number in made)
    begin = process_time()
    read_demand(f"{HEADER}\n{of_one}".encode(), "made")
    one_seconds = process_time() - begin
    read = read_demand(f"{HEADER}\n{of_many}".encode(), "made")
    print(f"{(process_time() - begin) / one_seconds - 1.0:.1f} times one model's seconds")  # noqa: T201  a figure
    assert process_time() - begin < 20.0 * one_seconds
    assert [stream.model for stream in read.streams] == sorted(f"model-{number}" for number in range(4000))
    assert {float(stream.requests.sum()) for stream in read.streams} == {100.0}


def test_a_shipped_trace_is_what_its_recipe_makes(capsys: pytest.CaptureFixture[str]) -> None:
    assert generate.main(["--check"]) == 0, capsys.readouterr().err


def test_a_trace_that_differs_from_its_recipe_is_noticed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generate, "SEED", 12)
    assert generate.main(["--check"]) == 1
    assert "is out of date; run: python -m rebalancer.sim.data.generate" in capsys.readouterr().err


def test_shipped_traces_are_small_and_their_policies_fit_them() -> None:
    assert sum(file.stat().st_size for file in (ROOT / "rebalancer/sim/data").glob("*.gz")) < 300_000
    for name in data.TRACES:
        scenario = scenario_of(policy(name), ContestTerms(read_demand(data.trace(name), name)))
        assert all(model.requests.sum() > 0 for model in scenario.models)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 400).map(lambda quarter: quarter / 4),
            st.sampled_from("ab"),
            st.integers(0, 9),
            st.integers(0, 999),
            st.integers(0, 999),
        ),
        min_size=1,
        max_size=30,
    )
)
def test_what_arrives_in_a_second_is_what_the_demos_reader_says(rows: list[tuple[float, str, int, int, int]]) -> None:
    text = "\n".join([HEADER, *(",".join(map(str, row)) for row in rows)])
    found = read_demand(text.encode(), "made")
    begin = float(int(min(row[0] for row in rows)))
    slow = {model: Trace(-begin, rows) for model, rows in read_trace(text.splitlines()).items()}
    for stream in found.streams:
        for second in range(found.seconds):
            amount = slow[stream.model].arrivals(second, second + 1)
            assert stream.requests[second] == pytest.approx(amount.count)
            assert stream.prompt_tokens[second] == pytest.approx(amount.prompt_tokens)
            assert stream.generated_tokens[second] == pytest.approx(amount.generated_tokens)


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 9)), min_size=1, max_size=9), st.integers(2, 20))
def test_a_row_that_speaks_of_several_seconds_is_spread_evenly_over_them(
    rows: list[tuple[int, int]], row_seconds: int
) -> None:
    text = "\n".join([HEADER, *(f"{4 * t},a,{count},{10 * count},0" for t, count in rows)])
    (found,) = read_demand(text.encode(), "made", row_seconds).streams
    begin = 4 * min(t for t, _ in rows)
    for second in range(len(found.requests)):
        now = [count for t, count in rows if 4 * t - begin <= second < 4 * t - begin + row_seconds]
        assert found.requests[second] == pytest.approx(sum(now) / row_seconds)
    assert found.requests.sum() == pytest.approx(sum(count for _, count in rows))
    assert found.prompt_tokens == pytest.approx(10 * found.requests)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "line 1: no column t_seconds"),
        (f"{HEADER}\n", "line 2: no rows"),
        (f"{HEADER}\n1,a,nan,2,3\n", "line 2: requests is 'nan'"),
        (f"{HEADER}\n1,a,1,-2,3\n", "line 2: input_tokens is '-2'"),
        (f"{HEADER}\n1,a,1,2\n", "line 2: output_tokens is None"),
        (f"{HEADER}\n1,a,1,2,3\n1,a,1,2,3,\n", "line 3: it has more cells than the header, which has 5"),
        (f"{HEADER}\n1,a,1_000,2,3\n", "line 2: requests is '1_000'"),
        (f"\ufeff{HEADER},requests\n1,a,1,2,3,4\n", "line 1: more than one column requests"),
        (f'{HEADER}\n1,a,1,2,"3\n4"\n', "line 3: output_tokens is '3\\\\n4'"),
        (f"\ufeff{HEADER}\n1,a,1,2,3\n2,a,x,2,3\n", "line 3: requests is 'x'"),
        (f"{HEADER}\n0,a,1,2,3\n99999999,a,1,2,3\n", "t_seconds goes over 1157 days, 31 are the most"),
    ],
)
def test_a_bad_trace_names_the_line(text: str, said: str) -> None:
    with pytest.raises(BadTrace, match=said):
        read_demand(text.encode(), "bad")


# --- scenarios


def test_a_model_gets_what_the_policy_says() -> None:
    scenario = scenario_of(
        policy(), ContestTerms(demand("chat", "code", "summary"), {"chat": ReplicaSpeeds(4000, 0.02, 50)})
    )
    chat = scenario.models[0]
    assert (chat.name, chat.first, chat.floor, chat.most, chat.gpus) == ("chat", 4, 2, 10, 2)
    assert (chat.start_seconds, chat.slo_wait_seconds, scenario.nodes) == (60, 2.0, (8, 8, 8))
    assert scenario.usd_per_gpu_hour == 2.0
    assert chat.work.tolist() == pytest.approx([800 / 4000 + 100 * 0.02 / 50] * 10)


def test_a_batch_model_has_its_deadline_and_nobody_leaves_it() -> None:
    due = {"deferral": ModelDeferral(deadline_seconds=900.0)}
    models = [each.model_copy(update=due if each.id == "summary" else {}) for each in policy().models]
    told = policy().model_copy(update={"models": tuple(models)})
    summary = scenario_of(told, ContestTerms(demand("summary"))).models[2]
    assert (summary.deferred, summary.slo_wait_seconds) == (True, 900.0)
    assert summary.patience_seconds >= 10 * summary.requests.size
    assert not scenario_of(told, ContestTerms(demand("chat"))).models[0].deferred


def test_a_full_replica_holds_a_quarter_more_than_it_carries_within_its_slo() -> None:
    assert ReplicaSpeeds().rates(policy().models[0]).batch == 40  # perReplica is 32
    assert ReplicaSpeeds(batch=7).rates(policy().models[0]).batch == 7


def test_an_alias_is_the_model_and_a_model_without_rows_is_silent() -> None:
    named = policy().model_copy(
        update={"models": tuple(each.model_copy(update={"aliases": (f"v/{each.id}",)}) for each in policy().models)}
    )
    scenario = scenario_of(named, ContestTerms(demand("chat", "v/chat")))
    assert [model.requests.sum() for model in scenario.models] == [20, 0, 0]


@pytest.mark.parametrize(
    ("models", "nodes", "said"),
    [
        (("other",), 8, "no model other in the policy; it has chat, code, summary"),
        (("chat",), 1, "a pod of chat holds 2 GPUs of one node, the largest node has 1; see --gpus-per-node"),
    ],
)
def test_what_does_not_go_together_is_said(models: tuple[str, ...], nodes: int, said: str) -> None:
    with pytest.raises(Unfit, match=said):
        scenario_of(policy(), ContestTerms(demand(*models), gpus_per_node=nodes))


def test_pools_are_played_as_one_with_all_their_gpus() -> None:
    text = (ROOT / "config/policy.yaml").read_text()
    found, _ = check_text(text, "config/policy.yaml")
    assert found is not None
    (pool,) = one_pool(found).pools
    assert pool.gpu_limit == sum(each.gpu_limit for each in found.pools)
    assert pool.kind == "primary"
    assert all(each.targets[0].pool == pool.name for each in one_pool(found).models)
    with pytest.raises(Unfit, match="the policy has the pools a100, l40s, spot: say which one, --gpus a100=40"):
        with_gpus(found, {None: 40})
    assert with_gpus(found, {"spot": 0}).pools[2].gpu_limit == 0

"""One replica, iteration by iteration, against arithmetic and against a slow model of the same rules."""

from collections import deque

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalancer.sim.batching.engine import BatchingEngine
from rebalancer.sim.batching.single import alone

pytestmark = pytest.mark.timeout(300)  # the first run compiles the kernel: 15 s of an idle core

PLAIN = BatchingEngine(
    prefill_per_second=1000.0,
    batches=(0, 1, 2, 4),
    seconds_at=(0.0, 0.010, 0.012, 0.020),
    kv_tokens=10_000,
    most_running=4,
    tokens_per_iteration=100,
)


def run(
    engine: BatchingEngine, *requests: tuple[float, int, int], patience_seconds: float = np.inf
) -> list[tuple[float, float]]:
    columns = list(zip(*requests, strict=True))
    log = alone(engine, np.array(columns[0], float), np.array(columns[1]), np.array(columns[2]), patience_seconds)
    return [(float(first), float(last)) for first, last in log]


def test_a_request_alone_takes_its_prompt_then_a_token_per_iteration() -> None:
    [(first, last)] = run(PLAIN, (0.0, 250, 5))
    assert first == pytest.approx(0.250)  # three parts of at most 100 tokens, nobody decodes beside them
    assert last == pytest.approx(0.250 + 4 * 0.010)


def test_who_decodes_gets_a_token_in_every_iteration_while_a_long_prompt_is_computed() -> None:
    (_, last), (first, _) = run(PLAIN, (0.0, 10, 4), (0.010, 300, 1))
    # Three iterations of one decoding request and 99 prompt tokens, then the prompt's last three.
    assert last == pytest.approx(0.010 + 3 * (0.010 + 0.099))
    assert first == pytest.approx(3 * (0.010 + 0.099) + 0.003)


def test_no_more_than_the_full_batch_run_and_the_others_wait_in_order() -> None:
    log = run(PLAIN, *[(0.0, 10, 3)] * 6)
    assert [first == pytest.approx(log[0][0]) for first, _ in log[:4]] == [True] * 4
    assert all(first > log[0][1] for first, _ in log[4:])


def test_a_full_cache_keeps_others_waiting() -> None:
    tight = BatchingEngine(1000.0, (1,), (0.010,), kv_tokens=150, most_running=4, tokens_per_iteration=100)
    (_, last), (first, _) = run(tight, (0.0, 90, 20), (0.0, 90, 2))
    assert first > last


def test_the_youngest_is_computed_again_when_the_cache_overflows_and_nobody_is_lost() -> None:
    tight = BatchingEngine(1000.0, (1,), (0.010,), kv_tokens=220, most_running=4, tokens_per_iteration=400)
    (_, older), (first, younger) = run(tight, (0.0, 90, 40), (0.0, 90, 40))
    assert first == pytest.approx(0.190)  # both started together
    assert younger > older + 0.090  # and one of them again, with what it had generated


def test_a_request_larger_than_the_cache_is_turned_away() -> None:
    assert np.isnan(run(PLAIN, (0.0, 10_001, 2))[0][1])


def test_clients_leave_a_queue_that_outlasts_their_patience() -> None:
    log = run(PLAIN, *[(0.0, 10, 200)] * 5, patience_seconds=1.0)
    assert not np.isnan([last for _, last in log[:4]]).any()
    assert np.isnan(log[4][0])


def test_attention_makes_later_tokens_dearer() -> None:
    reading = BatchingEngine(
        1000.0, (1,), (0.010,), kv_tokens=10_000, seconds_per_kv_token=1e-5, tokens_per_iteration=100
    )
    [(first, last)] = run(reading, (0.0, 50, 4))
    assert last - first == pytest.approx(3 * 0.010 + 1e-5 * (50 + 51 + 52))


def test_prompt_tokens_pay_for_those_before_them() -> None:
    pairs = BatchingEngine(
        1000.0, (0, 1), (0.0, 0.010), kv_tokens=10_000, seconds_per_pair=1e-6, tokens_per_iteration=100
    )
    [(first, _)] = run(pairs, (0.0, 200, 1))
    assert first == pytest.approx(0.200 + 1e-6 * 200**2 / 2)


def test_a_batch_that_nobody_measured_costs_what_the_lines_say() -> None:
    # Between two batches on their line, beyond the last on the last line, before the first what the first costs.
    engine = BatchingEngine(1000.0, (2, 4, 8), (0.010, 0.012, 0.020), kv_tokens=10_000, most_running=12)
    seconds = engine.decode_seconds()
    assert len(seconds) == 13
    assert seconds[[1, 2, 3, 8, 12]] == pytest.approx([0.010, 0.010, 0.011, 0.020, 0.028])


@pytest.mark.parametrize("engine", [{"batches": (2, 1), "seconds_at": (1.0, 2.0)}, {"tokens_per_iteration": 64}])
def test_an_engine_that_makes_no_sense_is_refused(engine: dict[str, object]) -> None:
    known: dict[str, object] = {"prefill_per_second": 1.0, "batches": (1,), "seconds_at": (1.0,), "kv_tokens": 1}
    with pytest.raises(ValueError, match=r"must rise|leaves no room"):
        BatchingEngine(**{**known, **engine})  # type: ignore[arg-type]  # what a person may pass


def slowly(  # noqa: C901  # the rules in one piece, to be read beside the kernel
    engine: BatchingEngine, requests: list[tuple[float, int, int]]
) -> list[float]:
    """When each request is over, told by lists and loops (for caches that never overflow)."""
    decode = engine.decode_seconds()
    coming, queue = deque(enumerate(requests)), deque[int]()
    prefilling: list[list[int]] = []
    decoding: list[list[int]] = []  # [request, tokens left, context]
    over = [np.nan] * len(requests)
    now = 0.0
    while coming or queue or prefilling or decoding:
        if not (queue or prefilling or decoding):
            now = max(now, coming[0][1][0])
        while coming and coming[0][1][0] <= now:
            queue.append(coming.popleft()[0])
        while queue and len(prefilling) + len(decoding) < engine.most_running:
            number = queue.popleft()
            prefilling.append([number, requests[number][1]])
        room = engine.tokens_per_iteration - len(decoding)
        taking = decode[len(decoding)] + engine.seconds_per_kv_token * sum(context for _, _, context in decoding)
        read = []
        for item in prefilling:
            some = min(room, item[1])
            room -= some
            taking += some / engine.prefill_per_second
            item[1] -= some
            read.append(item)
        now += taking
        for item in decoding:
            item[1] -= 1
            item[2] += 1
            if item[1] == 0:
                over[item[0]] = now
        decoding = [item for item in decoding if item[1]]
        for number, left in read:
            if left == 0:
                _, prompt, tokens = requests[number]
                if tokens == 1:
                    over[number] = now
                else:
                    decoding.append([number, tokens - 1, prompt])
        prefilling = [item for item in prefilling if item[1]]
    return over


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0.0, 2.0), st.integers(1, 300), st.integers(1, 60)), min_size=1, max_size=25).map(
        sorted
    )
)
def test_the_kernel_does_what_lists_and_loops_do(requests: list[tuple[float, int, int]]) -> None:
    engine = BatchingEngine(
        prefill_per_second=1000.0,
        batches=(0, 1, 2, 4),
        seconds_at=(0.002, 0.010, 0.012, 0.020),
        kv_tokens=10_000,
        seconds_per_kv_token=1e-5,
        most_running=4,
        tokens_per_iteration=100,
    )
    log = run(engine, *requests)
    expected = slowly(engine, requests)
    assert [arrived + last for (arrived, *_), (_, last) in zip(requests, log, strict=True)] == pytest.approx(expected)

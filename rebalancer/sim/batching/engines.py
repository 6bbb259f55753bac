"""Engines of the suite's models, and those calibrated on published profiles."""

from dataclasses import dataclass

from rebalancer.sim.batching.engine import BatchingEngine


@dataclass(frozen=True, slots=True)
class Served:
    """How one model is served: its engine, its objective for a time per token, and what its trace stands for.

    Measured values of `spread`: prompts 1.0 and answers 1.6-1.8 over ServeGen's clients by rate (0.4 and 0.65 within
    one client; half of the requests come from clients whose lengths are published); within a second 1.3 and 0.8 in
    Azure's code trace, 1.0 and 0.8 in its conversations. It hardly matters: S2's worst two hours with nobody scaling
    have 38.5 % late with 0.4, 38.0 with 1.0, 37.4 with 1.5.

    engine: what each of its replicas can do.
    scale: requests that each recorded one stands for, more than 1 for a thinned trace.
    slo_token_seconds: objective for a request's mean seconds per token, counted from its first token on.
    spread: standard deviation of the logarithm of token lengths within a second; 0: all of a second are alike.
    """

    engine: BatchingEngine
    scale: float = 1.0
    slo_token_seconds: float = 0.060
    spread: float = 1.0

    @property
    def work_per_token(self) -> float:
        """Replica-seconds of a token where the batch is full: the fluid form's time per token over the batch."""
        return float(self.engine.decode_seconds()[-1]) / self.engine.most_running


def shaped(prefill_per_second: float, seconds_per_token: float, batch: int, kv_tokens: int) -> BatchingEngine:
    """An engine that takes `seconds_per_token` with a full batch, less with a smaller one.

    The shape is that of Splitwise's medians for a 70B model on four H100: 0.56 of it for one request, 0.70 for half a
    batch. With a full batch an iteration costs what the fluid form says. 2,048 tokens an iteration: 512 would admit
    prompts too slowly to fill the batch of a model with short answers, and leave a fifth of the fluid form's capacity.
    """
    return BatchingEngine(
        prefill_per_second,
        batches=(0, 1, batch // 2, batch),
        seconds_at=(0.0, 0.56 * seconds_per_token, 0.70 * seconds_per_token, seconds_per_token),
        kv_tokens=kv_tokens,
        most_running=batch,
        tokens_per_iteration=2048,
    )


# Llama-2-7B in 16 bits, calibrated on 14 of the 280 cells (prompt, tokens, requests per second) of AIBrix's profile of
# each GPU; tests/sim/batching/test_profiles.py lists them and checks all others. They are what the hardware says:
# 13.5 GB of weights read at 1.4 and 0.5 TB/s, 0.52 MB of cache per token read at 1.7 and 0.6 TB/s, and a cache of what
# 80 and 48 GB leave beside the weights.
LLAMA2_7B = {
    "a100": BatchingEngine(
        prefill_per_second=21_590,
        batches=(1, 128),
        seconds_at=(0.009879, 0.013649),
        kv_tokens=116_600,
        seconds_per_kv_token=3.176e-7,
        seconds_per_pair=1.106e-8,
        most_running=128,
    ),
    "a40": BatchingEngine(
        prefill_per_second=11_450,
        batches=(1, 128),
        seconds_at=(0.02644, 0.032345),
        kv_tokens=55_690,
        seconds_per_kv_token=8.979e-7,
        seconds_per_pair=2.043e-8,
        most_running=128,
    ),
}

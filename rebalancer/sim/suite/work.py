"""How many replica-seconds requests cost: the fluid form of a replica that batches continuously."""

from dataclasses import dataclass

from rebalancer.sim.demand import F64, Stream


@dataclass(frozen=True, slots=True)
class TokenRates:
    """How fast one replica serves.

    prefill_per_second: prompt tokens that it processes per second.
    seconds_per_token: seconds from one generated token of a request to the next, with a full batch.
    batch: requests that a full batch generates tokens for at once.
    scale: factor on the work, not on the requests: a trace that was thinned stands for the whole of its traffic.
    """

    prefill_per_second: float
    seconds_per_token: float
    batch: int
    scale: float = 1.0

    def work(self, stream: Stream) -> F64:
        """Replica-seconds that arrive in each second; shape (seconds,)."""
        each = self.seconds_per_token / self.batch
        return self.scale * (stream.prompt_tokens / self.prefill_per_second + stream.generated_tokens * each)

"""What a replica of the simulator does, by what the policy says of its model."""

from dataclasses import dataclass

from rebalancer.domain.policy import Model
from rebalancer.sim.suite.work import TokenRates

BATCH = 64
FULL_SHARE = 0.8  # of a full replica's requests: what it carries within its SLO


@dataclass(frozen=True, slots=True)
class ReplicaSpeeds:
    """What one replica of a model does.

    prefill_tokens_per_second: prompt tokens that it computes per second.
    seconds_per_token: seconds from one token of a request to its next while the batch is full.
    batch: requests that it decodes at once when it is full; None: 1.25 x the policy's `concurrency.perReplica`, which
        is what a replica carries within its SLO, and 64 where the policy has none.
    release_seconds: seconds from being asked to go until its GPUs are free.
    patience_seconds: seconds of waiting after which a client leaves; no client leaves a model with a deadline.
    """

    prefill_tokens_per_second: float = 8000.0
    seconds_per_token: float = 0.04
    batch: int | None = None
    release_seconds: int = 5
    patience_seconds: float = 30.0

    def rates(self, of: Model) -> TokenRates:
        """How fast a replica of that model works."""
        figure = of.signals.concurrency.per_replica if of.signals.concurrency else None
        by_policy = BATCH if figure is None else max(1, round(figure / FULL_SHARE))
        return TokenRates(self.prefill_tokens_per_second, self.seconds_per_token, self.batch or by_policy)

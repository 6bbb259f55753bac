"""How one model serves: a fluid line of requests, each replica serving a bounded number at a time.

Nothing is sampled per request: what is inside moves as a whole, so every quantile of a latency is its mean.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Requests:
    """An amount of requests with their tokens; fractions are meant, this is a fluid."""

    count: float = 0.0
    prompt_tokens: float = 0.0
    generated_tokens: float = 0.0

    def __add__(self, other: "Requests") -> "Requests":
        return Requests(
            self.count + other.count,
            self.prompt_tokens + other.prompt_tokens,
            self.generated_tokens + other.generated_tokens,
        )

    def times(self, share: float) -> "Requests":
        """The requests and their tokens, multiplied by `share`."""
        return Requests(self.count * share, self.prompt_tokens * share, self.generated_tokens * share)


@dataclass(frozen=True, slots=True)
class Engine:
    """What one replica can do, and how long clients wait for it.

    concurrency: requests that it serves at a time.
    prompt_tokens_per_second: tokens of a request's prompt that it reads per second, whatever else it serves.
    seconds_per_token: seconds that it takes for each token that it generates for a request.
    patience_seconds: seconds that clients wait for a replica to take them; whoever would wait longer gives up.
    """

    concurrency: float = 8.0
    prompt_tokens_per_second: float = 8000.0
    seconds_per_token: float = 0.04
    patience_seconds: float = 30.0

    def first_token_seconds(self, some: Requests) -> float:
        """From a request's start to its first token, mean over `some`."""
        return some.prompt_tokens / some.count / self.prompt_tokens_per_second if some.count else 0.0

    def service_seconds(self, some: Requests) -> float:
        """From a request's start to its end, mean over `some`; at least 1 ms."""
        tokens = some.generated_tokens / some.count if some.count else 0.0
        return max(0.001, self.first_token_seconds(some) + tokens * self.seconds_per_token)


class WaitingLine:
    """One model's requests: waiting, running, and what became of the others.

    `late`: requests that came while the first token took longer than `slo_seconds`, or nobody served; without an SLO,
    those that gave up.
    """

    def __init__(self, engine: Engine, slo_seconds: float | None = None) -> None:
        self.engine = engine
        self.slo_seconds = slo_seconds
        self.inside = Requests()
        self.running = 0.0
        self.arrived = Requests()
        self.served = Requests()
        self.gave_up = 0.0
        self.late = 0.0
        self.width = 0.0
        self._arrivals_per_second = 0.0  # smoothed over the clients' patience

    @property
    def waiting(self) -> float:
        """Requests inside that no replica serves yet."""
        return max(0.0, self.inside.count - self.running)

    @property
    def finished(self) -> float:
        """Requests that are over, served or given up."""
        return self.served.count + self.gave_up

    @property
    def utilisation(self) -> float | None:
        """Share of the slots in use; None without replicas."""
        return self.running / self.width if self.width else None

    @property
    def wait_seconds(self) -> float | None:
        """How long who comes now waits for a slot; None without replicas."""
        if not self.width:
            return None
        return self.waiting * self.engine.service_seconds(self.inside) / self.width

    @property
    def latencies(self) -> tuple[float, float] | None:
        """Seconds to the first token and to the last; None without replicas."""
        wait = self.wait_seconds
        if wait is None:
            return None
        return wait + self.engine.first_token_seconds(self.inside), wait + self.engine.service_seconds(self.inside)

    @property
    def in_time(self) -> bool:
        """Whether who comes now gets a first token within the SLO; always where there is none."""
        latencies = self.latencies
        return self.slo_seconds is None or (latencies is not None and latencies[0] <= self.slo_seconds)

    def flow(self, arriving: Requests, replicas: int, seconds: float) -> Requests:
        """Let `seconds` pass with that many Ready replicas; returns what they served.

        An implicit Euler step: at rest exactly rate x service time are running, a full line is served at exactly the
        replicas' rate, and nothing is lost, however long the step.
        """
        self.arrived += arriving
        total = self.inside + arriving
        self.width = replicas * self.engine.concurrency
        turns = seconds / self.engine.service_seconds(total)
        self.running = min(total.count / (1 + turns), self.width)
        share = self.running * turns / total.count if total.count else 0.0
        served = total.times(share)
        self.inside = total.times(1 - share)
        self.served += served
        news = min(1.0, seconds / self.engine.patience_seconds)
        self._arrivals_per_second += news * (arriving.count / seconds - self._arrivals_per_second)
        self._judge(arriving)
        self._give_up()
        return served

    def _judge(self, arriving: Requests) -> None:
        """Count those that just came where they are late: they wait as long as the line says now."""
        if not self.in_time:
            self.late += arriving.count

    def _give_up(self) -> None:
        """Who would wait longer than clients do has left; without replicas, who came before that."""
        rate = self.width / self.engine.service_seconds(self.inside) if self.width else self._arrivals_per_second
        leaving = self.waiting - rate * self.engine.patience_seconds
        if leaving > 0:
            self.gave_up += leaving
            if self.slo_seconds is None:
                self.late += leaving
            self.inside = self.inside.times(1 - leaving / self.inside.count)

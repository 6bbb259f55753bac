"""How many tokens a model reads and writes in a second, as its counters show it; for money, and no decision."""

from math import isnan
from typing import NamedTuple

from rebalancer.domain.events import MetricSample
from rebalancer.domain.readings import TokenRate
from rebalancer.state.pace import PROMPT_SHARE
from rebalancer.state.series import Arrivals

FRESH_INTERVALS = 3.0  # a pod that was silent for longer adds nothing


class _PodTokens(NamedTuple):
    """What was told last of a pod or of the whole: until when it is good, and the rates."""

    good_until: float
    prompt: float
    generated: float


class TokenFlow:
    """The newest rates of one model, by pod; "" is the model as a whole, which counts before its pods."""

    def __init__(self) -> None:
        self._by_pod: dict[str, _PodTokens] = {}
        self._newest_at = 0.0

    def took(self, sample: MetricSample, came: Arrivals) -> None:
        """What the counters changed by since their producer's sample before; of several producers the latest counts."""
        since, until, tokens, read = came[0], came[1], came[6], came[7]
        prompt = 0.0 if isnan(read) else read
        generated = tokens - PROMPT_SHARE * prompt
        if prompt < 0.0 or not generated >= 0.0 or not until > since:
            return
        self._newest_at = max(self._newest_at, until)
        good_until = until + FRESH_INTERVALS * max(until - since, sample.interval_seconds)
        seconds = until - since
        self._by_pod[sample.pod or ""] = _PodTokens(good_until, prompt / seconds, generated / seconds)

    @property
    def now(self) -> TokenRate | None:
        """Tokens per second of all pods that were told of lately; None where nobody counts them."""
        self._by_pod = {whose: one for whose, one in self._by_pod.items() if one.good_until >= self._newest_at}
        if not self._by_pod:
            return None
        whole = self._by_pod.get("")
        every = self._by_pod.values() if whole is None else (whole,)
        return TokenRate(round(sum(each.prompt for each in every), 1), round(sum(each.generated for each in every), 1))

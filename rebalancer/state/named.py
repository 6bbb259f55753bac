"""Whose a metric sample is where its pod says so, and not its model's name."""

from collections import Counter
from collections.abc import Callable, Iterator

from msgspec.structs import replace

from rebalancer.domain.events import MetricSample
from rebalancer.state.holdings import Holdings

ModelOf = Callable[[str], str | None]  # UID of a pod -> its model; None: nobody's


def named(
    sample: MetricSample, holdings: Holdings, model_of: ModelOf, counters: Counter[str]
) -> Iterator[MetricSample]:
    """The sample with its model and its pod's UID, of a launcher as its requester's; none where nobody has the pod.

    What is nobody's is counted: unbound-launcher, unknown-pod.
    """
    samples = holdings.bindings.attributed(sample) if sample.namespace is None else (sample,)
    counters["unbound-launcher"] += not samples
    for one in samples:
        known = one if one.model else _of_pod(one, holdings, model_of)
        if known is None:
            counters["unknown-pod"] += 1
        else:
            yield known


def _of_pod(sample: MetricSample, holdings: Holdings, model_of: ModelOf) -> MetricSample | None:
    """None where nobody has the pod, or it began after `at`; without a namespace it is told by its UID."""
    pod = sample.pod or ""
    if sample.namespace is None:
        model = model_of(pod)
        return None if model is None else replace(sample, model=model)
    known = holdings.pod_named(sample.namespace, pod)
    if known is None or sample.at < known[2]:
        return None
    return replace(sample, model=known[0], pod=known[1], namespace=None)

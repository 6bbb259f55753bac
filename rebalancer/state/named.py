"""Finds the model of a metric sample that names only its pod."""

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

    What is nobody's is counted: unbound-launcher, unknown-pod, older-than-pod.
    """
    samples = holdings.bindings.attributed(sample) if sample.namespace is None else (sample,)
    counters["unbound-launcher"] += not samples
    for one in samples:
        known = one if one.model else _of_pod(one, holdings, model_of)
        if isinstance(known, MetricSample):
            yield known
        else:
            counters[known] += 1


def _of_pod(sample: MetricSample, holdings: Holdings, model_of: ModelOf) -> MetricSample | str:
    """The sample with its model, else the counter that it goes to: `unknown-pod`, or `older-than-pod`.

    `older-than-pod`: the pod was created, or bound to its requester, after the sample. Without a namespace, `pod` is a
    UID.
    """
    pod = sample.pod or ""
    if sample.namespace is None:
        model = model_of(pod)
        return "unknown-pod" if model is None else replace(sample, model=model)
    known = holdings.pod_named(sample.namespace, pod)
    if known is None:
        return "unknown-pod"
    model, uid, since = known
    return "older-than-pod" if sample.at < since else replace(sample, model=model, pod=uid, namespace=None)

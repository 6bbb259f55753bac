"""Traps in the triggers of ScaledObjects. Facts are from KEDA's source at 2.21, `pkg/scalers` and `CHANGELOG.md`."""

import re
from collections.abc import Iterator
from typing import Final

from rebalancer.ingest.objects.autoscalers import FALSE_WORDS
from rebalancer.survey.case import Case
from rebalancer.survey.finding import FAIL, WARN
from rebalancer.survey.objects import Object
from rebalancer.survey.parts import items, mapped, number, part, text, whole
from rebalancer.survey.traps.trap import Trap, Verdict, found_if

_AVERAGE = re.compile(r"^\s*(avg|avg_over_time|quantile|histogram_quantile|max|min)\b")
_BARE = re.compile(r"^\s*[a-zA-Z_:][\w:]*\s*(\{[^}]*\})?\s*$")
_ACTIVATION = "activation"

METRIC_NAME_TYPES: Final = frozenset(
    {
        "aws-cloudwatch",
        "azure-monitor",
        "elasticsearch",
        "huawei-cloudeye",
        "mysql",
        "opensearch",
        "solarwinds",
        "external",
        "external-push",
    }
)
"""Triggers that read `metricName` still, or hand all metadata on to a scaler of the user's own."""

IGNORED: Final = {  # (type, field) -> since which KEDA nobody reads it, and what to write instead
    ("prometheus", "cortexOrgID"): ("2.15", "customHeaders: X-Scope-OrgID=..."),
    ("external", "tlsCertFile"): ("2.17", "caCert in a TriggerAuthentication"),
    ("external-push", "tlsCertFile"): ("2.17", "caCert in a TriggerAuthentication"),
    ("pulsar", "msgBacklog"): ("2.16", "msgBacklogThreshold"),
    ("ibmmq", "tls"): ("2.20", "unsafeSsl"),
}
REFUSED: Final = {  # the scaler ends with an error when the field is there
    ("cpu", "type"): ("2.18", "metricType"),
    ("memory", "type"): ("2.18", "metricType"),
    ("huawei-cloudeye", "minMetricValue"): ("2.20", "activationTargetMetricValue"),
    ("gcp-pubsub", "subscriptionSize"): ("2.20", "mode: SubscriptionSize and value"),
}


def scaled_objects(case: Case) -> Iterator[Object]:
    """ScaledObjects that move accelerators, or may."""
    return (each for each in case.survey.of("ScaledObject", "keda.sh") if case.concerns(each))


def by_average(case: Case) -> Iterator[Verdict]:
    """An average divided by the replicas once more: KEDA's default metricType is AverageValue.

    With a formula the triggers' own types do not count.
    """
    for scaled in scaled_objects(case):
        formula = text(scaled, "spec", "advanced", "scalingModifiers", "formula")
        for place, trigger in _prometheus(scaled):
            average = _AVERAGE.match(text(trigger, "metadata", "query"))
            divided = (text(trigger, "metricType") or "AverageValue") == "AverageValue" and not formula
            problem = (
                f"trigger {place} divides {average[1] if average else ''}() by the replicas: metricType AverageValue"
            )
            yield found_if(bool(average and divided), scaled, problem, f"spec.triggers[{place}].metricType: Value")


def series_per_pod(case: Case) -> Iterator[Verdict]:
    """A query of more than one element is an error to KEDA."""
    for scaled in scaled_objects(case):
        for place, trigger in _prometheus(scaled):
            query = " ".join(text(trigger, "metadata", "query").split())
            many = whole(scaled, "spec", "maxReplicaCount") != 1
            problem = (
                f"trigger {place} asks for a bare series: with one for each pod KEDA takes the answer for an error"
            )
            fix = f"spec.triggers[{place}].metadata.query: sum({query})"
            yield found_if(bool(many and query and _BARE.match(query)), scaled, problem, fix)


def vanished_is_zero(case: Case) -> Iterator[Verdict]:
    """A series that is gone counts as 0, and fallback never acts."""
    for scaled in scaled_objects(case):
        for place, trigger in _prometheus(scaled):
            ignores = text(trigger, "metadata", "ignoreNullValues") not in FALSE_WORDS
            problem = f"trigger {place} takes a series that is gone for 0: an outage of the exporter scales down"
            yield found_if(ignores, scaled, problem, f'spec.triggers[{place}].metadata.ignoreNullValues: "false"')


def ignored_fields(case: Case) -> Iterator[Verdict]:
    """Fields that no version of KEDA in use reads."""
    yield from _fields(case, refused=False)


def refused_fields(case: Case) -> Iterator[Verdict]:
    """Fields on which the scaler ends."""
    yield from _fields(case, refused=True)


def dead_activation(case: Case) -> Iterator[Verdict]:
    """Activation is for 0 to 1 alone."""
    for scaled in scaled_objects(case):
        awake = never_idle(scaled)
        for place, trigger in enumerate(items(scaled, "spec", "triggers")):
            for key in mapped(trigger, "metadata"):
                if key.startswith(_ACTIVATION):
                    problem = f"trigger {place}: {key} says when to leave 0, and this one is never at 0"
                    yield found_if(awake, scaled, problem, f"remove spec.triggers[{place}].metadata.{key}")


def late_activation(case: Case) -> Iterator[Verdict]:
    """What sleeps wakes only above the activation value."""
    for scaled in scaled_objects(case):
        for place, trigger in enumerate(items(scaled, "spec", "triggers")):
            metadata = mapped(trigger, "metadata")
            for key in [each for each in metadata if each.startswith(_ACTIVATION)]:
                plain = key.removeprefix(_ACTIVATION)
                plain = plain[:1].lower() + plain[1:]
                wakes, full = number(metadata[key]), number(metadata.get(plain, ""))
                late = not never_idle(scaled) and wakes is not None and full is not None and wakes > full
                problem = (
                    f"trigger {place}: asleep until the value is above {metadata[key]}, "
                    f"though {metadata.get(plain, '')} is work for a replica"
                )
                yield found_if(late, scaled, problem, f'spec.triggers[{place}].metadata.{key}: "0"')


def _fields(case: Case, *, refused: bool) -> Iterator[Verdict]:
    table = REFUSED if refused else IGNORED
    for scaled in scaled_objects(case):
        for place, trigger in enumerate(items(scaled, "spec", "triggers")):
            kind, metadata = text(trigger, "type"), part(trigger, "metadata")
            removed = [(field, *table[kind, field]) for field in metadata if (kind, field) in table]
            if not refused and "metricName" in metadata and kind not in METRIC_NAME_TYPES:
                removed.append(("metricName", "2.12", f"spec.triggers[{place}].name, where a name is wanted"))
            for field, since, instead in removed:
                what = "which refuses the trigger" if refused else "and nobody reads it"
                problem = f"trigger {place} ({kind}): {field} was removed in KEDA {since}, {what}"
                yield Verdict(scaled, problem, f"remove spec.triggers[{place}].metadata.{field}; instead {instead}")
            if not removed:
                yield Verdict(scaled)


def _prometheus(scaled: Object) -> Iterator[tuple[int, Object]]:
    for place, trigger in enumerate(items(scaled, "spec", "triggers")):
        if text(trigger, "type") == "prometheus":
            yield place, trigger


def never_idle(scaled: Object) -> bool:
    """Whether KEDA never takes it to 0 or to an idle count."""
    return (whole(scaled, "spec", "minReplicaCount") or 0) > 0 and "idleReplicaCount" not in part(scaled, "spec")


TRAPS: Final = (
    Trap(
        "average-value",
        FAIL,
        "KEDA's default metricType AverageValue divides by the replicas: an average of at most 100 % over a threshold "
        "of 70 asks for 2 replicas, whatever the load.",
        "Set the trigger's metricType to Value, or give the query a sum.",
        by_average,
    ),
    Trap(
        "bare-series",
        WARN,
        "KEDA takes a Prometheus answer of more than one element for an error; a query without a sum has one element "
        "for each pod.",
        "Put an aggregation around the series.",
        series_per_pod,
    ),
    Trap(
        "vanished-is-zero",
        WARN,
        "ignoreNullValues is true by default: a series that vanished is 0, which scales down, and fallback never acts.",
        'Set ignoreNullValues to "false", and a fallback beside it.',
        vanished_is_zero,
    ),
    Trap(
        "dead-field",
        WARN,
        "KEDA removed the field; a trigger that has it still works, without it.",
        "Remove it, and write what follows it.",
        ignored_fields,
    ),
    Trap(
        "refused-field",
        FAIL,
        "KEDA removed the field, and a trigger that has it ends with an error.",
        "Remove it, and write what follows it.",
        refused_fields,
    ),
    Trap(
        "dead-activation",
        WARN,
        "Activation values are for 0 to 1 alone; at a minimum above 0 they do nothing.",
        "Remove them.",
        dead_activation,
    ),
    Trap(
        "late-activation",
        WARN,
        "A model at 0 wakes when the value is above the activation value; above the threshold of one replica it sleeps "
        "through work for a whole one.",
        "Activate at 0, or well below the threshold.",
        late_activation,
    ),
)

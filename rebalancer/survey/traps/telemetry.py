"""Traps in alert rules and in what exports the figures of GPUs."""

import re
from collections.abc import Iterator
from typing import Final

from rebalancer.ingest.engines import UNREAD
from rebalancer.ingest.promql import MOST_WINDOW_SECONDS, SCRAPES, with_own
from rebalancer.survey.case import Case
from rebalancer.survey.finding import WARN
from rebalancer.survey.objects import Object
from rebalancer.survey.parts import duration_seconds, items, namespace, part, text, words
from rebalancer.survey.templates import Template, templates_of
from rebalancer.survey.traps.trap import Trap, Verdict, found_if

_LABELS = r"\s*(?:\{[^}]*\})?\s*\)?\s*"
_JOIN = r"(?:(?:on|ignoring|group_left|group_right)\s*\([^)]*\)\s*)*"
_AGGREGATE = r"(?:\w+\s*(?:(?:by|without)\s*\([^)]*\)\s*)?\(\s*)?"
_USED_OVER_FREE = re.compile(
    rf"DCGM_FI_DEV_FB_USED{_LABELS}(?:(?:by|without)\s*\([^)]*\)\s*)?/\s*{_JOIN}{_AGGREGATE}"
    r"DCGM_FI_DEV_FB_FREE(?!\s*(?:\{[^}]*\})?\s*\)?\s*\+)"
)
_ABOVE = re.compile(r">=?\s*(\d+(?:\.\d+)?)\s*$")
_MEMORY = re.compile(r"mem|vram|fb", re.IGNORECASE)
HIGHEST_RATIO: Final = 10.0
"""Above, a limit is taken for percent: used over free is 10 when 91 % of the memory is used."""

MOST_QUERY_CHARACTERS: Final = 4000
"""A longer query is not looked at: anybody who may make a ScaledObject writes one, and the patterns take their time."""

_NOT_LONGER = f" A query of more than {MOST_QUERY_CHARACTERS:,} characters is not looked at."

SEEN_SECONDS: Final = MOST_WINDOW_SECONDS / SCRAPES
"""The service asks for rates over four scrapes, and over 5 min at most."""

_TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})


def used_over_free(case: Case) -> Iterator[Verdict]:
    """Used over free is no share: 0.9 of it is 47 % of the memory."""
    for obj, place, query in _queries(case):
        above = _ABOVE.search(query)
        limit = float(above[1]) if above else None
        if limit is not None and limit > HIGHEST_RATIO:
            limit /= 100
        at = (
            f" > {above[1]} holds from {limit / (1 + limit):.0%} of the memory on"
            if above and limit is not None
            else ""
        )
        problem = (
            f"{place}: FB_USED / FB_FREE is no share{at or ' of the memory'}; engines fill some 90 % at their start"
        )
        fix = f"{place}: DCGM_FI_DEV_FB_USED / (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE)"
        yield found_if(bool(_USED_OVER_FREE.search(query)), obj, problem, fix)


def bandwidth_for_memory(case: Case) -> Iterator[Verdict]:
    """MEM_COPY_UTIL tells how busy the memory's bus is, not how full the memory."""
    for rule, place, query in _queries(case):
        named = _MEMORY.search(place.partition(" ")[2]) is not None
        problem = f"{place}: DCGM_FI_DEV_MEM_COPY_UTIL is the memory's bandwidth, not how full it is"
        fix = f"{place}: DCGM_FI_DEV_FB_USED / (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE)"
        yield found_if(named and "DCGM_FI_DEV_MEM_COPY_UTIL" in query, rule, problem, fix)


def exporter_without_pods(case: Case) -> Iterator[Verdict]:
    """dcgm-exporter names the pod of a GPU only when it is told to ask the kubelet."""
    for obj in case.survey.of("DaemonSet", "apps"):
        for template in templates_of(obj):
            for container in items(template.spec, "containers"):
                if "dcgm-exporter" not in text(container, "image") or items(container, "envFrom"):
                    continue
                variable = {text(each, "name"): each for each in items(container, "env")}.get(
                    "DCGM_EXPORTER_KUBERNETES", {}
                )
                flags = {"-k", "--kubernetes", "--kubernetes=true"} & {
                    *words(container, "args"),
                    *words(container, "command"),
                }
                by_env = text(variable, "value") in _TRUE or "valueFrom" in variable
                problem = (
                    "dcgm-exporter is not told to name pods: its series have no pod label, and no model is behind them"
                )
                fix = f'{template.place}.containers[].env: DCGM_EXPORTER_KUBERNETES: "true"'
                yield found_if(not flags and not by_env, obj, problem, fix)


def scraped_too_seldom(case: Case) -> Iterator[Verdict]:
    """Rates over 5 min need four scrapes in it."""
    for kind, endpoints in (("PodMonitor", "podMetricsEndpoints"), ("ServiceMonitor", "endpoints")):
        for monitor in case.survey.of(kind, "monitoring.coreos.com"):
            if any(each.on_gpus for each in _scraped(case, monitor)):
                slow = [
                    interval
                    for each in items(monitor, "spec", endpoints)
                    if (duration_seconds(interval := text(each, "interval")) or 0.0) > SEEN_SECONDS
                ]
                problem = (
                    f"scrapes models every {', '.join(slow)}, too seldom for rates over 5 min, so latency is not seen"
                )
                yield found_if(bool(slow), monitor, problem, f"spec.{endpoints}[].interval: 15s")


def series_of_no_pod(case: Case) -> Iterator[Verdict]:
    """Series that name no pod of ours are no reading of anybody."""
    if case.series is None:
        return
    serving = _serving(case)
    run = "1 pod with GPUs runs" if len(serving) == 1 else f"{len(serving)} pods with GPUs run"
    for each in with_own(case.policy.metrics.maps if case.policy else ()) if serving else ():
        present = {metric: named for metric, named in case.series.items() if metric in each.names}
        if each.model_label is None and present:
            pods = frozenset[tuple[str, str]]().union(*present.values())
            named = f"they name {', '.join(sorted('/'.join(pod) for pod in pods)[:3])}" if pods else "they name no pod"
            problem = f"{run}, and no series of {each.name} names one of them; {named}"
            fix = "a PodMonitor for models, or labels that docs/metrics.md names; relabel others to namespace and pod"
            yield found_if(not pods & serving, _series(min(present)), problem, fix)


def unread_exporters(case: Case) -> Iterator[Verdict]:
    """Exporters that are known, and of which no map reads anything."""
    for metric, problem in UNREAD.items() if _serving(case) else ():
        if metric in (case.series or {}):
            yield Verdict(_series(metric), problem, "metrics.maps of the policy, where its series name pods or models")


def _serving(case: Case) -> frozenset[tuple[str, str]]:
    """Pods with GPUs that run, as (namespace, name)."""
    return frozenset(
        (namespace(pod), text(pod, "metadata", "name"))
        for pod in case.survey.of("Pod", "")
        if text(pod, "status", "phase") == "Running" and any(each.on_gpus for each in templates_of(pod))
    )


def _series(metric: str) -> Object:
    return {"kind": "Series", "metadata": {"name": metric}}


def _scraped(case: Case, monitor: Object) -> Iterator[Template]:
    """The pods behind a PodMonitor, or behind the Services of a ServiceMonitor."""
    chosen, spaces = part(monitor, "spec", "selector"), part(monitor, "spec", "namespaceSelector")
    named = set(words(spaces, "matchNames")) or {namespace(monitor)}
    for space in case.namespaces() if text(spaces, "any") == "true" else named:
        if monitor.get("kind") == "PodMonitor":
            yield from case.chosen(space, chosen)
            continue
        for service in case.services.chosen(space, chosen):
            if selector := part(service, "spec", "selector"):
                yield from case.chosen(space, {"matchLabels": selector})


def _queries(case: Case) -> Iterator[tuple[Object, str, str]]:
    """PromQL, single-spaced, with the object that holds it and its place: `alert NAME`, `record NAME`, `trigger N`."""
    for obj, place, written in _written(case):
        query = " ".join(written.split())  # the patterns try every way to share out a run of spaces
        if len(query) <= MOST_QUERY_CHARACTERS:
            yield obj, place, query


def _written(case: Case) -> Iterator[tuple[Object, str, str]]:
    """The same as it was written."""
    for rules in case.survey.of("PrometheusRule", "monitoring.coreos.com"):
        for group in items(rules, "spec", "groups"):
            for rule in items(group, "rules"):
                name = text(rule, "alert") or text(rule, "record")
                yield rules, f"{'alert' if 'alert' in rule else 'record'} {name}", text(rule, "expr")
    for scaled in case.survey.of("ScaledObject", "keda.sh"):
        for place, trigger in enumerate(items(scaled, "spec", "triggers")):
            if text(trigger, "type") == "prometheus":
                yield scaled, f"trigger {place}", text(trigger, "metadata", "query")


TRAPS: Final = (
    Trap(
        "used-over-free",
        WARN,
        "FB_USED / FB_FREE is no share of the memory: 0.9 of it is 47 %, and vLLM takes some 90 % at its start anyway."
        + _NOT_LONGER,
        "Divide by used + free; watch the KV cache of engines that allocate ahead.",
        used_over_free,
    ),
    Trap(
        "bandwidth-for-memory",
        WARN,
        "MEM_COPY_UTIL is how busy the memory's bus is, not how full the memory." + _NOT_LONGER,
        "Use FB_USED / (FB_USED + FB_FREE).",
        bandwidth_for_memory,
    ),
    Trap(
        "seldom-scraped",
        WARN,
        "Rates are taken over four scrapes, at most 5 min: models that are scraped less often than every 75 s have too"
        " few of them, and every second between scrapes is one by which a surge is seen later.",
        "Scrape models every 15 s, at most every minute.",
        scraped_too_seldom,
    ),
    Trap(
        "series-of-no-pod",
        WARN,
        "Series of an engine or exporter that name no pod with GPUs, by any of the labels in docs/metrics.md, are "
        "nobody's reading; looked for with --prometheus URL.",
        "Let the scrape keep the pod's labels; relabel others to namespace and pod.",
        series_of_no_pod,
    ),
    Trap(
        "unread-exporter",
        WARN,
        "An exporter that is known and of which no metric map reads anything; looked for with --prometheus URL.",
        "Run one that a map reads, or write a map of your own.",
        unread_exporters,
    ),
    Trap(
        "series-without-pods",
        WARN,
        "dcgm-exporter names pods only when it is told to ask the kubelet; without, its series belong to no model.",
        'Set DCGM_EXPORTER_KUBERNETES to "true".',
        exporter_without_pods,
    ),
)

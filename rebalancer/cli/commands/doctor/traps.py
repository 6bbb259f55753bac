"""Looks for traps in a cluster or in a folder of manifests, and says too where nobody looked."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from rebalancer.cli.failure import UNREACHABLE, USAGE, Failed, why_silent
from rebalancer.domain.metric_maps import MetricMap
from rebalancer.domain.policy import Policy
from rebalancer.ingest.engines import UNREAD
from rebalancer.ingest.kinds import NoScale, served
from rebalancer.ingest.prometheus import LATELY_SECONDS
from rebalancer.ingest.prometheus_session import LateError, Server, Visit
from rebalancer.ingest.promql import STARTED, names_of, selector, with_own
from rebalancer.kube.client import KubeClient
from rebalancer.kube.errors import KubeError
from rebalancer.kube.resources import Resource, served_as
from rebalancer.loop.clock import RealClock
from rebalancer.settings.policy_file import check_bytes
from rebalancer.survey.case import Case
from rebalancer.survey.finding import SKIP, WARN, Finding
from rebalancer.survey.live import survey_live
from rebalancer.survey.manifests import survey_of
from rebalancer.survey.objects import Survey
from rebalancer.survey.readings import of_models
from rebalancer.survey.traps.kinds import KINDS
from rebalancer.survey.traps.series import bounds_question, last_bounds, pods_by_metric, question
from rebalancer.survey.traps.table import judged

PROMETHEUS_SECONDS = 10.0
NO_SERIES = Finding(SKIP, "series in Prometheus", "whether they name pods is told with --prometheus URL")
UNREAD_FIX = "fill templates in first (helm template), or leave it out"


def in_folder(folder: Path, policy: Policy | None) -> tuple[Finding, ...]:
    """Every trap in the manifests of `folder`; a file that cannot be read is a finding. Raises Failed without one."""
    try:
        survey = survey_of(folder)
    except FileNotFoundError as error:
        raise Failed(str(error), USAGE) from error
    unread = [
        Finding(WARN, file, f"not read: {' '.join(why.split())}", UNREAD_FIX)
        for file, _, why in (each.partition(": ") for each in survey.unread)
    ]
    return (*judged(Case(survey, policy)), *unread, NO_SERIES)


async def in_cluster(kube: KubeClient, known: Case) -> tuple[Finding, ...]:
    """Every trap in the objects of a cluster, with what is `known` beside them.

    Kinds that are not installed, or not ours to see, are skipped by name.
    """
    kinds, unknown = await _kinds(kube, known.policy)
    survey = await survey_live(kube, kinds)
    unread = [Finding(SKIP, kind, why) for kind, _, why in (each.partition(": ") for each in survey.unread)]
    case = replace(known, survey=survey)
    return (*judged(case), *of_models(case), *unread, *unknown, *([NO_SERIES] if known.series is None else []))


async def _kinds(kube: KubeClient, policy: Policy | None) -> tuple[Collection[Resource], list[Finding]]:
    """What is read: all that a trap can be in, and the kinds of the policy's targets; those that are not to be had."""
    kinds = {(each.group, each.kind): each for each in KINDS}
    unknown: list[Finding] = []
    for kind in dict.fromkeys(target.of for model in policy.models for target in model.targets) if policy else ():
        try:
            kinds[kind.group, kind.kind] = (
                served_as(f"{kind.api_version}/{kind.plural}", kind.kind) if kind.plural else await served(kube, kind)
            )
        except (NoScale, KubeError) as error:
            unknown.append(Finding(SKIP, f"kind/{kind.kind}", str(error)))
    return kinds.values(), unknown


def known_before(policy: Path | None, prometheus: Server | None) -> Case:
    """What the command's options tell, without an object yet. Raises Failed."""
    in_file = _policy_of(policy)
    own = in_file.metrics.maps if in_file is not None else ()
    case = Case(Survey(()), in_file)
    return case if prometheus is None else _with_series(case, prometheus, own)


def _policy_of(file: Path | None) -> Policy | None:
    if file is None:
        return None
    try:
        policy, problems = check_bytes(file.read_bytes(), str(file))
    except OSError as error:
        raise Failed(f"{file}: {error.strerror or error}", USAGE) from error
    if policy is None:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise Failed(f"{problems[0]}{more}; run rebalancer config check {file}")
    return policy


def _with_series(case: Case, server: Server, own: Sequence[MetricMap]) -> Case:
    """The case with every metric that a map names and that is there: the pods that its series name, and its bounds."""
    url = server.url
    try:
        with Visit(server, RealClock(), PROMETHEUS_SECONDS) as visit:
            wanted = names_of(with_own(own)) - {STARTED} | UNREAD.keys()
            names = visit.label_values("__name__", selector(wanted, visit.matchers), LATELY_SECONDS) & wanted
            if not names:
                return replace(case, series={})
            series = pods_by_metric(visit.query(question(names, visit.matchers)), names)
            histograms = [name for name in names if name.endswith("_bucket")]
            bounds = last_bounds(visit.query(bounds_question(histograms, visit.matchers))) if histograms else {}
            return replace(case, series=series, last_bounds=bounds)
    except LateError as error:
        raise Failed(f"--prometheus {url}: no answer within {PROMETHEUS_SECONDS:g} s", UNREACHABLE) from error
    except Exception as error:  # whatever it answered; the way on is without it
        raise Failed(
            f"--prometheus {url}: {why_silent(error)}; leave it out to look at objects alone", UNREACHABLE
        ) from error

"""Looks for traps in a cluster or in a folder of manifests, and says too where nobody looked."""

from pathlib import Path

from rebalancer.cli.failure import USAGE, Failed
from rebalancer.domain.policy import Policy
from rebalancer.kube.client import KubeClient
from rebalancer.settings.policy_file import check_bytes
from rebalancer.survey.case import Case
from rebalancer.survey.finding import SKIP, WARN, Finding
from rebalancer.survey.live import survey_live
from rebalancer.survey.manifests import survey_of
from rebalancer.survey.traps.kinds import KINDS
from rebalancer.survey.traps.table import judged

NO_SERIES = Finding(SKIP, "series in Prometheus", "objects do not tell whether an exporter's series match pods")


def in_folder(folder: Path, policy: Policy | None) -> tuple[Finding, ...]:
    """Every trap in the manifests of `folder`; a file that cannot be read is a finding. Raises Failed without one."""
    try:
        survey = survey_of(folder)
    except FileNotFoundError as error:
        raise Failed(str(error), USAGE) from error
    unread = [
        Finding(
            WARN, file, f"not read: {' '.join(why.split())}", "fill templates in first (helm template), or leave it out"
        )
        for file, _, why in (each.partition(": ") for each in survey.unread)
    ]
    return (*judged(Case(survey, policy)), *unread, NO_SERIES)


async def in_cluster(
    kube: KubeClient, policy: Policy | None, start_seconds: float | None, node_pools: frozenset[str]
) -> tuple[Finding, ...]:
    """Every trap in the objects of a cluster; kinds that are not installed, or not ours to see, are skipped by name."""
    survey = await survey_live(kube, KINDS)
    unread = [Finding(SKIP, kind, why) for kind, _, why in (each.partition(": ") for each in survey.unread)]
    return (*judged(Case(survey, policy, start_seconds, node_pools)), *unread, NO_SERIES)


def policy_of(file: Path | None) -> Policy | None:
    """The policy in `file`, None without one. Raises Failed for one that cannot be read or has problems."""
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

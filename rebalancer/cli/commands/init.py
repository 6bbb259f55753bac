"""`rebalancer init`: a first policy from what the cluster, or a folder of manifests, shows."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rebalancer.cli.failure import UNREACHABLE, USAGE, Failed
from rebalancer.cli.remote.prometheus import (
    CaFileOption,
    CertificateFileOption,
    KeyFileOption,
    MatchersOption,
    PasswordFileOption,
    SigV4RegionOption,
    TokenFileOption,
    UsernameOption,
    server_at,
)
from rebalancer.cli.remote.where import ContextOption, KubeconfigOption, Where

if TYPE_CHECKING:
    from rebalancer.ingest.prometheus_session import Server
    from rebalancer.survey.first_policy.draft import PolicyDraft
    from rebalancer.survey.first_policy.recent import Use
    from rebalancer.survey.objects import Survey

STDOUT = "-"
PROMETHEUS_SECONDS = 60.0  # a week of each pod, every ten minutes


def command(
    manifests: Annotated[
        Path | None, typer.Option(help="Read this folder of YAML and JSON in place of a cluster.", metavar="DIR")
    ] = None,
    prometheus: Annotated[
        str | None,
        typer.Option(help="Ask this Prometheus what was at work in the last week, for entitlements.", metavar="URL"),
    ] = None,
    namespaces: Annotated[
        list[str] | None,
        typer.Option(
            "--namespace", "-n", help="Only workloads of this namespace (may be repeated).", metavar="NAMESPACE"
        ),
    ] = None,
    out: Annotated[str, typer.Option(help="Where to write it; - is standard output.", metavar="FILE")] = "policy.yaml",
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    token_file: TokenFileOption = None,
    ca_file: CaFileOption = None,
    username: UsernameOption = "",
    password_file: PasswordFileOption = None,
    certificate_file: CertificateFileOption = None,
    key_file: KeyFileOption = None,
    sigv4_region: SigV4RegionOption = "",
    matchers: MatchersOption = "",
) -> None:
    """Write a first policy: pools from nodes, models from what asks for GPUs and has a scale, today's bounds as floors.

    Every value says what it rests on; guesses are marked `guess:`, what is yours to decide `choose:`. Reads only.
    """
    from rebalancer.cli.render.first_policy import next_steps, nothing_found, render_first_policy
    from rebalancer.cli.render.problems import render_problems
    from rebalancer.cli.terminal.paint import painted
    from rebalancer.settings.problems import check_text
    from rebalancer.survey.first_policy.drafting import first_policy
    from rebalancer.survey.first_policy.text import text_of

    if out != STDOUT and Path(out).exists() and not force:
        raise Failed(f"{out} is there already: add --force to write over it, or name another with --out", USAGE)
    server = (
        None
        if prometheus is None
        else server_at(
            prometheus, token_file, ca_file, username, password_file, certificate_file, key_file, sigv4_region, matchers
        )
    )
    survey = _survey(manifests, Where(kubeconfig=kubeconfig, context=context), namespaces or [])
    recent = None if server is None else _recent(server, first_policy(survey, None, namespaces or []))
    draft = first_policy(survey, recent, namespaces or [])
    if not draft.models:
        raise Failed(nothing_found(draft))
    text = text_of(draft)
    if out == STDOUT:
        typer.echo(text, nl=False)
    else:
        _write(Path(out), text)
    typer.echo(painted(render_first_policy(draft, text)), err=out == STDOUT)
    policy, problems = check_text(text, out)
    if policy is None:  # never: what is written must load
        raise Failed(render_problems(out, problems))
    if out != STDOUT:
        typer.echo(next_steps(out, policy, prometheus or "URL"))


def _survey(manifests: Path | None, where: Where, namespaces: Sequence[str]) -> "Survey":
    import asyncio

    from rebalancer.survey.manifests import survey_of

    if manifests is None:
        return asyncio.run(_live(where, namespaces))
    try:
        return survey_of(manifests)
    except FileNotFoundError as error:
        raise Failed(str(error), USAGE) from error


async def _live(where: Where, namespaces: Sequence[str]) -> "Survey":
    from rebalancer.cli.remote.cluster import open_cluster
    from rebalancer.survey.live import survey_live

    async with open_cluster(where) as cluster:
        return await survey_live(cluster.kube, namespaces=namespaces)


def _recent(server: "Server", draft: "PolicyDraft") -> "Mapping[str, Use]":
    """Last week's use of the draft's targets, by workload. Raises Failed."""
    from rebalancer.domain.workload_ref import WorkloadRef
    from rebalancer.ingest.prometheus import LateError, answers
    from rebalancer.ingest.promql import matchers_of
    from rebalancer.loop.clock import RealClock
    from rebalancer.survey.first_policy.recent import questions, use_of

    url = server.url
    refs = [
        WorkloadRef(model.namespace.value, target.value.get("kind", "Deployment"), target.value["name"])
        for model in draft.models
        for target in model.targets
    ]
    try:
        results = answers(server, questions(refs, matchers_of(server.matchers)), RealClock(), PROMETHEUS_SECONDS)
        return {workload: use for result in results for workload, use in use_of(result).items()}
    except LateError as error:
        raise Failed(f"--prometheus {url}: no answer within {PROMETHEUS_SECONDS:g} s", UNREACHABLE) from error
    except Exception as error:  # whatever it answered; the way on is without it
        raise Failed(f"--prometheus {url}: {error}; leave it out to go by today's replicas", UNREACHABLE) from error


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise Failed(f"{path}: {error.strerror or error}; name another with --out") from error

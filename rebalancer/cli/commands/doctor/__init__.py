"""`rebalancer doctor`: reads the service and the cluster, or a folder of manifests, and judges what it finds."""

from pathlib import Path
from typing import Annotated

import typer

from rebalancer.cli.failure import DONE, FAILED, USAGE, Failed
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
from rebalancer.cli.remote.where import (
    SERVICE_NAMESPACE,
    ContextOption,
    KubeconfigOption,
    ServerOption,
    ServiceNamespaceOption,
    Where,
)
from rebalancer.cli.terminal.output import Output, OutputOption, show

ManifestsOption = Annotated[
    Path | None,
    typer.Option(
        "--manifests",
        help="Judge the YAML and JSON below this folder, or this file; no cluster and no service is asked.",
        metavar="DIR",
    ),
]
PolicyOption = Annotated[
    Path | None,
    typer.Option("--policy", help="Policy file: with it GPUs, floors, pools and starts are compared.", metavar="FILE"),
]
PrometheusOption = Annotated[
    str | None,
    typer.Option("--prometheus", help="Ask this Prometheus too what it tells of each model.", metavar="URL"),
]


def command(
    manifests: ManifestsOption = None,
    policy: PolicyOption = None,
    prometheus: PrometheusOption = None,
    token_file: TokenFileOption = None,
    ca_file: CaFileOption = None,
    username: UsernameOption = "",
    password_file: PasswordFileOption = None,
    certificate_file: CertificateFileOption = None,
    key_file: KeyFileOption = None,
    sigv4_region: SigV4RegionOption = "",
    matchers: MatchersOption = "",
    server: ServerOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    service_namespace: ServiceNamespaceOption = SERVICE_NAMESPACE,
    output: OutputOption = Output.TABLE,
) -> int:
    """Look for what is not as it should be: the service, CRDs, your rights, and traps in what people deploy.

    Each finding comes with what to do. Exit code 1 when a check failed (FAIL); warnings are no failure. JSON is a list
    of all checks, each with state (ok, skip, warn, FAIL), about, said, fix, trap, docs and file.
    """
    import asyncio

    from rebalancer.api.http.json_codec import to_wire
    from rebalancer.cli.commands.doctor.table import rendered
    from rebalancer.cli.commands.doctor.traps import in_folder, known_before
    from rebalancer.survey.finding import FAIL

    if manifests is not None and prometheus is not None:
        raise Failed("--prometheus is about pods that run: leave it or --manifests out", USAGE)
    prometheus_server = (
        None
        if prometheus is None
        else server_at(
            prometheus, token_file, ca_file, username, password_file, certificate_file, key_file, sigv4_region, matchers
        )
    )
    known = known_before(policy, prometheus_server)
    if manifests is not None:
        findings = in_folder(manifests, known.policy)
    else:
        from rebalancer.cli.commands.doctor.examination import examine

        findings = asyncio.run(examine(Where(server, kubeconfig, context, service_namespace), known))
    show(output, to_wire(findings), lambda: rendered(findings))
    return FAILED if any(each.state == FAIL for each in findings) else DONE

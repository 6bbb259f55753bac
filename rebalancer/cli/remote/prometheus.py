"""Which Prometheus a command asks, and how it says there who we are; the same options wherever one is asked."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rebalancer.cli.failure import USAGE, Failed

if TYPE_CHECKING:
    from rebalancer.ingest.prometheus_session import Server

TokenFileOption = Annotated[
    Path | None, typer.Option("--token-file", help="File with a bearer token for Prometheus.", metavar="FILE")
]
CaFileOption = Annotated[Path | None, typer.Option("--ca-file", help="PEM file with Prometheus' CA.", metavar="FILE")]
UsernameOption = Annotated[
    str, typer.Option("--username", help="User of basic authentication at Prometheus.", metavar="NAME")
]
PasswordFileOption = Annotated[
    Path | None, typer.Option("--password-file", help="File with that user's password.", metavar="FILE")
]
CertificateFileOption = Annotated[
    Path | None,
    typer.Option("--certificate-file", help="PEM file with our certificate, where Prometheus asks.", metavar="FILE"),
]
KeyFileOption = Annotated[
    Path | None, typer.Option("--key-file", help="PEM file with its key; else the certificate's file.", metavar="FILE")
]
SigV4RegionOption = Annotated[
    str,
    typer.Option(
        "--sigv4-region",
        help="Region of Amazon Managed Prometheus: sign by AWS' SigV4. Needs the extra aws.",
        metavar="REGION",
    ),
]
MatchersOption = Annotated[
    str,
    typer.Option(
        "--matchers",
        help="Labels of this cluster's series, where Prometheus has other clusters', too.",
        metavar="LABEL=VALUE,...",
    ),
]


def server_at(
    url: str,
    token_file: Path | None,
    ca_file: Path | None,
    username: str,
    password_file: Path | None,
    certificate_file: Path | None,
    key_file: Path | None,
    sigv4_region: str,
    matchers: str,
) -> "Server":
    """What these options name. Raises Failed for an address that is none, and for what does not go together."""
    from rebalancer.ingest.prometheus_session import Server
    from rebalancer.settings.prometheus_login import login_problem
    from rebalancer.settings.prometheus_matchers import matchers_problem
    from rebalancer.settings.prometheus_url import problem_of

    logins = username, password_file, certificate_file, key_file, sigv4_region
    server = Server(url, token_file, ca_file, *logins, matchers)
    if problem := matchers_problem(matchers):
        raise Failed(f"--matchers: {problem}", USAGE)
    if problem := problem_of(url):
        raise Failed(f"--prometheus {url}: {problem}", USAGE)
    given = [field for field, value in server._asdict().items() if value]
    if problem := login_problem(given, lambda field: f"--{field.replace('_', '-')}"):
        raise Failed(problem, USAGE)
    return server

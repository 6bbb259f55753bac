"""`rebalancer login` and `logout`: a token for the service's API, in the person's name."""

from typing import Annotated, Literal

import typer

from rebalancer.cli.failure import DONE
from rebalancer.cli.remote.where import (
    SERVICE_NAMESPACE,
    ContextOption,
    KubeconfigOption,
    ServerOption,
    ServiceNamespaceOption,
    Where,
)
from rebalancer.cli.terminal.talk import QuietOption, Talk


def command(
    as_: Annotated[
        Literal["viewer", "operator"],
        typer.Option("--as", help="viewer reads; operator may also change things over HTTP (the console)."),
    ] = "viewer",
    lasts: Annotated[str, typer.Option("--for", help="How long the token is good.", metavar="DURATION")] = "8h",
    release: Annotated[str, typer.Option("--release", help="Name of the Helm release.", metavar="NAME")] = "rebalancer",
    show_token: Annotated[
        bool, typer.Option("--show-token", help="Print the token too, for the console's login page.")
    ] = False,
    server: ServerOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    service_namespace: ServiceNamespaceOption = SERVICE_NAMESPACE,
    quiet: QuietOption = False,
) -> int:
    """Get a token for the service's API through your kubeconfig and keep it, for reads and previews.

    It is a token of the chart's ServiceAccount RELEASE-viewer or RELEASE-operator, which the service alone accepts; of
    a release that is not called after the chart, RELEASE-rebalancer-viewer or RELEASE-rebalancer-operator.
    """
    import asyncio

    from rebalancer.cli.commands.login.token_request import accounts_of, request_token
    from rebalancer.cli.remote.tokens import keep
    from rebalancer.cli.render.overrides import minute
    from rebalancer.cli.terminal.spans import seconds_of

    where = Where(server, kubeconfig, context, service_namespace)
    token = asyncio.run(request_token(where, accounts_of(release, as_), round(seconds_of(lasts, "--for"))))
    file = keep(token)
    talk = Talk(quiet)
    talk.say(f"Logged in as {token.account} until {minute(token.expires_at)} UTC; kept in {file}")
    if where.server is not None and where.server.startswith("http://") and not where.local:
        talk.say(f"warning: {where.server} is not encrypted; the token can be read on its way")
    if show_token:
        typer.echo(token.token)
    return DONE


def logout(
    server: ServerOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    service_namespace: ServiceNamespaceOption = SERVICE_NAMESPACE,
) -> int:
    """Forget the token that login kept."""
    import asyncio

    from rebalancer.cli.commands.login.token_request import place
    from rebalancer.cli.remote.tokens import forget

    there = forget(asyncio.run(place(Where(server, kubeconfig, context, service_namespace))))
    typer.echo("Logged out." if there else "There was no token.", err=True)
    return DONE

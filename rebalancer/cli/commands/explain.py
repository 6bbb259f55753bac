"""`rebalancer explain MODEL`."""

from typing import Annotated

import typer

from rebalancer.cli.failure import DIFFERS, DONE
from rebalancer.cli.remote.answers import decoded, read
from rebalancer.cli.remote.where import (
    SERVICE_NAMESPACE,
    ContextOption,
    KubeconfigOption,
    ServerOption,
    ServiceNamespaceOption,
    Where,
)
from rebalancer.cli.terminal.complete import models
from rebalancer.cli.terminal.output import ExitCodeOption, Output, OutputOption, show


def command(
    model: Annotated[str, typer.Argument(help="Id of the model.", metavar="MODEL", autocompletion=models)],
    at: Annotated[
        str | None,
        typer.Option("--at", help="As it was then: 03:06:20 (UTC), or RFC 3339; from the journal.", metavar="TIME"),
    ] = None,
    server: ServerOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    service_namespace: ServiceNamespaceOption = SERVICE_NAMESPACE,
    output: OutputOption = Output.TABLE,
    exit_code: ExitCodeOption = False,
) -> int:
    """Explain why a model has what it has: votes, demand, holdings, refusals.

    With --exit-code: 3 when the model lacks something.
    """
    from urllib.parse import quote

    from rebalancer.api.pages.values import Explanation

    where = Where(server, kubeconfig, context, service_namespace)
    (body,) = read(where, f"/v1/explain/{quote(model, safe='')}{_query(at)}")
    explanation = decoded(body, Explanation)
    show(output, body, lambda: "\n".join(explanation.explanation))
    return DIFFERS if exit_code and explanation.unmet else DONE


def _query(at: str | None) -> str:
    if at is None:
        return ""
    from urllib.parse import urlencode

    from rebalancer.api.http.json_codec import instant_text
    from rebalancer.cli.terminal.spans import instant_of
    from rebalancer.loop.clock import RealClock

    return "?" + urlencode({"at": instant_text(instant_of(at, "--at", RealClock().now()))})

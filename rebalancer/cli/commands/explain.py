"""`rebalancer explain MODEL`."""

from typing import Annotated

import typer

from rebalancer.cli.complete import models
from rebalancer.cli.failure import DIFFERS, DONE
from rebalancer.cli.output import ExitCodeOption, Output, OutputOption, show
from rebalancer.cli.service import decoded, read
from rebalancer.cli.where import (
    SERVICE_NAMESPACE,
    ContextOption,
    KubeconfigOption,
    ServerOption,
    ServiceNamespaceOption,
    Where,
)


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

    from rebalancer.api.pages import Explanation

    where = Where(server, kubeconfig, context, service_namespace)
    (body,) = read(where, f"/v1/explain/{quote(model, safe='')}{_query(at)}")
    told = decoded(body, Explanation)
    show(output, body, lambda: "\n".join(told.explanation))
    return DIFFERS if exit_code and told.unmet else DONE


def _query(at: str | None) -> str:
    if at is None:
        return ""
    from urllib.parse import urlencode

    from rebalancer.api.wire import instant_text
    from rebalancer.cli.spans import instant_of
    from rebalancer.loop.clock import RealClock

    return "?" + urlencode({"at": instant_text(instant_of(at, "--at", RealClock().now()))})

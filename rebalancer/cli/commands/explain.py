"""`rebalancer explain MODEL`, and `rebalancer explain --node NODE`."""

from typing import Annotated

import typer

from rebalancer.cli.failure import DIFFERS, DONE, USAGE, Failed
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
    model: Annotated[
        str | None, typer.Argument(help="Id of the model.", metavar="MODEL", autocompletion=models)
    ] = None,
    node: Annotated[
        str | None, typer.Option("--node", help="Instead of MODEL: a node under notice, or lately so.", metavar="NODE")
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            "--at", help="As it was then: 03:06:20 (UTC), RFC 3339, or 90s (ago); from the journal.", metavar="TIME"
        ),
    ] = None,
    server: ServerOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    service_namespace: ServiceNamespaceOption = SERVICE_NAMESPACE,
    output: OutputOption = Output.TABLE,
    exit_code: ExitCodeOption = False,
) -> int:
    """Explain why a model has what it has: votes, demand, holdings, refusals.

    Or, by --node, what becomes of a node under notice: when it was heard, what was done, by whom and how much in time.
    With --exit-code: 3 when the model lacks something, or when replicas are left on the node.
    """
    from urllib.parse import quote

    from rebalancer.api.pages.values import Explanation, NodeExplanation
    from rebalancer.cli.terminal.spans import spelled

    if (model is None) is (node is None):
        raise Failed("give either a MODEL or --node and its name; `rebalancer status` lists the models", USAGE)
    where = Where(server, kubeconfig, context, service_namespace)
    if node is not None:
        (body,) = read(where, f"/v1/nodes/{quote(node, safe='')}")
        node_explanation = decoded(body, NodeExplanation)
        show(output, body, lambda: "\n".join(node_explanation.explanation))
        left = any(replica.gone_at is None for account in node_explanation.accounts for replica in account.replicas)
        return DIFFERS if exit_code and left else DONE
    (body,) = read(where, f"/v1/explain/{quote(model or '', safe='')}{_query(at, where)}")
    explanation = decoded(body, Explanation)
    as_of = [] if at is None else [f"as of {spelled(explanation.at)} UTC, cycle {explanation.cycle}"]
    show(output, body, lambda: "\n".join([*as_of, *explanation.explanation]))
    return DIFFERS if exit_code and explanation.unmet else DONE


def _query(at: str | None, where: Where) -> str:
    """The instant asked for, by the service's clock: a demo's runs faster than ours. Raises Failed for the future."""
    if at is None:
        return ""
    from urllib.parse import urlencode

    from rebalancer.api.http.json_codec import instant_text
    from rebalancer.api.ports.status import Status
    from rebalancer.cli.terminal.spans import instant_of, spelled

    (body,) = read(where, "/v1/status")
    now = decoded(body, Status).at
    then = instant_of(at, "--at", now)
    if then > now:
        raise Failed(f"--at {at} is ahead of the service's clock, which says {spelled(now)} UTC", USAGE)
    return "?" + urlencode({"at": instant_text(then)})

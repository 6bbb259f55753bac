"""`rebalancer explain MODEL`."""

from typing import Annotated

import typer

from rebalancer.cli.complete import models
from rebalancer.cli.failure import DIFFERS, DONE, Failed
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

    from rebalancer.api.text.words import some
    from rebalancer.cli.render import render_explain
    from rebalancer.domain.plan import Plan
    from rebalancer.domain.snapshot import Snapshot

    where = Where(server, kubeconfig, context, service_namespace)
    explained, planned, seen = read(where, f"/v1/explain/{quote(model, safe='')}", "/v1/plan", "/v1/snapshot")
    plan, snapshot = decoded(planned, Plan), decoded(seen, Snapshot)
    if model not in {each.model for each in plan.models}:  # it left the policy between two answers
        raise Failed(f"no model {model!r} in the policy; models: {some([each.model for each in plan.models])}")
    show(output, explained, lambda: render_explain(plan, snapshot, model))
    return DIFFERS if exit_code and any(each.model == model for each in plan.unmet) else DONE

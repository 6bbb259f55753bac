"""`rebalancer more-gpus`."""

from typing import Annotated

import typer

from rebalancer.cli.failure import DONE
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
from rebalancer.cli.terminal.output import Output, OutputOption, show


def command(
    model: Annotated[str, typer.Argument(help="A model's id.", metavar="MODEL", autocompletion=models)],
    server: ServerOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    service_namespace: ServiceNamespaceOption = SERVICE_NAMESPACE,
    output: OutputOption = Output.TABLE,
) -> int:
    """Say whether more GPUs would help a model, and of which pool: for now, and for the last hour.

    Now by what its outlook says of 1, 2 and 4 replicas more; the last hour by playing it again with them, beside what
    was late in it. When the answer is no, it says what binds instead: maxReplicas, a guard, a person, or the time that
    a start takes.
    """
    from urllib.parse import quote

    from rebalancer.api.pages.more_gpus import MoreGpus

    (body,) = read(
        Where(server, kubeconfig, context, service_namespace), f"/v1/models/{quote(model, safe='')}/more-gpus"
    )
    answer = decoded(body, MoreGpus)
    show(output, body, lambda: "\n".join(answer.lines))
    return DONE

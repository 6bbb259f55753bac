"""`rebalancer stand-up`: a person ends a stand-down."""

from typing import Annotated

import typer

from rebalancer.cli.commands.override.kinds import Kind
from rebalancer.cli.remote.where import (
    SERVICE_NAMESPACE,
    ContextOption,
    KubeconfigOption,
    NamespaceOption,
    ServerOption,
    ServiceNamespaceOption,
    Where,
)
from rebalancer.cli.terminal.complete import models
from rebalancer.cli.terminal.output import Output, OutputOption
from rebalancer.cli.terminal.talk import DryRunOption, KeyOption, NoInputOption, QuietOption, Talk, YesOption


def command(
    model: Annotated[str, typer.Argument(help="The model's id.", metavar="MODEL", autocompletion=models)],
    reason: Annotated[
        str, typer.Option("--reason", help="What became of the other writer.")
    ] = "the other writer is settled",
    namespace: NamespaceOption = None,
    key: KeyOption = None,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    server: ServerOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    service_namespace: ServiceNamespaceOption = SERVICE_NAMESPACE,
    output: OutputOption = Output.TABLE,
    no_input: NoInputOption = False,
    quiet: QuietOption = False,
) -> int:
    """End a stand-down: what others changed on the model's objects before counts no more.

    It makes an override of kind standUp in your own name. Who goes on changing them meets a stand-down again.
    """
    from rebalancer.cli.commands.override.arguments import OverrideArguments
    from rebalancer.cli.commands.override.create import Manner, create

    where, talk = Where(server, kubeconfig, context, service_namespace), Talk(quiet, no_input)
    arguments = OverrideArguments(Kind.STAND_UP, model, None, reason, None, None, namespace, allow_below_floor=False)
    return create(where, talk, arguments, Manner(key, yes, None, dry_run, output))

"""`rebalancer doctor`: reads the service and the cluster, and judges what it finds."""

from rebalancer.cli.failure import DONE, FAILED
from rebalancer.cli.remote.where import (
    SERVICE_NAMESPACE,
    ContextOption,
    KubeconfigOption,
    ServerOption,
    ServiceNamespaceOption,
    Where,
)
from rebalancer.cli.terminal.output import Output, OutputOption, show


def command(
    server: ServerOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    service_namespace: ServiceNamespaceOption = SERVICE_NAMESPACE,
    output: OutputOption = Output.TABLE,
) -> int:
    """Look for what is not as it should be: the service, CRDs, your rights, KEDA's triggers, Karpenter's pools.

    Each finding comes with what to do. Exit code 1 when a check failed; warnings are no failure.
    """
    import asyncio

    from rebalancer.api.http.json_codec import to_wire
    from rebalancer.cli.commands.doctor.checks import FAIL, rendered
    from rebalancer.cli.commands.doctor.examination import examine

    findings = asyncio.run(examine(Where(server, kubeconfig, context, service_namespace)))
    show(output, to_wire(findings), lambda: rendered(findings))
    return FAILED if any(each.state == FAIL for each in findings) else DONE

"""`rebalancer status`."""

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
from rebalancer.cli.terminal.output import ExitCodeOption, Output, OutputOption, WatchOption, show

PATH = "/v1/status"


def command(
    server: ServerOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    service_namespace: ServiceNamespaceOption = SERVICE_NAMESPACE,
    output: OutputOption = Output.TABLE,
    watch: WatchOption = False,
    exit_code: ExitCodeOption = False,
) -> int:
    """Say whether the service is alive and writing, where the GPUs are, and who lacks what.

    With --exit-code: 3 when a model lacks something or nothing is decided yet.
    """
    from rebalancer.api.ports.status import Status
    from rebalancer.cli.render import render_status

    where = Where(server, kubeconfig, context, service_namespace)
    wide = output is Output.WIDE
    if watch:
        from rebalancer.cli.terminal.watch import watch as watch_paths

        watch_paths(where, (PATH,), output, lambda bodies: render_status(decoded(bodies[0], Status), wide=wide))
    (body,) = read(where, PATH)
    status = decoded(body, Status)
    show(output, body, lambda: render_status(status, wide=wide))
    return DIFFERS if exit_code and (status.plan is None or status.plan.unmet) else DONE

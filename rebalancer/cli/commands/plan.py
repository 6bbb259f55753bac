"""`rebalancer plan`."""

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

PATH = "/v1/plan"


def command(
    server: ServerOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    service_namespace: ServiceNamespaceOption = SERVICE_NAMESPACE,
    output: OutputOption = Output.TABLE,
    watch: WatchOption = False,
    exit_code: ExitCodeOption = False,
) -> int:
    """Show what the last cycle decided to change, and what it refused.

    Marks: + more replicas, - fewer, > a shift from one model to another, ~ a node pool, = new bounds, ! refused.
    With --exit-code: 3 when there is a change, a refusal or unmet need.
    """
    from rebalancer.cli.render import render_plan
    from rebalancer.domain.plan import Plan

    where = Where(server, kubeconfig, context, service_namespace)
    wide = output is Output.WIDE
    if watch:
        from rebalancer.cli.terminal.watch import watch as watch_paths

        watch_paths(where, (PATH,), output, lambda bodies: render_plan(decoded(bodies[0], Plan), wide=wide))
    (body,) = read(where, PATH)
    plan = decoded(body, Plan)
    show(output, body, lambda: render_plan(plan, wide=wide))
    return DIFFERS if exit_code and (not plan.empty or plan.refusals or plan.unmet) else DONE

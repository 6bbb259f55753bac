"""`rebalancer plan`."""

from rebalancer.cli.failure import DIFFERS, DONE
from rebalancer.cli.output import ExitCodeOption, Output, OutputOption, show
from rebalancer.cli.service import DEFAULT_SERVER, ServerOption, decoded, read


def command(
    server: ServerOption = DEFAULT_SERVER, output: OutputOption = Output.TABLE, exit_code: ExitCodeOption = False
) -> int:
    """Show what the last cycle decided to change, and what it refused."""
    from rebalancer.cli.render import render_plan
    from rebalancer.domain.plan import Plan

    (body,) = read(server, "/v1/plan")
    plan = decoded(body, Plan, server)
    show(output, body, lambda: render_plan(plan))
    return DIFFERS if exit_code and (not plan.empty or plan.refusals or plan.unmet) else DONE

"""`rebalancer status`."""

from rebalancer.cli.failure import DIFFERS, DONE
from rebalancer.cli.output import ExitCodeOption, Output, OutputOption, show
from rebalancer.cli.service import DEFAULT_SERVER, ServerOption, decoded, read


def command(
    server: ServerOption = DEFAULT_SERVER, output: OutputOption = Output.TABLE, exit_code: ExitCodeOption = False
) -> int:
    """Say whether the service is alive and writing, where the GPUs are, and who lacks what."""
    from rebalancer.api.view import Status
    from rebalancer.cli.render import render_status

    (body,) = read(server, "/v1/status")
    status = decoded(body, Status, server)
    show(output, body, lambda: render_status(status))
    return DIFFERS if exit_code and (status.plan is None or status.plan.unmet) else DONE

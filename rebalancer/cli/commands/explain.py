"""`rebalancer explain MODEL`, and `rebalancer explain --node NODE`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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

if TYPE_CHECKING:
    from rebalancer.api.pages.values.explanation import Explanation


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
    journal: Annotated[
        Path | None,
        typer.Option(
            help="Ask no service but its journal: its folder, a file of it, or a bundle. Without --at its last cycle.",
            metavar="PATH",
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

    Moments to ask about with --at: the console's Timeline lists them, refusals by their kind.
    Or, by --node, what becomes of a node under notice: when it was heard, what was done, by whom and how much in time.
    With --exit-code: 3 when the model lacks something, or when replicas are left on the node.
    """
    from urllib.parse import quote

    import msgspec

    from rebalancer.api.pages.values.explanation import Explanation, NodeExplanation
    from rebalancer.cli.terminal.spans import spelled

    if (model is None) is (node is None):
        raise Failed("give either a MODEL or --node and its name; `rebalancer status` lists the models", USAGE)
    if journal is not None:
        if model is None:
            raise Failed("--journal tells of models: what became of a node is known to the running service", USAGE)
        explanation = _recorded(journal, model, at)
        body = msgspec.json.encode(explanation)
        return _show_model(output, body, explanation, f"as of {spelled(explanation.at)} UTC", exit_code=exit_code)
    where = Where(server, kubeconfig, context, service_namespace)
    if node is not None:
        (body,) = read(where, f"/v1/nodes/{quote(node, safe='')}")
        node_explanation = decoded(body, NodeExplanation)
        show(output, body, lambda: "\n".join(node_explanation.explanation))
        left = any(replica.gone_at is None for account in node_explanation.accounts for replica in account.replicas)
        return DIFFERS if exit_code and left else DONE
    (body,) = read(where, f"/v1/explain/{quote(model or '', safe='')}{_query(at, where)}")
    explanation = decoded(body, Explanation)
    as_of = "" if at is None else f"as of {spelled(explanation.at)} UTC"
    return _show_model(output, body, explanation, as_of, exit_code=exit_code)


def _show_model(output: Output, body: bytes, explanation: "Explanation", as_of: str, *, exit_code: bool) -> int:
    head = [f"{as_of}, cycle {explanation.cycle}"] if as_of else []
    show(output, body, lambda: "\n".join([*head, *explanation.explanation]))
    return DIFFERS if exit_code and explanation.unmet else DONE


def _recorded(place: Path, model: str, at: str | None) -> "Explanation":
    """The explanation of the last cycle at `at` or before that a journal has, of the last one without `at`.

    How long ago is counted from the journal's end. Raises Failed.
    """
    from rebalancer.api.pages.explanation import explained
    from rebalancer.api.ports.past_refusals import PastRefusals, RefusingPlan
    from rebalancer.api.text.words import known_names
    from rebalancer.cli.terminal.spans import instant_of, spelled
    from rebalancer.domain.codec import from_bytes
    from rebalancer.domain.plan import Plan
    from rebalancer.obs.journal_lines import STANDARD_INPUT, NoJournal, journal_files, last_instant, within
    from rebalancer.obs.journal_reading import JournalRead, turns

    if place == STANDARD_INPUT or not place.exists():
        raise Failed(f"--journal {place}: no such file or folder", USAGE)
    tally, last, past = JournalRead(), None, PastRefusals()
    try:
        files = journal_files(place)
        end = last_instant(files)
        then = end if at is None else instant_of(at, "--at", end)
        for turn in turns(within(files, then), tally):
            if turn.snapshot.at > then:
                break
            last = turn
            refusing = from_bytes(turn.plan, RefusingPlan)
            past.hear(refusing.at, refusing.refusals, refusing.unmet)
    except NoJournal as error:
        raise Failed(str(error)) from error
    if last is None:
        why = f": {tally.damaged[0]}" if tally.damaged else f"; it ends at {spelled(end)} UTC"
        raise Failed(f"{place} has no cycle of {spelled(then)} UTC or before that can be read{why}")
    plan = from_bytes(last.plan, Plan)
    if all(each.model != model for each in plan.models):
        known = known_names("models", model, [each.model for each in plan.models])
        raise Failed(f"no model {model!r} in the policy of then; {known}", USAGE)
    return explained(plan, last.snapshot, model, past.recent(plan.at))


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

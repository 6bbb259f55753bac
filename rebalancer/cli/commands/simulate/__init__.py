"""`rebalancer simulate`: recorded or imagined load played against a policy, on this machine."""

from pathlib import Path
from typing import Annotated

import typer

from rebalancer.cli.failure import DIFFERS, DONE, extra_installed
from rebalancer.cli.terminal.output import ExitCodeOption, show
from rebalancer.cli.terminal.reviewed import MaxOption, ReviewOutput, ReviewOutputOption, limits_of, show_review
from rebalancer.cli.terminal.talk import QuietOption, Talk


def command(
    trace: Annotated[
        str,
        typer.Argument(
            help="CSV t_seconds,model,requests,input_tokens,output_tokens of your traffic, .gz too; or a bundle; or"
            " surge, tides: generated ones that come with the package; with --traces also servegen-0, servegen-1, or a"
            " case of the benchmarks such as S2/32/60/1: scenario, GPUs, seconds of a start, day.",
            metavar="TRACE",
        ),
    ] = "surge",
    row_seconds: Annotated[
        int, typer.Option(help="Seconds that a row of your CSV speaks of: its requests come evenly in them.", min=1)
    ] = 1,
    policy: Annotated[
        Path | None,
        typer.Option(help="The policy file, as in the cluster. Default: the one that comes with TRACE, if one does."),
    ] = None,
    gpus: Annotated[
        list[str] | None,
        typer.Option(
            "--gpus",
            help="GPUs there are, in place of the policy's gpuLimit; POOL=N where it has several pools.",
            metavar="[POOL=]N",
        ),
    ] = None,
    controller: Annotated[
        str,
        typer.Option(
            help="ours, or ours@bounds under HPAs; hpa, keda, kueue, kpa, ray-serve, apa, wva, with a target as"
            " keda@0.8 or keda@best, tuned on this very trace; static; foresight, which knows the future; and any name"
            " that was printed.",
            metavar="NAME",
        ),
    ] = "ours",
    compare: Annotated[
        str | None,
        typer.Option(
            help="Another controller, or another policy FILE for the same one; none: play alone. Default: keda@best,"
            " where the service plays.",
            metavar="NAME_OR_FILE",
        ),
    ] = None,
    page: Annotated[
        Path | None, typer.Option(help="Write an HTML page with plots there; it needs no other file.", metavar="FILE")
    ] = None,
    seed: Annotated[
        int,
        typer.Option(
            help="The same seed gives the same bytes. Of surge and tides other seeds than 0 draw other traffic of the"
            " same shape; 0 plays them as they are shipped.",
            min=0,
        ),
    ] = 0,
    traces: Annotated[
        Path | None,
        typer.Option(
            help="Folder of public traces, for servegen-0, servegen-1 and the benchmarks' cases.",
            envvar="REBALANCER_TRACES",
        ),
    ] = None,
    prefill_rate: Annotated[
        list[str] | None,
        typer.Option(help="Prompt tokens per second of one replica. Default 8000.", metavar="[MODEL=]TOKENS"),
    ] = None,
    seconds_per_token: Annotated[
        list[str] | None,
        typer.Option(help="Seconds per generated token of a full replica. Default 0.04.", metavar="[MODEL=]SECONDS"),
    ] = None,
    batch: Annotated[
        list[str] | None,
        typer.Option(
            help="Requests that a full replica decodes at once. Default 1.25 x the policy's concurrency.perReplica,"
            " else 64.",
            metavar="[MODEL=]N",
        ),
    ] = None,
    patience: Annotated[
        list[str] | None,
        typer.Option(help="Seconds of waiting after which clients leave. Default 30.", metavar="[MODEL=]SECONDS"),
    ] = None,
    release: Annotated[
        list[str] | None,
        typer.Option(help="Seconds from a scale-down until the GPUs are free. Default 5.", metavar="[MODEL=]SECONDS"),
    ] = None,
    gpus_per_node: Annotated[int, typer.Option(help="GPUs of one node.", min=1)] = 8,
    metrics_delay: Annotated[
        int | None,
        typer.Option(help="Seconds by which metrics lag. Default 1; for the benchmarks' cases as they have it.", min=0),
    ] = None,
    most: MaxOption = None,
    output: ReviewOutputOption = ReviewOutput.TABLE,
    exit_code: ExitCodeOption = False,
    quiet: QuietOption = False,
) -> int:
    """Play recorded traffic under a policy, in virtual time, beside a tuned KEDA or what --compare names.

    A request is work for a replica: prompt tokens / prefill rate + generated tokens x seconds per token / batch. It
    violates its SLO when it waits longer than slo.latencySeconds (2 s without one). Replicas start in loadSeconds.
    With --exit-code 3 says that the two differ in violations by more than chance; so it does where a --max does not
    hold of the run that is judged.
    """
    limits = limits_of(most)
    with extra_installed():
        from rebalancer.cli.commands.simulate.compared import check, compared
        from rebalancer.cli.commands.simulate.simulation import SimulationRequest, is_alone, simulate, written
        from rebalancer.cli.commands.simulate.speeds import Speeds

        if page is not None:
            import rebalancer.sim.page.html  # noqa: F401  # matplotlib: half a second, and known to be there before the run
    import msgspec

    from rebalancer.sim.contest.telling import rows

    speeds = Speeds(prefill_rate or [], seconds_per_token or [], batch or [], patience or [], release or [])
    request = SimulationRequest(
        trace, row_seconds, policy, gpus or [], controller, compare, seed, traces, speeds, gpus_per_node, metrics_delay
    )
    reviewed = bool(limits) or output is ReviewOutput.MARKDOWN
    check(limits, alone=reviewed and is_alone(request))
    talk = Talk(quiet)
    simulated = simulate(request, talk)
    result, outcomes = simulated.result, [run.outcome for run in simulated.runs]
    review = compared(simulated, limits) if reviewed else None
    if output is ReviewOutput.MARKDOWN and review is not None:
        show_review(output, review)
    else:
        judged = () if review is None else review.limits
        body = {**msgspec.to_builtins(result), **({"limits": judged} if judged else {})}
        show(
            output.plain,
            msgspec.json.encode(body),
            lambda: "\n".join(
                [
                    _text(simulated.title, simulated.words, rows(outcomes, wide=output is ReviewOutput.WIDE)),
                    *(f"{'ok' if each.holds else 'no'}  {each.said}" for each in judged),
                ]
            ),
        )
    if page is not None:  # after the numbers: they are not lost where it cannot be written
        written(page, simulated)
        talk.say(f"plots in {page}")
    if review is not None and not review.passes:
        return DIFFERS
    return DIFFERS if exit_code and result.difference is not None and result.difference.counts else DONE


def _text(title: str, words: list[str], table: list[list[str]]) -> str:
    wide = [max(len(row[at]) for row in table) for at in range(len(table[0]))]
    lines = []
    for head, *cells in table:
        right = "  ".join(cell.rjust(size) for cell, size in zip(cells, wide[1:], strict=True))
        lines.append(f"{head.ljust(wide[0])}  {right}".rstrip())
    return "\n".join([title, *words, *lines])

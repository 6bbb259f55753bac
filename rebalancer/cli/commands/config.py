"""`rebalancer config check` and `rebalancer config schema`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rebalancer.cli.failure import DONE, FAILED
from rebalancer.cli.group import group
from rebalancer.cli.remote.where import ContextOption, KubeconfigOption, Where
from rebalancer.cli.terminal.output import Output, OutputOption, in_utf8, show

if TYPE_CHECKING:
    from rebalancer.domain.target_kinds import TargetKind
    from rebalancer.settings.problem import Problem
    from rebalancer.settings.problems import CheckedText

STDIN = "-"

app = group("Check policy files, print their schema.")


@app.command()
def check(
    files: Annotated[list[str], typer.Argument(help="Policy files; - reads standard input.", metavar="FILE...")],
    cluster: Annotated[
        bool, typer.Option("--cluster", help="Also ask the API server whether it serves the kinds of the targets.")
    ] = False,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    output: OutputOption = Output.TABLE,
) -> int:
    """Report every problem of policy files with line, path, value and allowed range; exit with 1 when there is any.

    A warning is of what is allowed and does less than it seems to: the file is good, and the exit code stays 0.
    """
    import asyncio

    import msgspec

    from rebalancer.cli.render import render_problems
    from rebalancer.kafka.topic_plan import wanted
    from rebalancer.settings.doubts import warnings_of
    from rebalancer.settings.service import ServiceSettings

    checked = {name: _checked(name) for name in files}
    problems_of = {name: each.problems for name, each in checked.items()}
    if cluster:
        where = Where(None, kubeconfig, context)
        good = [(name, each) for name, each in checked.items() if not each.problems]
        problems_of |= {name: asyncio.run(_unserved(name, each, where)) for name, each in good}
    own = wanted(str(ServiceSettings.model_fields["topic_prefix"].default))
    rows = [
        (name, problems, () if problems else warnings_of(checked[name], name, own))
        for name, problems in problems_of.items()
    ]
    body = msgspec.json.encode(
        [
            {"file": in_utf8(name), "ok": not wrong, "problems": wrong, "warnings": doubts}
            for name, wrong, doubts in rows
        ]
    )
    show(output, body, lambda: "\n".join(render_problems(*row) for row in rows))
    return FAILED if any(problems_of.values()) else DONE


@app.command()
def schema() -> None:
    """Print the JSON schema of a policy file."""
    from rebalancer.settings.schema import schema_text

    typer.echo(schema_text(), nl=False)


def _checked(name: str) -> "CheckedText":
    """The file `name` as the service would see it; each is read and checked once, in seconds for 1,000 models."""
    from rebalancer.settings.policy_file import checked_bytes, unreadable
    from rebalancer.settings.problems import CheckedText

    try:
        content = sys.stdin.buffer.read() if name == STDIN else Path(name).read_bytes()
    except OSError as error:
        return CheckedText(None, (unreadable(error.strerror or str(error), name),))
    return checked_bytes(content, "standard input" if name == STDIN else name)


async def _unserved(name: str, checked: "CheckedText", where: Where) -> "tuple[Problem, ...]":
    """Targets of a good file whose kind the API server does not have, or cannot scale."""
    from rebalancer.cli.remote.cluster import open_cluster
    from rebalancer.ingest.kinds import NoScale, served
    from rebalancer.kube.errors import NotFound
    from rebalancer.settings.problem import Problem

    policy, document = checked.policy, checked.document
    if policy is None or document is None:
        return ()
    targets = [
        (spec.of, document, ("models", n, "targets", place, "kind"))
        for n, model in enumerate(policy.models)
        for place, spec in enumerate(model.targets)
    ]
    wrong: dict[TargetKind, str] = {}
    async with open_cluster(where) as cluster:
        for kind in dict.fromkeys(kind for kind, _, _ in targets):
            try:
                await served(cluster.kube, kind)
            except NotFound:
                wrong[kind] = f"the cluster has no kind {kind.kind} in {kind.api_version}"
            except NoScale as error:
                wrong[kind] = str(error)
    fix = "name a kind that the cluster can scale, or install it first"
    return tuple(
        Problem(document.line(path), document.spell(path), kind.kind, wrong[kind], fix=fix, file=name)
        for kind, document, path in targets
        if kind in wrong
    )

"""`rebalancer replay JOURNAL`."""

from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rebalancer.cli.failure import DIFFERS, DONE, FAILED, USAGE, Failed
from rebalancer.cli.terminal.output import Output, OutputOption, show

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rebalancer.domain.policy import Policy
    from rebalancer.loop.replay import Replay

SHOWN = 5


def command(
    journals: Annotated[
        list[Path], typer.Argument(help="Journal files, oldest first, or a bundle.", metavar="JOURNAL...")
    ],
    policy: Annotated[Path | None, typer.Option(help="Decide by this policy instead of the recorded ones.")] = None,
    output: OutputOption = Output.TABLE,
) -> int:
    """Re-make every decision of a journal from its inputs and compare byte by byte; exit 1 when one differs.

    With --policy differences are what is asked for: then the exit code is 3 when there are any.
    """
    import msgspec

    from rebalancer.loop.replay import replay

    other = _policy(policy) if policy is not None else None
    try:
        found = replay(chain.from_iterable(_lines(path) for path in journals), other)
    except ValueError as error:
        raise Failed(f"{journals[0]}: {error}") from error
    show(output, msgspec.json.encode(found), lambda: _said(found))
    if found.cycles == 0:
        raise Failed("no cycle could be replayed: the journal has no keyframe followed by a cycle")
    if not found.differences:
        return DONE
    return FAILED if other is None else DIFFERS


def _lines(path: Path) -> "Iterable[bytes]":
    from rebalancer.cli.commands.bundle.archive import is_bundle, journal_lines

    if is_bundle(path):
        return journal_lines(path)
    try:
        with path.open("rb") as file:
            return file.readlines()
    except OSError as error:
        raise Failed(f"{path}: {error.strerror}") from error


def _policy(path: Path) -> "Policy":
    from rebalancer.settings.problems import check_text

    try:
        policy, problems = check_text(path.read_text(), str(path))
    except OSError as error:
        raise Failed(f"--policy {path}: {error.strerror}", USAGE) from error
    except UnicodeDecodeError as error:
        raise Failed(f"--policy {path}: not UTF-8 text, so no policy", USAGE) from error
    if policy is None:
        raise Failed("\n".join(str(problem) for problem in problems))
    return policy


def _said(found: "Replay") -> str:
    same = found.cycles - len(found.differences)
    lines = [f"{found.cycles} cycles replayed, {same} byte-equal, {len(found.differences)} differ"]
    lines.append(f"{found.changes} changes, {found.refusals} refusals")
    if found.skipped:
        lines.append(f"{found.skipped} cycles before the first keyframe were skipped")
    if found.other_code:
        lines.append(f"recorded by other code ({found.other_code}): differences may be that code's")
    lines += [f"line {each.line} cycle {each.cycle}: {each.what} differs" for each in found.differences[:SHOWN]]
    for each in found.differences[:1]:
        both = zip(each.recorded, each.replayed, strict=False)
        start = max(0, next((at for at, (was, now) in enumerate(both) if was != now), 0) - 60)
        lines.append(f"  recorded ...{each.recorded[start : start + 180]}")
        lines.append(f"  replayed ...{each.replayed[start : start + 180]}")
    return "\n".join(lines)

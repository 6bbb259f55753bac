"""`rebalancer replay JOURNAL`: every decision again; with --policy what another policy would have made of it."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rebalancer.cli.failure import DIFFERS, DONE, FAILED, USAGE, Failed, extra_installed
from rebalancer.cli.terminal.output import show
from rebalancer.cli.terminal.reviewed import MaxOption, ReviewOutput, ReviewOutputOption, limits_of, show_review
from rebalancer.cli.terminal.talk import QuietOption, Talk

if TYPE_CHECKING:
    from rebalancer.domain.policy import Policy
    from rebalancer.loop.replay import Replay

SHOWN = 5
NOTHING = (
    "no cycle could be replayed: the journal has no keyframe followed by a cycle; let the service run for a minute, or"
    " give the file that begins before this one, too"
)


def command(  # one parameter an option
    journals: Annotated[
        list[Path],
        typer.Argument(
            help="The service's journal folder, or files, oldest first; plain, .gz or .zst; a bundle; - is standard"
            " input.",
            metavar="JOURNAL...",
        ),
    ],
    policy: Annotated[Path | None, typer.Option(help="Decide by this policy instead of the recorded ones.")] = None,
    most: MaxOption = None,
    output: ReviewOutputOption = ReviewOutput.TABLE,
    quiet: QuietOption = False,
) -> int:
    """Re-make every decision of a journal from its inputs and compare byte by byte; exit 1 when one differs.

    With --policy it reviews a change of policy: which decisions would be others, and, played again in the simulator,
    late requests, GPU-hours and money under both. Then the exit code is 3 when a --max does not hold; without any
    --max, when a decision would be another.
    """
    limits = limits_of(most)
    if policy is None and (limits or output is ReviewOutput.MARKDOWN):
        raise Failed("--max and -o markdown are of a review: give --policy FILE, the policy that is proposed", USAGE)
    other = None if policy is None else _policy(policy)
    files = _files(journals)
    if other is None or policy is None:
        return _same(files, output)
    _installed()
    from rebalancer.report.reviewing import Proposal, review

    with _progress(Talk(quiet)) as heard:
        result = review(files, Proposal(other, policy.name, limits), heard)
    if not result.cycles:
        raise Failed(_damaged(result.damaged) or NOTHING)
    show_review(output, result)
    if limits:
        return DONE if result.passes else DIFFERS
    return DIFFERS if any(each.name == "changed-decisions" and each.after for each in result.measures) else DONE


def _same(files: tuple[Path, ...], output: ReviewOutput) -> int:
    import msgspec

    from rebalancer.loop.replay import again
    from rebalancer.obs.journal_reading import JournalRead, turns

    tally = JournalRead()
    result = again(turns(files, tally), tally)
    if result.cycles == 0:
        raise Failed(_damaged(result.damaged) or NOTHING)
    show(output.plain, msgspec.json.encode(result), lambda: _text(result))
    return FAILED if result.differences or len(result.damaged) > tally.cut_off else DONE


def _files(places: list[Path]) -> tuple[Path, ...]:
    from rebalancer.obs.journal_lines import STANDARD_INPUT, NoJournal, journal_files

    for place in places:
        if place != STANDARD_INPUT and not place.exists():
            raise Failed(f"{place}: no such file or folder")
    try:
        return tuple(path for place in places for path in journal_files(place))
    except NoJournal as error:
        raise Failed(str(error)) from error


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


def _installed() -> None:
    """Before a journal of gigabytes is read. Raises Failed."""
    with extra_installed():
        import rebalancer.report.reviewing  # noqa: F401  # numba, a second


def _damaged(damaged: "list[str] | tuple[str, ...]") -> str:
    """What could not be read, where nothing could be."""
    return f"no cycle could be read: {damaged[0]}" if damaged else ""


def _text(result: "Replay") -> str:
    same = result.cycles - len(result.differences)
    lines = [f"{result.cycles} cycles replayed, {same} byte-equal, {len(result.differences)} differ"]
    lines.append(f"{result.changes} changes, {result.refusals} refusals")
    if result.skipped:
        lines.append(f"{result.skipped} cycles without a keyframe before them were skipped")
    if result.other_code:
        lines.append(f"recorded by other code ({result.other_code}): differences may be that code's")
    lines += [f"damaged: {each}" for each in result.damaged[:SHOWN]]
    lines += [f"line {each.line} cycle {each.cycle}: {each.what} differs" for each in result.differences[:SHOWN]]
    for each in result.differences[:1]:
        both = zip(each.recorded, each.replayed, strict=False)
        start = max(0, next((at for at, (was, now) in enumerate(both) if was != now), 0) - 60)
        lines.append(f"  recorded ...{each.recorded[start : start + 180]}")
        lines.append(f"  replayed ...{each.replayed[start : start + 180]}")
    return "\n".join(lines)


@contextmanager
def _progress(talk: Talk) -> Iterator[Callable[[str, float], None]]:
    """A bar on a terminal, nothing elsewhere."""
    if talk.quiet or not sys.stderr.isatty():
        yield lambda _, __: None
        return
    from rich.console import Console
    from rich.progress import Progress, TaskID

    with Progress(console=Console(stderr=True), transient=True) as progress:
        tasks: dict[str, TaskID] = {}

        def heard(what: str, share: float) -> None:
            if what not in tasks:
                tasks[what] = progress.add_task(what, total=1.0)
            progress.update(tasks[what], completed=share)

        yield heard

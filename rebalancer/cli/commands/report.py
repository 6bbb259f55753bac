"""`rebalancer report`: where the GPUs went, what lending was worth, and what would have been enough."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rebalancer.cli.commands.observe import OBSERVED
from rebalancer.cli.failure import USAGE, Failed, extra_installed
from rebalancer.cli.terminal.talk import QuietOption, Talk

if TYPE_CHECKING:
    from collections.abc import Callable

    from rebalancer.obs.predictions import DayPrediction
    from rebalancer.report.gathering import Gathered
    from rebalancer.report.prices import DatedPrice

SERVICE_JOURNAL = "/var/lib/rebalancer/journal"
UNITS = {"m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}


class ReportOutput(StrEnum):
    """Forms of a report."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


def command(
    last: Annotated[str, typer.Option(help="So much up to the last recorded cycle: 90m, 12h, 30d, 4w.")] = "30d",
    journal: Annotated[
        Path | None,
        typer.Option(
            help="The service's journal: its folder, or one file. Else that of `rebalancer observe` in this folder, or "
            f"{SERVICE_JOURNAL}.",
            envvar="REBALANCER_JOURNAL_DIR",
        ),
    ] = None,
    page: Annotated[
        Path | None, typer.Option(help="Write an HTML page there; it needs no other file.", metavar="FILE")
    ] = None,
    parquet: Annotated[
        Path | None, typer.Option(help="Write the accounts by the hour there, as `-o csv` has them.", metavar="FILE")
    ] = None,
    predictions: Annotated[
        Path | None,
        typer.Option(
            help="Play each UTC day that has ended as it was predicted, add that there, and tell of all that is there."
            " Without it: what predictions.jsonl beside the journal has of that time, which is its metric, too.",
            metavar="FILE",
        ),
    ] = None,
    price: Annotated[
        list[str] | None,
        typer.Option(
            help="USD for a GPU for an hour, in place of the policy's prices; of a pool or an instance type.",
            metavar="POOL_OR_TYPE=USD",
        ),
    ] = None,
    price_table: Annotated[
        Path | None,
        typer.Option(
            "--prices",
            help="CSV with since, instance_type, capacity_type, usd_per_gpu_hour: prices with dates, as of spot; an"
            " empty since or capacity type is any.",
            metavar="FILE",
        ),
    ] = None,
    cluster: Annotated[
        str, typer.Option(help="Name of the cluster in `-o csv`.", envvar="REBALANCER_CLUSTER_NAME")
    ] = "",
    output: Annotated[
        ReportOutput, typer.Option("--output", "-o", help="csv: the accounts by the hour, exact.")
    ] = ReportOutput.TABLE,
    quiet: QuietOption = False,
) -> None:
    """GPU-hours and money by model, team, pool and hour, from the journal alone; what lending moved and spared.

    Every GPU-second counts once; they add up to the capacity, exactly. Late requests are played again: the recorded
    work on the recorded replicas, on each model's entitlement alone, and on what its autoscaler would have made of it.
    """
    _installed(page)
    journal = journal or _journal_here()
    import msgspec

    from rebalancer.app.backfill import stored_past
    from rebalancer.cli.render.window import render_window, window_before
    from rebalancer.obs.journal_lines import NoJournal
    from rebalancer.report.export import as_csv, write_parquet
    from rebalancer.report.gathering import gather
    from rebalancer.report.prices import PriceUnknown, prices
    from rebalancer.report.report import report
    from rebalancer.report.telling import folded, lines

    given, dated = _prices(price or []), _dated(price_table)
    talk = Talk(quiet)
    try:
        with _progress(talk) as heard:
            seen = gather(journal, _seconds(last), heard, predict=predictions is not None)
        result = report(seen, given, _predictions(predictions, journal, seen), dated)
    except NoJournal as error:
        if output is ReportOutput.TABLE and page is None and parquet is None and (past := stored_past(journal)):
            typer.echo(render_window(past))
            typer.echo(f"\nNothing since `rebalancer observe` began: {error}")
            return
        raise Failed(str(error)) from error
    except PriceUnknown as error:
        raise Failed(f"--price: {error}", USAGE) from error
    of = prices(seen.named, given, {shelf for _, shelf in seen.books.capacity}, dated)
    accounts = seen.books, seen.named, of, cluster
    if page is not None:
        from rebalancer.report.page import page as drawn

        _written(page, lambda: page.write_text(drawn(result, seen)))
        talk.say(f"page in {page}")
    if parquet is not None:
        _written(parquet, lambda: write_parquet(parquet, *accounts))
    if output is ReportOutput.CSV:
        typer.echo(as_csv(*accounts), nl=False)
    elif output is ReportOutput.JSON:
        typer.echo(msgspec.json.format(msgspec.json.encode(result), indent=2).decode())
    else:
        before = window_before(stored_past(journal), result.since, result.until)
        typer.echo("\n".join([*before, *folded(lines(result))]))


def _journal_here() -> Path:
    """That of an observer which was started in this folder, else where the chart has the service's."""
    return OBSERVED if OBSERVED.is_dir() else Path(SERVICE_JOURNAL)


def _predictions(path: Path | None, journal: Path, seen: "Gathered") -> "tuple[DayPrediction, ...]":
    """All that `path` has, those just made too; without one what the service stored of the time. Raises Failed."""
    from datetime import UTC, datetime

    from rebalancer.obs.predictions import NAME, store, stored

    if path is None:
        try:
            first = f"{datetime.fromtimestamp(seen.since, UTC):%Y-%m-%d}"
            return tuple(each for each in stored(journal / NAME) if each.day >= first)
        except OSError:  # the journal is a file; or nobody may read the predictions
            return ()
    _written(path, lambda: store(path, seen.predictions))
    return stored(path)


def _seconds(last: str) -> float:
    span = re.fullmatch(r"(\d+(?:\.\d+)?)([mhdw])", last)
    if span is None or not float(span[1]):
        raise Failed(f"--last {last}: a number and m, h, d or w, as 12h or 30d", USAGE)
    return float(span[1]) * UNITS[span[2]]


def _prices(words: list[str]) -> dict[str, float]:
    given = {}
    for word in words:
        name, _, usd = word.partition("=")
        if not name or not re.fullmatch(r"\d+(\.\d+)?", usd):
            raise Failed(f"--price {word}: write POOL_OR_TYPE=USD, as a100=2.50", USAGE)
        given[name] = float(usd)
    return given


def _dated(path: Path | None) -> "dict[str, tuple[DatedPrice, ...]]":
    """Raises Failed."""
    from rebalancer.report.prices import PriceUnknown, dated_prices

    if path is None:
        return {}
    try:
        with path.open(encoding="utf-8-sig", newline="") as lines:
            return dated_prices(lines, path.name)
    except PriceUnknown as error:
        raise Failed(f"--prices: {error}", USAGE) from error
    except (OSError, UnicodeDecodeError) as error:
        raise Failed(f"--prices {path}: cannot be read ({getattr(error, 'strerror', None) or error})") from error


def _installed(page: Path | None) -> None:
    """Before a journal of gigabytes is read. Raises Failed."""
    with extra_installed():
        import rebalancer.report.gathering

        if page is not None:
            import rebalancer.report.page  # noqa: F401  # matplotlib, half a second


def _written(path: Path, write: "Callable[[], object]") -> None:
    try:
        write()
    except OSError as error:
        raise Failed(f"{path}: cannot be written ({error.strerror or error})") from error


@contextmanager
def _progress(talk: Talk) -> "Iterator[Callable[[float], None]]":
    """A bar on a terminal, nothing elsewhere."""
    if talk.quiet or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("reading the journal", total=1.0)
        yield lambda share: progress.update(task, completed=share)

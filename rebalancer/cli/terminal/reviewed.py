"""A comparison of policies at the terminal: its forms, and the limits that end the command with 3."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from rebalancer.cli.failure import USAGE, Failed
from rebalancer.cli.terminal.output import Output, show

if TYPE_CHECKING:
    from rebalancer.report.measures import Limit
    from rebalancer.report.review import PolicyReview


class ReviewOutput(StrEnum):
    """Forms of a comparison of policies."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    MARKDOWN = "markdown"

    @property
    def plain(self) -> Output:
        """The form of that name which every result has."""
        return Output.TABLE if self is ReviewOutput.MARKDOWN else Output(self.value)


ReviewOutputOption = Annotated[
    ReviewOutput, typer.Option("--output", "-o", help="Form of the result; markdown: for a comment of a pull request.")
]
MaxOption = Annotated[
    list[str] | None,
    typer.Option(
        "--max",
        help="End with 3 when there is more: of late-requests, late-percent, gpu-hours, usd, moves, changed-decisions."
        " late-requests=100 for all there are, =+100 for what the proposal adds, =+5% for that in percent.",
        metavar="MEASURE=LIMIT",
    ),
]


def limits_of(words: list[str] | None) -> "list[Limit]":
    """The limits as typed. Raises Failed."""
    from rebalancer.report.measures import NoLimit, limit_of

    limits = []
    for word in words or []:
        try:
            limits.append(limit_of(word))
        except NoLimit as error:
            raise Failed(f"--max {word}: {error}", USAGE) from error
    return limits


def show_review(output: ReviewOutput, review: "PolicyReview") -> None:
    """Print it in the form asked for."""
    import msgspec

    from rebalancer.report.review_telling import lines, markdown
    from rebalancer.report.telling import folded

    if output is ReviewOutput.MARKDOWN:
        typer.echo("\n".join(markdown(review)))
    else:
        show(output.plain, msgspec.json.encode(review), lambda: "\n".join(folded(lines(review))))

"""A review in words: Markdown for a comment of a pull request, and columns for a terminal. Headline first."""

from collections.abc import Iterator, Sequence

from rebalancer.domain.words import counted
from rebalancer.report.measures import CHANGED, GPU_HOURS, LATE, LATE_PERCENT, MOVES, USD, number
from rebalancer.report.report import DASH
from rebalancer.report.review import ModelReview, PolicyReview
from rebalancer.report.telling import columns, instant

WORDS = {
    CHANGED: "decisions that change",
    MOVES: "moves",
    LATE: "late requests",
    LATE_PERCENT: "late, %",
    GPU_HOURS: "GPU-hours",
    USD: "USD",
}
MODELS = ("model", "requests", "late before", "after", "GPU-h before", "after", "moves before", "after")
SPECIAL = str.maketrans({each: f"\\{each}" for each in "|<*_`[]"})
MOVES_TOLD = 3  # of one decision


def rows(of: PolicyReview) -> list[list[str]]:
    """The measures, heads first."""
    body = [
        [
            WORDS[each.name],
            number(each.name, each.before),
            number(each.name, each.after),
            number(each.name, each.change, signed=True),
        ]
        for each in of.measures
    ]
    return [["", of.before, of.after, "change"], *body]


def model_rows(models: Sequence[ModelReview]) -> list[list[str]]:
    """By model, heads first; without moves where nobody compared decisions."""
    body = [
        [
            each.model,
            number(LATE, each.requests),
            number(LATE, each.late_before),
            number(LATE, each.late_after),
            number(GPU_HOURS, each.gpu_hours_before),
            number(GPU_HOURS, each.gpu_hours_after),
            DASH if each.moves_before is None else str(each.moves_before),
            DASH if each.moves_after is None else str(each.moves_after),
        ]
        for each in models
    ]
    wide = len(MODELS) if any(each.moves_after is not None for each in models) else len(MODELS) - 2
    return [row[:wide] for row in (list(MODELS), *body)]


def verdict(of: PolicyReview) -> str:
    """Whether it is within its limits; "" where none was given."""
    if not of.limits:
        return ""
    broken = sum(not each.holds for each in of.limits)
    if not broken:
        return f"Every limit holds ({len(of.limits)})."
    return f"{broken} of {counted(len(of.limits), 'limit')} {'does' if broken == 1 else 'do'} not hold."


def markdown(of: PolicyReview) -> Iterator[str]:
    """Lines of Markdown that GitHub and GitLab show as they stand, tables that may be unfolded below."""
    yield f"### {_plain(of.headline)}"
    yield ""
    yield _plain(of.title) + (f". **{verdict(of)}**" if of.limits else "")
    yield ""
    yield from _table(rows(of))
    if of.limits:
        yield ""
        yield from (f"- [{'x' if each.holds else ' '}] {_plain(each.said)}" for each in of.limits)
    yield from _folded("By model", _table(model_rows(of.models)))
    if of.examples:
        yield from _folded("The first decisions that change", (f"- {_plain(each)}" for each in examples(of)))
    if of.notes or of.damaged:
        yield ""
        yield from (f"- {_plain(each)}" for each in (*of.notes, *damage(of)))


def lines(of: PolicyReview) -> Iterator[str]:
    """For a terminal."""
    yield of.title
    yield f"{of.headline}."
    yield ""
    yield from columns(rows(of))
    yield ""
    yield from columns(model_rows(of.models))
    if of.limits:
        yield ""
        yield verdict(of)
        yield from (f"  {'ok' if each.holds else 'no'}  {each.said}" for each in of.limits)
    if of.examples:
        yield ""
        yield "The first decisions that change:"
        yield from (f"  {each}" for each in examples(of))
    if of.notes or of.damaged:
        yield ""
        yield from (*of.notes, *damage(of))


def examples(of: PolicyReview) -> Iterator[str]:
    """A sentence for each."""
    for each in of.examples:
        before, after = (_moves(moves) for moves in (each.before, each.after))
        yield f"{instant(each.at)}, cycle {each.cycle}: {of.before}: {before}; {of.after}: {after}"


def damage(of: PolicyReview) -> Iterator[str]:
    """A sentence for each thing that could not be read."""
    return (f"Damaged: {each}." for each in of.damaged)


def _moves(moves: Sequence[str]) -> str:
    more = [f"and {len(moves) - MOVES_TOLD} more"] if len(moves) > MOVES_TOLD else []
    return ", ".join([*moves[:MOVES_TOLD], *more]) or "no move"


def _table(rows_: Sequence[Sequence[str]]) -> Iterator[str]:
    heads, *body = rows_
    yield f"| {' | '.join(_plain(cell) or ' ' for cell in heads)} |"
    yield f"|---|{'---:|' * (len(heads) - 1)}"
    yield from (f"| {' | '.join(map(_plain, row))} |" for row in body)


def _folded(summary: str, inner: Iterator[str]) -> Iterator[str]:
    """A blank line after the summary, or what follows is no Markdown to GitHub."""
    yield from ("", "<details>", f"<summary>{summary}</summary>", "", *inner, "", "</details>")


def _plain(text: str) -> str:
    """A name or a reason of somebody's is text, whatever it holds."""
    return " ".join(text.translate(SPECIAL).split("\n"))

"""Words that every sentence for people is made of: a count with its noun, a list, a number that can be read aloud."""

from collections.abc import Sequence

WHOLE_FROM = 10.0  # a reading of 10 or more is told without decimals: 34 requests, not 34.1
MOST_NAMED = 4  # of a list; the rest is counted
CLOCK_IS_OFF = "this machine's clock and the API server's differ by a minute or more"


def counted(count: int, one: str, many: str = "") -> str:
    """`1 replica`, `2 replicas`; `many` where an s does not make the plural."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def replicas(count: int) -> str:
    """`1 replica`, `2 replicas`."""
    return counted(count, "replica")


def gpus(count: int) -> str:
    """`1 GPU`, `2 GPUs`."""
    return counted(count, "GPU")


def figure(value: float) -> str:
    """A reading for people, two significant figures and at most two decimals: 237, 34, 4.2, 0.25, 0.01."""
    size = abs(value)
    text = f"{value:.0f}" if size >= WHOLE_FROM else f"{value:.1f}" if size >= 1.0 else f"{value:.2f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def seconds(value: float, *, above: bool = False) -> str:
    """`0.25 s`; `more than 30 s` of what lies above that, nobody knows how far."""
    return f"{'more than ' if above else ''}{figure(value)} s"


def work_of(amount: float) -> str:
    """`4.2 replicas of work`, `1 replica of work`."""
    number = figure(amount)
    return f"{number} replica{'' if number == '1' else 's'} of work"


def listed(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`; of more than four the rest is counted: `a, b, c and 3 more`."""
    if len(names) > MOST_NAMED:
        names = [*names[: MOST_NAMED - 1], f"{len(names) - MOST_NAMED + 1} more"]
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def node_pool_words(kind: str, limit_from: int | None, limit_to: int | None) -> str:
    """What a change of kind `kind` does to a NodePool: `GPU limit 2 -> 4`, `consolidation is held`."""
    if kind in {"limit", "restore-limit"}:
        before, after = ("none" if limit is None else str(limit) for limit in (limit_from, limit_to))
        return f"GPU limit {before} -> {after}"
    return {"hold": "consolidation is held", "end-hold": "consolidation is free again"}.get(kind, kind)


def sentences(*parts: str) -> str:
    """The parts that are not empty, joined by semicolons."""
    return "; ".join(part for part in parts if part)

"""Findings as a person reads them at night: object by object, the worst first, every word of it."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from rebalancer.api.text.words import printable
from rebalancer.survey.finding import FAIL, OK, SKIP, STATES, WARN, Finding


def rendered(findings: Iterable[Finding]) -> str:
    """What is not well with its fix below it, what is known besides, what nobody looked at, and the count of checks."""
    rows = list(findings)
    groups: dict[tuple[str, str], list[Finding]] = defaultdict(list)
    for each in rows:
        if each.state in {WARN, FAIL}:
            groups[each.about, each.file].append(each)
    worst_first = sorted(groups.values(), key=lambda group: min(STATES.index(each.state) for each in group))
    lines = [line for group in worst_first for line in _group(group)]
    lines += [f"{OK:<4} {each.about} {each.said}" for each in rows if each.state == OK and each.said]
    if page := next((each.docs.partition("#")[0] for each in rows if each.docs), ""):
        lines.append(f"what each trap is: {page}")
    return "\n".join(printable(line) for line in [*lines, *_skipped(rows), _counted(rows)])


def _group(group: Sequence[Finding]) -> Iterator[str]:
    """One object; a check of the service is a line of its own, as it has no trap to name."""
    head = group[0]
    if not head.trap:
        for each in group:
            yield f"{each.state:<4} {each.about} {each.said}"
            if each.fix:
                yield f"     fix: {each.fix}"
        return
    worst = min((each.state for each in group), key=STATES.index)
    yield f"{worst:<4} {head.about}" + (f" in {head.file}" if head.file else "")
    fixes: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for each in sorted(group, key=lambda each: STATES.index(each.state)):
        fixes[each.state, each.trap, each.said].append(each.fix)
    for (state, trap, problem), each_fix in fixes.items():
        yield f"     {state:<4} {trap}: {problem}"
        yield from (f"          fix: {fix}" for fix in dict.fromkeys(each_fix))


def _skipped(rows: Sequence[Finding]) -> Iterator[str]:
    why: dict[str, list[str]] = defaultdict(list)
    for each in rows:
        if each.state == SKIP:
            why[each.said].append(each.about.removeprefix("kind/"))
    yield from (f"not looked at: {', '.join(dict.fromkeys(abouts))}: {reason}" for reason, abouts in why.items())


def _counted(rows: Sequence[Finding]) -> str:
    bad = {state: sum(each.state == state for each in rows) for state in (OK, WARN, FAIL)}
    parts = [f"{bad[OK]} ok", f"{bad[WARN]} warning{'' if bad[WARN] == 1 else 's'}", f"{bad[FAIL]} failed"]
    return f"{sum(bad.values())} checks: {', '.join(parts)}"

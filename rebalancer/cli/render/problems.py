"""`rebalancer config check`: a file's problems, where on the first line of each and what on the second."""

from collections.abc import Sequence

from rebalancer.api.text.words import counted, printable
from rebalancer.settings.problem import Problem


def render_problems(name: str, problems: Sequence[Problem], warnings: Sequence[Problem] = ()) -> str:
    """A line that says how the file `name` is, and below it every problem, or every warning about a good one."""
    shown, head = problems, counted(len(problems), "problem")
    if not problems:
        shown, head = warnings, f"ok, with {counted(len(warnings), 'warning')}" if warnings else "ok"
    lines = [f"{name}: {head}"]
    width = len(str(max((each.line for each in shown), default=0)))
    for each in shown:
        lines.append(f"{each.line or '-':>{width}}  {_where(each)}")
        lines.append(f"{'':>{width}}    {'; '.join(part for part in (each.what, each.fix) if part)}")
    return "\n".join(printable(line) for line in lines)


def _where(problem: Problem) -> str:
    """`pools.a100.gpuLimit: -1, allowed 0 to 1000000`."""
    allowed = f"allowed {problem.allowed}" if problem.allowed else ""
    numbers = ", ".join(part for part in (problem.value, allowed) if part)
    return f"{problem.path or 'the file'}: {numbers}" if numbers else problem.path or "the file"

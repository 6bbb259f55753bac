"""Two runs of `rebalancer simulate` as what a reviewer of a change of policy reads."""

from collections.abc import Sequence

from rebalancer.cli.commands.simulate.simulation import Simulated
from rebalancer.cli.failure import USAGE, Failed
from rebalancer.report.measures import GPU_HOURS, LATE, LATE_PERCENT, USD, Limit, Measure, judged
from rebalancer.report.review import ModelReview, PolicyReview, headline
from rebalancer.sim.contest.outcome import RunOutcome

SIMULATED = (LATE, LATE_PERCENT, GPU_HOURS, USD)


def check(limits: Sequence[Limit], *, alone: bool) -> None:
    """Before anything is played. Raises Failed where there is one run, or a limit of what no simulation has."""
    if alone:
        raise Failed("--max and -o markdown compare two runs: give --compare NAME_OR_FILE", USAGE)
    strange = [limit for limit in limits if limit.measure not in SIMULATED]
    if strange:
        raise Failed(f"--max {strange[0].measure}: a simulation has {', '.join(SIMULATED)}", USAGE)


def compared(simulated: Simulated, limits: Sequence[Limit]) -> PolicyReview:
    """The run that is judged beside the other one."""
    first, second = (run.outcome for run in simulated.runs)
    measures = (
        Measure(LATE, first.late, second.late),
        Measure(LATE_PERCENT, _percent(first), _percent(second)),
        Measure(GPU_HOURS, first.gpu_hours, second.gpu_hours),
        Measure(USD, _usd(first), _usd(second)),
    )
    before = {each.model: each for each in first.models}
    models = []
    for each in second.models:
        then = before.get(each.model)
        late = None if then is None else (then.violation or 0.0) * then.requests
        hours = None if then is None else then.gpu_hours
        now = (each.violation or 0.0) * each.requests
        models.append(ModelReview(each.model, each.requests, late, now, hours, each.gpu_hours))
    return PolicyReview(
        title=simulated.title,
        headline=headline(measures, first.name, second.name),
        before=first.name,
        after=second.name,
        measures=measures,
        models=tuple(models),
        limits=judged(limits, measures),
        notes=tuple(simulated.words[1:]),
    )


def _percent(of: RunOutcome) -> float | None:
    return None if of.violation is None else 100 * of.violation


def _usd(of: RunOutcome) -> float | None:
    return of.cost_usd if of.owned_usd is None or of.rented_usd is None else of.owned_usd + of.rented_usd

"""Everything that is wrong with a policy's text, in one go."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from msgspec.structs import replace

from rebalancer.domain.policy import Policy
from rebalancer.settings import couples, metric_maps, quantities, references, schedules, signs
from rebalancer.settings.document import Document, read_document
from rebalancer.settings.draft import DraftFinding, DraftPart
from rebalancer.settings.problem import Problem, show
from rebalancer.settings.shape import check_shape

__all__ = ["CheckedText", "Problem", "check_document", "check_text", "checked_text"]

Check = Callable[[DraftPart], Iterator[DraftFinding]]

CHECKS: tuple[Check, ...] = (
    references.unique_pool_names,
    references.unique_model_names,
    references.unique_producer_topics,
    references.known_pools,
    references.known_teams,
    references.known_kinds,
    references.one_target_per_pool,
    references.one_model_per_workload,
    references.one_pool_per_node_pool,
    references.warm_where_nodes_come,
    references.no_preemption_by_claims,
    references.distinct_node_labels,
    references.whole_devices,
    couples.known_roles,
    couples.bounds_of_ratios,
    quantities.ordered_replicas,
    quantities.entitled_somewhere,
    quantities.whole_pods,
    quantities.memory_fits,
    quantities.watermarks,
    quantities.surge_windows,
    quantities.turn_in_window,
    quantities.deferred_one_way,
    quantities.takers_need_nothing,
    quantities.voting_signals,
    schedules.unique_schedule_names,
    schedules.bounds_of_schedules,
    schedules.windows_that_happen,
    signs.signs_of_one_place,
    metric_maps.unique_map_names,
    metric_maps.histograms_for_percentiles,
)
SUMS: tuple[Check, ...] = (quantities.entitlements_fit, schedules.scheduled_floors_fit)


class CheckedText(NamedTuple):
    """A policy's text, read once. `policy`: None when there are problems; `document`: None where it cannot be read."""

    policy: Policy | None
    problems: tuple[Problem, ...]
    document: Document | None = None


def check_text(text: str, name: str) -> tuple[Policy | None, tuple[Problem, ...]]:
    """The policy that `text` spells, or None and all its problems in order of their lines; `name` is the file's."""
    return checked_text(text, name)[:2]


def checked_text(text: str, name: str) -> CheckedText:
    """What `check_text` says, with the document that says on which line each value stands."""
    document, problems = read_document(text)
    policy: Policy | None = None
    if document is not None:
        policy, more = check_document(document)
        problems += more
    if problems:
        return CheckedText(None, tuple(sorted(replace(problem, file=name) for problem in problems)), document)
    return CheckedText(policy, (), document)


def check_document(document: Document, *, sums_last: bool = False) -> tuple[Policy | None, tuple[Problem, ...]]:
    """The policy in `document`, or None and all that is wrong with it.

    `sums_last`: GPUs are summed only where nothing else is wrong, for what is to be left out needs none.
    """
    policy, problems = check_shape(document)
    problems += tuple(_disagreements(document, CHECKS))
    if not (sums_last and problems):
        problems += tuple(_disagreements(document, SUMS))
    return (None, problems) if problems else (policy, ())


def _disagreements(document: Document, checks: tuple[Check, ...]) -> Iterator[Problem]:
    draft = DraftPart((), document.value)
    for check in checks:
        for finding in check(draft):
            given = document.get(finding.path)
            yield Problem(
                line=document.line(finding.path),
                path=document.spell(finding.path),
                value="" if given is None else show(given),
                what=finding.what,
                allowed=finding.allowed,
                fix=finding.fix,
                at=finding.path,
            )

"""The suite's cases by name, for who wants to look at one of them: `S2/32/60/1` is S2 with 32 GPUs and 60 s, day 1."""

from collections.abc import Iterator

from rebalancer.domain.policy import Policy
from rebalancer.sim.contest.one_pool import seen_signals, signal_notes
from rebalancer.sim.contest.recorded import Unfit, with_gpus
from rebalancer.sim.product import default_policy
from rebalancer.sim.scenario import BY_MINUTE, Scenario
from rebalancer.sim.suite.cases import SuiteCase, cases, every_case
from rebalancer.sim.suite.given import GIVEN

GENERATED = "generated"  # the day of a case that needs no folder of traces


def named_cases() -> dict[str, SuiteCase]:
    """By name. Without Faro's: they are about lost utility, which a share of late requests does not show."""
    return {f"{case.budget}/{case.day}": case for case in cases() if case.scenario not in BY_MINUTE}


def no_trace(name: str) -> str | None:
    """Returns what a name of the benchmarks' tables is that nothing here plays, and what plays it; None for others."""
    scenario, *parts = name.split("/")
    if scenario not in {case.scenario for case in every_case()}:
        return None
    alike = [each for each in named_cases() if each.startswith(f"{scenario}/")]
    given = next((part for part in parts if part in GIVEN), None)
    if alike and given is None:
        return f"{name} is no case of the benchmarks' {scenario}; there are {', '.join(alike)}"
    suite = f"python -m rebalancer.sim.suite --scenarios {scenario}{f' --given {given}' if given else ''}"
    more = f"; with exact figures here: {', '.join(alike)}" if alike else ""
    return f"{name} is no trace but of the benchmarks' suite, which plays it: {suite}{more}"


def ruling(scenario: Scenario, policy: Policy) -> Policy:
    """The policy on the scenario's own GPUs: its pools, targets and GPUs of a replica, and its models in its order.

    Raises Unfit when a model is missing, or more is entitled to models than there is.
    """
    by_id = {model.id: model for model in policy.models}
    missing = [model.name for model in scenario.models if model.name not in by_id]
    if missing:
        raise Unfit(
            f"no model {', '.join(missing)} in the policy, which {scenario.name} serves; it has {', '.join(by_id)}"
        )
    cluster = default_policy(scenario)
    models = tuple(
        by_id[there.id].model_copy(
            update={
                "targets": there.targets,
                "gpus_per_replica": there.gpus_per_replica,
                "pods_per_replica": 1,
                "signals": seen_signals(by_id[there.id].signals),
            }
        )
        for there in cluster.models
    )
    return with_gpus(policy.model_copy(update={"pools": cluster.pools, "models": models}), {})


def ruling_notes(scenario: Scenario, policy: Policy) -> Iterator[str]:
    """What of the policy does not count where the scenario brings its own GPUs, in sentences."""
    wide = {model.name: model.gpus for model in scenario.models}
    other = [each.id for each in policy.models if each.id in wide and each.gpus_per_replica != wide[each.id]]
    if other or sum(pool.gpu_limit for pool in policy.pools) != scenario.gpus:
        yield (
            f"{scenario.name} brings its own GPUs, {scenario.gpus}, and replicas: the policy's pools, targets and"
            " gpusPerReplica do not count"
        )
    yield from signal_notes(policy)

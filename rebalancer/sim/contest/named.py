"""The suite's cases by name, for who wants to look at one of them: `S2/32/60/1` is S2 with 32 GPUs and 60 s, day 1."""

from rebalancer.domain.policy import Policy
from rebalancer.sim.contest.recorded import Unfit, seen_signals
from rebalancer.sim.scenario import BY_MINUTE, Scenario
from rebalancer.sim.suite.cases import SuiteCase, cases

GENERATED = "generated"  # the day of a case that needs no folder of traces


def named_cases() -> dict[str, SuiteCase]:
    """By name. Without Faro's: they are about lost utility, which a share of late requests does not show."""
    return {f"{case.budget}/{case.day}": case for case in cases() if case.scenario not in BY_MINUTE}


def ruling(scenario: Scenario, policy: Policy) -> Policy:
    """The policy with the scenario's models and signals only, in its order. Raises Unfit when a model is missing."""
    by_id = {model.id: model for model in policy.models}
    missing = [model.name for model in scenario.models if model.name not in by_id]
    if missing:
        raise Unfit(
            f"no model {', '.join(missing)} in the policy, which {scenario.name} serves; it has {', '.join(by_id)}"
        )
    models = (by_id[model.name] for model in scenario.models)
    return policy.model_copy(
        update={"models": tuple(each.model_copy(update={"signals": seen_signals(each.signals)}) for each in models)}
    )

"""Two roles of one model in the simulator: prefill and decode stay within their ratio through a day's swing."""

import numpy as np
import pytest

from rebalancer.domain.policy import Policy
from rebalancer.domain.role_ratio import RoleRatio
from rebalancer.sim.product import default_policy
from rebalancer.sim.product.run import Actuation, play_on
from rebalancer.sim.product.stage import Stage
from rebalancer.sim.scenario import Scenario, ScenarioModel

pytestmark = pytest.mark.slow  # 5 s

SECONDS, GPUS = 2400, 12
LEAST, MOST = 0.5, 1.0
PREFILL, DECODE = "prefill", "decode"


def a_model(name: str, busy: tuple[float, float], first: int) -> ScenarioModel:
    """Work that keeps so many replicas busy in the first half and so many in the second, 0.4 replica-seconds each."""
    work = np.repeat(np.array(busy), SECONDS // 2)
    return ScenarioModel(name, work, work / 0.4, first=first, start_seconds=30)


# Decode alone rises, and the third model falls: decode could have 8, and may not without 4 of prefill.
SCENARIO = Scenario(
    "roles",
    "0",
    (a_model(PREFILL, (0.5, 0.5), 2), a_model(DECODE, (1.0, 6.0), 3), a_model("other", (5.0, 0.5), 7)),
    (GPUS,),
    SECONDS,
)


def a_policy_of(ratio: RoleRatio | None) -> Policy:
    policy = default_policy(SCENARIO)
    models = [model.model_copy(update={"ratio": ratio}) if model.id == PREFILL else model for model in policy.models]
    return policy.model_copy(update={"models": tuple(models)})


def played(ratio: RoleRatio | None, actuation: Actuation) -> Stage:
    policy = a_policy_of(ratio)
    models = [model.model_copy(update={"actuation": actuation}) for model in policy.models]
    policy = policy.model_copy(update={"models": tuple(models)})
    stage = Stage(SCENARIO, policy, seed=0)
    play_on(stage, policy)
    return stage


def seconds_outside(stage: Stage) -> int:
    """In which the replicas asked for are out of the ratio."""
    prefill, decode = stage.desired[0], stage.desired[1]
    return int(((prefill < LEAST * decode) | (prefill > MOST * decode)).sum())


@pytest.mark.parametrize("actuation", ["scale", "bounds"])
def test_the_ratio_holds_in_every_second_while_one_role_alone_rises(actuation: Actuation) -> None:
    coupled = played(RoleRatio.model_validate({"to": DECODE, "min": LEAST, "max": MOST}), actuation)
    assert seconds_outside(coupled) == 0
    assert coupled.desired[1].max() >= 6, "decode has what its work needs"
    assert coupled.desired[0][-1] >= 3, "prefill went along, though its own work asks for one"
    assert seconds_outside(played(None, actuation)) > 600, "uncoupled decode goes up alone"

"""Gate A: Faro's baselines on this world against Faro's own simulator, run again with its perfect-forecast set-up."""

from functools import cache

import pytest

from rebalancer.sim.controller import Controller
from rebalancer.sim.peers.faro.controllers import OnRequests
from rebalancer.sim.peers.faro.reactive import Aiad, Oneshot
from rebalancer.sim.peers.static import Static
from rebalancer.sim.requests.scenarios import s1a
from rebalancer.sim.requests.world import play_requests
from tests.beside import recorded_traffic

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]  # five runs of 2.7 million requests, 4 s each on a free core

SEED, DAY = 42, 11
# Lost utility and mean violation in percent, as Faro's simulator says.
THEIRS = {
    ("FairShare", 32): (2.06, 16.4),
    ("AIAD", 32): (1.73, 9.6),
    ("AIAD", 36): (1.41, 7.5),
    ("Oneshot", 32): (4.13, 34.2),
    ("Oneshot", 36): (3.90, 32.4),
}
BOUND = 0.10


def controller(policy: str) -> Controller:
    if policy == "FairShare":
        return Static()
    return OnRequests(Aiad() if policy == "AIAD" else Oneshot())


@cache
def ours(policy: str, gpus: int) -> tuple[float, float]:
    case = s1a(recorded_traffic(), DAY, gpus, SEED, first=3 if policy == "FairShare" else 1)
    minutes = play_requests(case, controller(policy), policy).minutes
    return minutes.lost_utility, 100 * minutes.mean_violation


@pytest.mark.parametrize(("policy", "gpus"), THEIRS)
def test_gate_a_a_baseline_of_faro_comes_within_a_tenth_of_its_own_simulator(
    policy: str, gpus: int, capsys: pytest.CaptureFixture[str]
) -> None:
    lost, violation = ours(policy, gpus)
    their_lost, their_violation = THEIRS[policy, gpus]
    with capsys.disabled():
        print(  # noqa: T201  # a gate shows both numbers
            f"\n{policy} {gpus}: lost utility {lost:.3f} (Faro's simulator {their_lost}),"
            f" mean violation {violation:.2f} % ({their_violation} %)"
        )
    assert lost == pytest.approx(their_lost, rel=BOUND)
    assert violation == pytest.approx(their_violation, rel=BOUND)


def test_gate_a_baselines_rank_as_in_faros_own_simulator() -> None:
    assert sorted(THEIRS, key=lambda cell: ours(*cell)[0]) == sorted(THEIRS, key=lambda cell: THEIRS[cell][0])

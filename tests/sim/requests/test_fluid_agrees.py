"""The fast path of Faro's jobs against every request simulated."""

import pytest

from rebalancer.sim.fluid.fast import play
from rebalancer.sim.peers.faro.controllers import OnFluid, OnRequests
from rebalancer.sim.peers.faro.reactive import Aiad
from rebalancer.sim.peers.static import Static
from rebalancer.sim.requests.fluid import fluid_minutes
from rebalancer.sim.requests.scenarios import s1b
from rebalancer.sim.requests.world import play_requests
from tests.beside import recorded_traffic

# Clean arrivals, 32 replicas, one seed. The fluid form knows neither the spread of service times nor the turns that
# replicas take: under AIAD it sees a tenth less violation, with fixed replicas a fiftieth.
BOUND = 0.15


@pytest.mark.slow
@pytest.mark.timeout(600)  # two runs of 2.7 million requests
@pytest.mark.parametrize("policy", ["FairShare", "AIAD"])
def test_the_fluid_form_sees_the_utility_that_requests_lose(policy: str, capsys: pytest.CaptureFixture[str]) -> None:
    fixed = policy == "FairShare"
    case = s1b(recorded_traffic(), 11, 32, 42, first=3 if fixed else 1)
    requests = play_requests(case, Static() if fixed else OnRequests(Aiad()), policy).minutes
    fluid = fluid_minutes(play(case.scenario, Static() if fixed else OnFluid(Aiad()), policy))
    with capsys.disabled():
        print(  # noqa: T201  # a gate shows both numbers
            f"\n{policy}: lost utility {requests.lost_utility:.3f} by requests, {fluid.lost_utility:.3f} fluid;"
            f" mean violation {100 * requests.mean_violation:.2f} and {100 * fluid.mean_violation:.2f} %"
        )
    assert fluid.lost_utility == pytest.approx(requests.lost_utility, rel=BOUND)
    assert fluid.mean_violation == pytest.approx(requests.mean_violation, rel=BOUND)

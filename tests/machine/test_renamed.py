"""A model is called otherwise in the policy while its target stays: under load, in act, with a loan out.

To the world it is the same Deployment, so the oracle judges on by the policy as it was.
"""

from collections.abc import Iterator

import pytest
import structlog

from rebalancer.domain.policy import Policy
from rebalancer.sim.product.clock import still
from rebalancer.world import WorldHpa, WorldScaledObject
from tests.machine.quiet import be_quiet
from tests.machine.service import INSTALLATION
from tests.machine.stage import Stage
from tests.machine.worlds import STEP_SECONDS, ModelSpec, PoolSpec, WorldSpec, rate_of

BORROWER, LENDER = "a", "b"


class Renamed:
    """Model a holds 6 of its 3, three of them b's, when `name` becomes `name-two`.

    `knows`: the policy says that producers go on to say `name`.
    """

    def __init__(self, owner: str, name: str, *, knows: bool = True) -> None:
        models = tuple(
            ModelSpec(each, "x", 1, 2, own, 20.0, owner, level)
            for each, own, level in ((BORROWER, 3, 2.0), (LENDER, 5, 4.0))
        )
        self.stage = Stage(WorldSpec(1, (PoolSpec("x", (4, 4)),), models, 0.0))
        self.name, self.knows = name, knows

    async def lives(self, minutes: float) -> None:
        for _ in range(round(minutes * 60 / STEP_SECONDS)):
            await self.stage.live(STEP_SECONDS)
            self.stays_ours()

    def stays_ours(self) -> None:
        """Once we have written to an autoscaler, nobody gives it back."""
        world = self.stage.world
        objects: list[WorldHpa | WorldScaledObject] = [*world.scaled_objects.values()] or [
            *world.hpas.values()
        ]  # KEDA's HPAs carry its own
        for each in objects:
            if each.target in self.stage.oracle.ours:
                assert INSTALLATION in "".join(each.annotations.values()), f"{each.target} was handed back"

    def asks(self, borrower: float, lender: float) -> None:
        """Their users keep so many replicas busy."""
        self.stage.turn(BORROWER, rate_of(borrower), 20.0)
        self.stage.turn(LENDER, rate_of(lender), 20.0)

    def serving(self) -> dict[str, int]:
        return dict(self.stage.oracle.serving())

    def policy(self) -> Policy:
        """As the file has it now: the same target, another id."""
        more = {"id": f"{self.name}-two", "aliases": (self.name,) if self.knows else ()}
        models = [
            model.model_copy(update=more) if model.id == self.name else model for model in self.stage.policy.models
        ]
        return self.stage.policy.model_copy(update={"models": tuple(sorted(models, key=lambda model: model.id))})

    async def lends_and_is_renamed(self) -> None:
        await self.lives(3)
        self.asks(5.2, 0.5)
        await self.lives(6)
        assert self.serving() == {BORROWER: 6, LENDER: 2}
        self.stage.service.reload(self.policy())
        await self.lives(2)


@pytest.fixture(autouse=True, scope="module")
def quiet() -> Iterator[None]:
    before = structlog.get_config()
    be_quiet()
    yield
    structlog.configure(**before)


@pytest.mark.parametrize("name", [BORROWER, LENDER])
@pytest.mark.parametrize(
    "owner", ["hpa", pytest.param("none", marks=pytest.mark.slow), pytest.param("keda", marks=pytest.mark.slow)]
)
def test_nothing_goes_for_a_new_name_and_the_loan_comes_home_when_the_lender_needs_it(owner: str, name: str) -> None:
    renamed = Renamed(owner, name)

    async def live() -> None:
        await renamed.lends_and_is_renamed()
        writes = renamed.stage.oracle.counts["writes"]
        assert renamed.serving() == {BORROWER: 6, LENDER: 2}
        names = {BORROWER, LENDER} - {name} | {f"{name}-two"}
        memory = renamed.stage.service.ports.memory
        assert {*memory.models} == names, "the old name is forgotten"
        assert {each for loan in memory.loans for each in (loan.borrower, loan.owner)} == names
        renamed.asks(2.0, 4.4)
        await renamed.lives(5)
        assert renamed.serving() == {BORROWER: 3, LENDER: 5}
        assert renamed.stage.oracle.counts["writes"] - writes <= 8, "two names fight over a target"
        assert renamed.stage.oracle.verdicts == []

    with still() as runner:
        runner.run(live())


def test_of_a_new_name_that_no_producer_knows_nothing_goes_and_it_is_said_that_it_is_not_seen() -> None:
    renamed = Renamed("hpa", BORROWER, knows=False)

    async def live() -> None:
        await renamed.lends_and_is_renamed()
        await renamed.lives(5)
        assert renamed.serving() == {BORROWER: 6, LENDER: 2}
        assert renamed.stage.decision is not None
        told = {one.model: one.demand for one in renamed.stage.decision.plan.models}
        assert told == {"a-two": None, LENDER: 2}
        assert renamed.stage.oracle.verdicts == []

    with still() as runner:
        runner.run(live())

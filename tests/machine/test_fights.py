"""Over whom we stand down is held against who really fights."""

from rebalancer.act.originals import ANNOTATION
from rebalancer.domain.plan import Change, Plan, Refusal
from rebalancer.domain.snapshot import TargetView
from tests.machine.fights import Fights
from tests.machine.service import INSTALLATION
from tests.machine.test_oracle import Bench, a_model
from tests.machine.worlds import START, ModelSpec


class Ring:
    """The bench's model `a`, of which we asked for 4 replicas last; `kubectl` writes other numbers."""

    def __init__(self, *models: ModelSpec, ours: bool = True) -> None:
        self.bench = Bench(*models)
        self.fights = Fights(self.bench.world, self.bench.oracle)
        if ours:
            self.bench.oracle.ours[self.bench.ref("a")] = 4, 4
        self.fights.look()

    def somebody_writes(self, *replicas: int) -> None:
        for each in replicas:
            self.bench.world.scale(self.bench.ref("a"), each, "kubectl")
            self.wait(5.0)

    def sets(self, low: int, high: int, writer: str = "kubectl") -> None:
        (hpa,) = self.bench.world.hpas.values()
        self.bench.world.set_bounds(hpa, low, high, {ANNOTATION: f'{{"min":1,"max":9,"by":"{INSTALLATION}"}}'}, writer)
        self.wait(5.0)

    def wait(self, seconds: float) -> None:
        self.bench.live(seconds)
        self.fights.look()

    def judged(self, *, writes: bool = False, refuses: bool = False) -> str:
        target = TargetView(pool="x", namespace="serving", kind="Deployment", name="a")
        changes = (Change("1", "grant", "a", target, 4, 5, 5, ""),) if writes else ()
        refusals = (Refusal("foreign", "a", 4, 5, "kubectl changed Deployment a 2 times"),) if refuses else ()
        self.fights.judge(Plan(1, START, changes=changes, refusals=refusals), self.bench.oracle.policy)
        return self.bench.rules


def test_a_write_over_two_changes_by_somebody_else_is_seen() -> None:
    ring = Ring()
    ring.somebody_writes(5)
    assert ring.judged(writes=True) == ""
    ring.somebody_writes(3)
    assert ring.judged(writes=True) == "f"


def test_one_after_our_numbers_stood_again_is_none() -> None:
    ring = Ring()
    ring.somebody_writes(5, 3, 4)
    ring.wait(40.0)
    assert ring.judged(writes=True) == ""


def test_a_fight_that_was_repaired_is_not_to_be_told_for_ever() -> None:
    ring = Ring()
    ring.somebody_writes(5, 3, 4)
    assert ring.judged(refuses=True) == ""
    ring.wait(60.0)
    assert ring.judged(refuses=True) == "f"


def test_that_it_was_repaired_is_known_from_a_start_on_whose_checkpoint_is_older() -> None:
    ring = Ring()
    ring.somebody_writes(5, 3)
    kept_at = ring.bench.world.now
    ring.somebody_writes(4)
    ring.wait(30.0)
    ring.fights.restarted(kept_at)
    ring.wait(30.0)
    assert ring.judged(refuses=True) == ""
    ring.wait(30.0)
    assert ring.judged(refuses=True) == "f"


def test_a_person_ends_what_was_and_not_what_comes() -> None:
    ring = Ring()
    ring.somebody_writes(5, 3)
    ring.fights.stood_up("a")
    ring.wait(10.0)
    assert ring.judged(writes=True) == ""
    ring.somebody_writes(5, 3)
    assert ring.judged(writes=True) == "f"


def with_bounds_set_by_somebody() -> Ring:
    """An HPA at 4 to 4 by us, which somebody sets to 1 to 9."""
    ring = Ring(a_model(owner="hpa"))
    ring.sets(4, 4, writer="")
    ring.sets(1, 9)
    return ring


def test_one_of_two_bounds_that_is_put_back_is_neither_a_change_nor_a_repair() -> None:
    ring = with_bounds_set_by_somebody()
    ring.sets(1, 4)
    assert ring.judged(writes=True) == ""
    ring.wait(40.0)
    ring.sets(1, 9)
    assert ring.judged(writes=True) == "f"


def test_our_own_write_beside_a_bound_that_somebody_set_is_no_repair() -> None:
    ring = with_bounds_set_by_somebody()
    ring.bench.oracle.ours[ring.bench.ref("a")] = 1, 4
    ring.sets(1, 4, writer="")
    ring.wait(40.0)
    ring.sets(1, 9)
    assert ring.judged(writes=True) == "f"


def test_two_changes_after_a_person_said_so_are_a_fight_though_the_first_came_before_we_ever_wrote() -> None:
    for changes, broken in (((5,), "f"), ((5, 3), "")):
        ring = Ring(ours=False)
        ring.wait(5.0)
        ring.fights.stood_up("a")
        ring.wait(30.0)
        ring.somebody_writes(*changes[:1])
        ring.bench.oracle.ours[ring.bench.ref("a")] = 4, 4
        ring.somebody_writes(*changes[1:])
        assert ring.judged(refuses=True) == broken


def test_who_is_in_no_policy_as_we_start_fights_with_nobody_before() -> None:
    for models, broken in ((("a", "b"), "f"), (("b",), "")):
        ring = Ring()
        ring.somebody_writes(5, 3)
        ring.wait(5.0)
        policy = ring.bench.oracle.policy
        named = tuple(model for model in policy.models if model.id in models)
        ring.bench.oracle.policy = policy.model_copy(update={"models": named})
        ring.fights.restarted(ring.bench.world.now)
        ring.bench.oracle.policy = policy
        assert ring.judged(writes=True) == broken


def test_what_a_number_was_before_an_older_checkpoint_is_not_known_so_nobody_puts_it_back() -> None:
    for lost, broken in ((False, "f"), (True, "")):
        ring = Ring(ours=False)
        first = ring.bench.world.deployments[ring.bench.ref("a")].replicas
        kept_at = START if lost else ring.bench.world.now + 60.0
        ring.somebody_writes(first + 2)
        ring.fights.restarted(kept_at)
        ring.somebody_writes(first + 1, first)
        ring.wait(60.0)
        assert ring.judged(refuses=True) == broken


def test_numbers_of_before_an_older_checkpoint_may_be_known_to_a_start_so_they_are_neither_change_nor_repair() -> None:
    ring = Ring(ours=False)
    first = ring.bench.world.deployments[ring.bench.ref("a")].replicas
    ring.wait(5.0)
    ring.somebody_writes(first + 2)
    ring.fights.restarted(START)
    ring.somebody_writes(first, first + 1)  # the first of these puts it back, for who knows what it was
    ring.wait(5.0)
    assert ring.judged(writes=True) == ""
    ring.somebody_writes(first + 2)
    ring.wait(60.0)
    assert ring.judged(refuses=True) == ""


def test_what_a_restart_lost_is_no_fight_that_we_know_of() -> None:
    ring = Ring()
    ring.somebody_writes(5, 3)
    ring.fights.restarted(START)
    ring.fights.restarted(ring.bench.world.now)  # from a checkpoint that does not know it either
    assert ring.judged(writes=True) == ""


def test_nor_is_what_was_written_since_the_last_look_before_it() -> None:
    ring = Ring()
    ring.somebody_writes(5)
    ring.bench.world.scale(ring.bench.ref("a"), 3, "kubectl")
    ring.fights.restarted(ring.bench.world.now)
    ring.wait(5.0)
    assert ring.judged(writes=True) == ""

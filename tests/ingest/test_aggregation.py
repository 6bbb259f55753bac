"""A service behind an aggregate tier decides as one consumer that reads everything, and takes nothing blindly."""

import asyncio
from dataclasses import dataclass, field

import pytest
from aiokafka import TopicPartition
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from structlog.testing import capture_logs

from rebalancer.domain.memory import Memory
from rebalancer.domain.plan import Plan
from rebalancer.domain.readings import ModelLoad
from rebalancer.domain.snapshot import Snapshot
from rebalancer.ingest.aggregation import HELD_SECONDS, MAX_WAITING
from rebalancer.ingest.completeness import BEHIND_SECONDS
from rebalancer.planning import plan as decide
from tests.ingest.tier import METRICS, PARTITIONS, PODS, POLICY, Tier, a_record, a_sample_event

CYCLE_SECONDS = 5
LOOK_AHEAD_SECONDS = 75  # within it each model is looked ahead for anew, from samples that both have by then
MEMBERS = 4
BUSY, CALM, FLOODED = 3.9, 0.4, 12.0  # requests in flight of a pod

Decreases = frozenset[tuple[str, int]]


def decreases(plan: Plan) -> Decreases:
    """Each (model, replicas left) that a plan would come to by taking some."""
    return frozenset((one.model, one.replicas_to) for one in plan.changes if one.replicas_to < one.replicas_from)


@dataclass
class Judged:
    """Both services beside each other. `places`: partition of each pod; `levels`: requests in flight of each pod."""

    tier: Tier = field(default_factory=lambda: Tier(POLICY, MEMBERS))
    places: dict[tuple[str, int], int] = field(default_factory=dict)
    levels: dict[tuple[str, int], float] = field(default_factory=dict)
    stalled: set[int] = field(default_factory=set)
    memory: Memory = field(default_factory=Memory)
    seconds: int = 0
    taken: int = 0
    refused: int = 0
    before: Decreases = frozenset()

    def __post_init__(self) -> None:
        for model in "ab":
            for pod in range(PODS):
                self.places.setdefault((model, pod), pod % PARTITIONS)
                self.levels.setdefault((model, pod), CALM)
        for partition in range(PARTITIONS):
            self.tier.gives(partition, partition)

    def model_is(self, model: str, level: float) -> None:
        self.levels |= {(model, pod): level for pod in range(PODS)}

    def lives(self, seconds: int) -> None:
        """Second by second; what the tier's service would take, the other one takes, or took a moment ago."""
        for _ in range(seconds):
            self.seconds += 1
            self.tier.second(
                [
                    (model, pod, self.levels[model, pod], self.places[model, pod])
                    for (model, pod) in self.places
                    if (self.seconds + pod) % self.tier.every_seconds == 0
                ],
                self.stalled,
            )
            if self.seconds % CYCLE_SECONDS == 0:
                self.cycle()

    def cycle(self) -> None:
        assert CYCLE_SECONDS >= BEHIND_SECONDS, "the cycle before is as old as samples may be"
        now, number = self.tier.clock.at, self.seconds // CYCLE_SECONDS
        one, other = (each.state.snapshot(now, number) for each in (self.tier.alone, self.tier.behind))
        alone, behind = decide(one, POLICY, self.memory), decide(other, POLICY, self.memory)
        looked = decide(looking_ahead_with(one, other), POLICY, self.memory)
        takes, would = decreases(behind.plan), decreases(alone.plan) | decreases(looked.plan)
        assert takes <= would | self.before, f"takes {takes} where one consumer takes {would}, {self.before} before"
        self.before, self.memory = would, alone.memory
        self.taken += bool(takes)
        self.refused += bool(would and not takes)

    def same(self) -> None:
        """Both hold the same samples: they read the same out of them, and decide the same."""
        now, number = self.tier.clock.at, self.seconds // CYCLE_SECONDS + 1
        alone, behind = (one.state.snapshot(now, number) for one in (self.tier.alone, self.tier.behind))
        assert [as_read(load) for load in behind.loads] == [as_read(load) for load in alone.loads]
        one, other = decide(alone, POLICY, self.memory).plan, decide(behind, POLICY, self.memory).plan
        assert other.changes == one.changes
        assert [(each.guard, each.subject) for each in other.refusals] == [(e.guard, e.subject) for e in one.refusals]
        assert [(each.model, each.demand) for each in other.models] == [
            (each.model, each.demand) for each in one.models
        ]


def as_read(load: ModelLoad) -> ModelLoad:
    """Sums of float32 depend on the order in which partitions came, and an outlook on when it was made.

    How late samples usually are is the one thing that both see with different eyes.
    """
    means = {
        name: pytest.approx(value, abs=1e-4) if isinstance(value := getattr(load.work, name), float) else value
        for name in load.work.__struct_fields__
    }
    carries = None if load.carries is None else pytest.approx(load.carries.learnt, rel=1e-3)
    return replace(load, work=means, carries=carries, outlook=None, lag_seconds=0.0)


def looking_ahead_with(one: Snapshot, other: Snapshot) -> Snapshot:
    """`one`, had it looked ahead when `other` did: of models of which both have read the same.

    Outlooks are made some seconds apart, and at the edge a second decides whether a replica goes.
    """
    loads = zip(one.loads, other.loads, strict=True)
    return replace(
        one,
        loads=tuple(
            replace(mine, outlook=theirs.outlook) if as_read(theirs) == as_read(mine) else mine
            for mine, theirs in loads
        ),
    )


def test_with_every_partition_read_both_are_the_same_all_along() -> None:
    judged = Judged()
    judged.model_is("a", FLOODED)
    judged.lives(60)
    assert judged.taken, "b has replicas to spare and a wants them"
    judged.same()
    judged.model_is("b", BUSY)
    judged.lives(30)
    judged.same()


def test_while_a_partition_is_not_read_nothing_is_taken_from_a_model_that_became_busy_there() -> None:
    judged = Judged(Tier(POLICY, MEMBERS, every_seconds=30))  # a sample stands for a minute and a half
    judged.lives(120)
    judged.stalled = {2}
    judged.model_is("a", FLOODED)
    judged.levels["b", 2] = 3 * FLOODED  # the one pod in the partition that nobody reads: three of four say calm
    judged.lives(60)
    judged.stalled = set()
    judged.lives(LOOK_AHEAD_SECONDS)
    judged.same()


def test_a_process_that_dies_and_one_that_does_not_know_that_its_partition_went_count_nothing_twice() -> None:
    judged = Judged()
    judged.model_is("a", BUSY)
    judged.lives(30)
    judged.stalled = {0}  # dead
    judged.lives(8)
    judged.tier.gives(0, 1)
    judged.tier.gives(1, 3)  # and 1 goes on with it for a while
    judged.lives(12)
    judged.tier.forgets(1, 1)
    judged.lives(LOOK_AHEAD_SECONDS)
    judged.same()
    assert judged.tier.behind.counts["events"] > judged.tier.alone.counts["events"], "some came twice"


def test_what_is_sent_again_and_again_for_want_of_an_answer_counts_once() -> None:
    judged = Judged()
    judged.model_is("b", BUSY)
    judged.lives(60)
    judged.tier.deaf = True
    judged.model_is("b", 0.0)
    judged.lives(40)
    judged.tier.deaf = False
    judged.lives(LOOK_AHEAD_SECONDS)
    judged.same()


def test_what_is_read_again_from_a_rejected_record_on_that_waits_for_its_dead_letter_counts_once() -> None:
    judged = Judged()
    judged.model_is("b", BUSY)
    judged.lives(60)
    judged.tier.puts(0, b"\xff no event")
    judged.model_is("b", 0.0)
    judged.lives(40)
    judged.tier.forgets(0, 0)
    judged.tier.gives(0, 1)
    judged.lives(LOOK_AHEAD_SECONDS)
    judged.same()


def test_who_has_read_more_than_it_could_hand_on_is_full_until_it_was_sent() -> None:
    tier, one = Tier(POLICY, 1), TopicPartition(METRICS, 0)
    tier.gives(0, 0)
    tier.lost = True
    value, aggregation = a_sample_event("a", 0, CALM, tier.clock.at), tier.members[0].aggregation
    aggregation.read({one: [a_record(METRICS, 0, n, value, tier.clock.at) for n in range(MAX_WAITING)]}, tier.clock.at)
    assert asyncio.run(aggregation.hand_on({one: 0.0}, PARTITIONS)) == {}
    assert aggregation.full
    tier.lost = False
    assert asyncio.run(aggregation.hand_on({one: 0.0}, PARTITIONS)) == {one: MAX_WAITING}
    assert not aggregation.full


def test_letters_that_nobody_takes_hold_the_group_back_for_an_hour_and_no_longer() -> None:
    tier, one = Tier(POLICY, 1), TopicPartition(METRICS, 0)
    tier.gives(0, 0)
    aggregation = tier.members[0].aggregation

    def read(offset: int, value: bytes = b"\xff no event") -> int | None:
        aggregation.read({one: [a_record(METRICS, 0, offset, value, tier.clock.at)]}, tier.clock.at)
        return asyncio.run(aggregation.hand_on({one: 0.0}, PARTITIONS)).get(one)

    assert read(0) == 0
    tier.clock.at += HELD_SECONDS - 1.0
    assert read(1) == 0
    assert aggregation.held_back_records == 2
    tier.clock.at += 1.0
    with capture_logs() as logs:
        assert read(2) == 1, "what came within the hour has not waited for so long"
    ((first, below),) = [(line["first"], line["below"]) for line in logs if line["log_level"] == "error"]
    assert (first, below) == (0, 1)
    tier.clock.at += HELD_SECONDS
    assert read(3) == 3


@dataclass(frozen=True)
class Trouble:
    """What happens at a second: a partition moves, a pod's load or partition changes, sends fail, poison comes."""

    kind: str
    after: int
    number: int
    member: int
    level: float


troubles = st.lists(
    st.builds(
        Trouble,
        st.sampled_from(
            ["moves", "moves", "gap", "zombie", "dies", "load", "pods", "deaf", "lost", "poison", "places"]
        ),
        st.integers(0, 12),
        st.integers(0, 2 * PODS - 1),
        st.integers(0, MEMBERS - 1),
        st.sampled_from([0.0, CALM, BUSY, FLOODED]),
    ),
    max_size=8,
)


@given(troubles, st.sampled_from([CALM, BUSY, FLOODED]), st.sampled_from([CALM, BUSY]))
@settings(
    max_examples=12, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate)
)  # shrinking takes minutes
def test_whatever_happens_to_the_tier_it_takes_no_more_and_comes_to_the_same(
    happening: list[Trouble], a: float, b: float
) -> None:
    judged = Judged()
    judged.model_is("a", a)
    judged.model_is("b", b)
    judged.lives(30)
    for trouble in happening:
        befall(judged, trouble)
        judged.lives(trouble.after)
    heal(judged)
    judged.lives(LOOK_AHEAD_SECONDS)
    judged.same()


def befall(judged: Judged, trouble: Trouble) -> None:  # noqa: C901  a case for each kind
    tier, partition = judged.tier, trouble.number % PARTITIONS
    owner = tier.owner[partition]
    match trouble.kind:
        case "moves" if owner is not None and owner != trouble.member:
            tier.forgets(owner, partition)
            tier.gives(partition, trouble.member)
        case "gap" if owner is not None:
            tier.forgets(owner, partition)
            tier.gives(partition, None)
        case "zombie":
            tier.gives(partition, trouble.member)
        case "dies":
            judged.stalled.add(trouble.member)
        case "load":
            judged.model_is("ab"[trouble.number % 2], trouble.level)
        case "pods":
            judged.levels["ab"[trouble.number % 2], trouble.number // 2] = trouble.level
        case "places":
            judged.places["ab"[trouble.number % 2], trouble.number // 2] = partition
        case "deaf":
            tier.deaf = not tier.deaf
        case "lost":
            tier.lost = not tier.lost
        case "poison":
            tier.puts(partition, b"\xff no event")
            tier.puts(partition, a_sample_event("nobody's", 0, 1.0, tier.clock.at))


def heal(judged: Judged) -> None:
    """Every partition has one owner who is alive, and everybody knows."""
    tier = judged.tier
    tier.deaf = tier.lost = False
    judged.stalled = set()
    for partition in range(PARTITIONS):
        for number in range(MEMBERS):
            if number != tier.owner[partition]:
                tier.forgets(number, partition)
        if tier.owner[partition] is None:
            tier.gives(partition, partition)

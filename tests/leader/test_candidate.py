"""The protocol as a value: never two at once, whatever clocks, calls and people do; and always one again."""

import math
import random
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rebalancer.leader.candidate import UNKNOWN, Candidate, Lease, LeaseClaim
from rebalancer.leader.timing import TIMING, LeaseTiming

FOREVER = math.inf


def standing_by(name: str = "b", **fields: object) -> Candidate:
    return replace(Candidate(name), **fields)  # type: ignore[arg-type]  # fields by name


def leading(at: float = 100.0) -> Candidate:
    candidate = standing_by("a").saw(Lease("1", "", 3, 8.0), at)
    claim = candidate.claim(at)
    assert claim is not None
    return candidate.wrote(claim, "2", at)


def test_a_lease_that_nobody_holds_is_taken_with_the_next_epoch() -> None:
    claim = standing_by().saw(Lease("7", "", 41, 8.0), 50.0).claim(50.0)
    assert claim == LeaseClaim("7", "b", 42, 8.0)


def test_an_epoch_is_at_least_the_second_its_lease_was_made_so_that_a_lost_one_does_not_bring_old_ones_back() -> None:
    claim = standing_by().saw(Lease("7", "", 0, 8.0, 1_790_000_000), 50.0).claim(50.0)
    assert claim is not None
    assert claim.epoch == 1_790_000_000


def test_nothing_is_claimed_before_the_first_look() -> None:
    assert standing_by().claim(1e9) is None


def test_who_stands_by_waits_out_the_lease_from_the_end_of_the_look_that_showed_its_last_renewal() -> None:
    candidate = standing_by().saw(Lease("7", "a", 1, 8.0), 50.0).saw(Lease("8", "a", 1, 8.0), 53.0)
    assert candidate.claim(60.9) is None
    assert candidate.claim(61.0) is not None


def test_a_longer_lease_of_another_version_is_waited_out() -> None:
    candidate = standing_by().saw(Lease("7", "a", 1, 15.0), 50.0)
    assert candidate.claim(64.9) is None
    assert candidate.claim(65.0) is not None


def test_a_lease_that_was_made_endless_by_hand_is_taken_after_a_minute() -> None:
    assert standing_by().saw(Lease("7", "a", 1, 1e12), 50.0).claim(110.0) is not None


def test_one_that_is_not_there_is_made_for_nobody_and_waited_out_since_a_leader_may_have_lost_it() -> None:
    candidate = standing_by().saw(None, 50.0)
    assert candidate.claim(50.0) == LeaseClaim(None, UNKNOWN, 0, 8.0)
    candidate = candidate.saw(Lease("1", UNKNOWN, 0, 8.0), 50.1)
    assert candidate.claim(58.0) is None
    assert candidate.claim(58.2) == LeaseClaim("1", "b", 1, 8.0)


def test_a_leader_whose_lease_was_deleted_goes_on_in_its_own_term() -> None:
    leader = leading(100.0).saw(None, 101.0)
    assert leader.claim(101.0) == LeaseClaim(None, UNKNOWN, 4, 8.0)
    leader = leader.saw(Lease("9", UNKNOWN, 0, 8.0), 101.1)
    assert leader.may_act(101.1)
    assert leader.claim(101.1) == LeaseClaim("9", "a", 4, 8.0)


def test_the_right_to_act_ends_seven_seconds_after_the_beginning_of_the_last_renewal_that_succeeded() -> None:
    leader = leading(100.0)
    claim = leader.claim(101.0)
    assert claim is not None
    leader = leader.wrote(claim, "3", 101.0)  # whenever its answer came
    assert leader.may_act(107.9)
    assert not leader.may_act(108.0)


def test_a_leader_that_sees_another_one_acts_no_more_and_claims_nothing_again() -> None:
    leader = leading(100.0).saw(Lease("9", "b", 5, 8.0), 101.0)
    assert not leader.may_act(101.0)
    assert leader.saw(Lease("10", "", 5, 8.0), 102.0).claim(1e6) is None


def test_a_lapsed_leader_renews_no_more() -> None:
    assert leading(100.0).claim(107.0) is None


def test_a_released_lease_is_free_at_once_and_its_leader_acts_no_more() -> None:
    leader = leading(100.0)
    claim = leader.release()
    assert claim == LeaseClaim("2", "", 4, 8.0)
    assert not leader.wrote(claim, "3", 101.0).may_act(101.0)
    assert standing_by().saw(Lease("3", "", 4, 8.0), 101.1).claim(101.1) is not None


def test_a_take_whose_reply_was_lost_is_taken_again_in_a_new_term() -> None:
    claim = standing_by().saw(Lease("8", "b", 6, 8.0), 50.0).claim(50.0)
    assert claim == LeaseClaim("8", "b", 7, 8.0)


@pytest.mark.parametrize("fields", [{"renew_seconds": 8.0}, {"retry_seconds": 3.5}, {"look_seconds": 0.0}])
def test_a_timing_under_which_two_could_act_is_refused(fields: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="a lease lasts longer"):
        replace(TIMING, **fields)


@dataclass
class Server:
    """The one Lease: writes pass if they meet the version they were made for."""

    lease: Lease | None = None
    version: int = 0

    def put(self, claim: LeaseClaim, now: float) -> str | None:
        """The new version, None for a conflict."""
        if claim.version != (self.lease.version if self.lease is not None else None):
            return None
        self.version += 1
        made_at = int(1000.0 + now) if self.lease is None else self.lease.created_at
        self.lease = Lease(str(self.version), claim.holder, claim.epoch, claim.lease_seconds, made_at)
        return self.lease.version


@dataclass
class Replica:
    """A process by its own clock, whose calls take their time, are lost on the way there or on the way back.

    `born`: by its own clock; what another process asked before it is not answered to this one.
    """

    candidate: Candidate
    rate: float
    offset: float
    due: float = 0.0
    doubts: bool = False
    born: float = -FOREVER

    def clock(self, at: float) -> float:
        return self.offset + at * self.rate


@dataclass
class Play:
    """Replicas and a Lease in one true time; `terms`: the epochs in the order in which they were taken."""

    rng: random.Random
    trouble: float
    replicas: list[Replica]
    server: Server = field(default_factory=Server)
    terms: list[int] = field(default_factory=list)
    arrivals: list[tuple[float, int, str, float, int, Any]] = field(default_factory=list)
    served: int = 0

    def delay(self) -> float:
        return self.rng.choice((0.01, 0.01, 0.05, 0.3, 2.0, 5.0)) if self.rng.random() < self.trouble else 0.01

    def lost(self) -> bool:
        return self.rng.random() < self.trouble / 2

    def at(self, when: float, number: int, what: str, began: float, value: Any) -> None:  # noqa: ANN401  # of each call its own
        self.served += 1
        self.arrivals.append((when, self.served, what, began, number, value))

    def turn(self, now: float) -> None:
        """All that happens at `now`."""
        for entry in sorted(one for one in self.arrivals if one[0] <= now):
            self.arrivals.remove(entry)
            _, _, what, began, number, value = entry
            getattr(self, f"_{what}")(now, number, began, value)
        for number, replica in enumerate(self.replicas):
            if now >= replica.due:
                self._step(now, number, replica)

    def _step(self, now: float, number: int, replica: Replica) -> None:
        candidate, here = replica.candidate, replica.clock(now)
        timing = candidate.timing
        claim = candidate.claim(here)
        reads = claim is None or replica.doubts
        replica.due = now + timing.call_seconds / replica.rate  # one call at a time: until it is given up
        if not self.lost():
            self.at(now + self.delay(), number, "read" if reads else "write", here, claim)

    def _read(self, now: float, number: int, began: float, _: object) -> None:
        if not self.lost():
            self.at(now + self.delay(), number, "answer", began, self.server.lease)

    def _answer(self, now: float, number: int, began: float, lease: Lease | None) -> None:
        replica = self.replicas[number]
        if self._answered(now, replica, began):
            replica.candidate = replica.candidate.saw(lease, replica.clock(now))
            replica.doubts = False
            if replica.candidate.epoch is None:
                replica.due = now + replica.candidate.timing.look_seconds / replica.rate

    def _write(self, now: float, number: int, began: float, claim: LeaseClaim) -> None:
        version = self.server.put(claim, now)
        if version is not None and claim.holder != UNKNOWN and claim.epoch not in self.terms:
            self.terms.append(claim.epoch)
        if not self.lost():
            self.at(now + self.delay(), number, "stored", began, (claim, version))

    def _stored(self, now: float, number: int, began: float, value: tuple[LeaseClaim, str | None]) -> None:
        replica = self.replicas[number]
        claim, version = value
        if not self._answered(now, replica, began):
            return
        replica.doubts = version is None or claim.version is None
        if version is not None and claim.version is not None:
            replica.candidate = replica.candidate.wrote(claim, version, began)
            replica.due = now + replica.candidate.timing.retry_seconds / replica.rate

    def _answered(self, now: float, replica: Replica, began: float) -> bool:
        """Whether it still waits for the answer to what it asked at `began`; then it asks again at once."""
        waits = began >= replica.born and replica.clock(now) - began <= replica.candidate.timing.call_seconds
        if waits:
            replica.due = now
        return waits

    def acting(self, now: float) -> list[str]:
        return [each.candidate.identity for each in self.replicas if each.candidate.may_act(each.clock(now))]


SLOW, FAST = 14 / 15, 16 / 15


def a_play(seed: int, trouble: float) -> Play:
    """Three replicas with clocks of their own, the fastest up to 8/7 as fast as the slowest."""
    rng = random.Random(seed)
    offsets = [rng.uniform(-1e6, 1e6) for _ in range(3)]
    rates = [rng.choice((SLOW, FAST, rng.uniform(SLOW, FAST))) for _ in range(3)]
    clocks = zip("abc", rates, offsets, strict=True)
    replicas = [Replica(Candidate(name), rate, offset) for name, rate, offset in clocks]
    return Play(rng, trouble, replicas)


@given(seed=st.integers(0, 2**32), trouble=st.sampled_from((0.0, 0.2, 0.5, 0.9)))
@example(seed=1, trouble=0.5)
@settings(max_examples=60, deadline=None)
def test_two_replicas_never_may_act_at_once(seed: int, trouble: float) -> None:
    play = a_play(seed, trouble)
    fresh, deleted = iter(range(1000)), 0.0
    for tick in range(900):  # 90 s
        now = tick * 0.1
        play.turn(now)
        assert len(play.acting(now)) <= 1, f"at {now}: {play.acting(now)}"
        if play.rng.random() < trouble / 60:  # a process dies and another one starts
            number = play.rng.randrange(3)
            dead = play.replicas[number]
            born = dead.clock(now)
            play.replicas[number] = replace(dead, candidate=Candidate(f"n{next(fresh)}"), doubts=False, born=born)
        if (
            now - deleted > 20 and play.rng.random() < trouble / 100
        ):  # a second time meanwhile, a late create comes back
            play.server.lease, deleted = None, now
    assert play.terms == sorted(play.terms), "epochs rise"


@given(seed=st.integers(0, 2**32))
@settings(max_examples=20, deadline=None)
def test_some_replica_acts_within_a_lease_after_a_death_where_calls_are_answered(seed: int) -> None:
    play = a_play(seed, trouble=0.0)
    died: float | None = None
    for tick in range(600):
        now = tick * 0.1
        play.turn(now)
        acting = play.acting(now)
        if died is None and now > 20 and acting:
            number = next(at for at, each in enumerate(play.replicas) if each.candidate.identity == acting[0])
            play.replicas[number].due = FOREVER
            play.replicas[number].candidate = play.replicas[number].candidate.resigned()
            died = now
        elif died is not None and acting:
            assert now - died <= (TIMING.lease_seconds + TIMING.retry_seconds) / SLOW + 0.5
            return
    pytest.fail("nobody acts")


def test_the_slowest_leader_may_not_act_any_more_when_the_fastest_standby_may_begin() -> None:
    """Renewed and seen in one instant, and never again: clocks may run 8/7 apart, no further."""
    lease = Lease("1", "a", 1, TIMING.lease_seconds)
    leader = Candidate("a").saw(replace(lease, holder=""), 0.0).wrote(LeaseClaim("1", "a", 2, 8.0), "2", 0.0)
    stands_by = Candidate("b").saw(leader.lease, 0.0)
    for hundredth in range(1000):
        at = hundredth / 100
        assert not (leader.may_act(at * SLOW) and stands_by.claim(at * FAST)), at
    assert stands_by.claim(10.0 * FAST)


def test_a_right_that_outlasts_the_lease_is_noticed_by_the_play() -> None:
    """The play can fail: with a leader that trusts itself longer than others wait, two act."""
    wrong = LeaseTiming()
    object.__setattr__(wrong, "renew_seconds", 12.0)
    for seed in range(40):
        play = a_play(seed, trouble=0.5)
        for each in play.replicas:
            each.candidate = replace(each.candidate, timing=wrong)
        for tick in range(900):
            play.turn(tick * 0.1)
            if len(play.acting(tick * 0.1)) > 1:
                return
    pytest.fail("not noticed")

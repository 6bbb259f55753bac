"""The elector on a Lease that answers, hangs, fails and disappears: in virtual time, and on the embedded API server."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from structlog.testing import capture_logs

from rebalancer.kube.access import Access
from rebalancer.kube.client import KubeClient
from rebalancer.kube.errors import Conflict, Temporary
from rebalancer.kube.resources import LEASES, Ref
from rebalancer.leader.candidate import Lease, LeaseClaim
from rebalancer.leader.elector import Elector
from rebalancer.leader.lease import EPOCH, LeaseObject, decoded
from rebalancer.obs.clock import Clock
from rebalancer.sandbox.api import EmbeddedKubernetes
from tests.kube.server import LoopClock

pytestmark = pytest.mark.asyncio


class Shared:
    """One Lease that several electors see. `silent`, `failing`: names of those whose calls hang or fail.

    `readers`: names of those that may read it and not write it.

    `hangs`: how many of the next calls do, by name; `unheard`: on their way back. `seconds`: how long any other takes.
    """

    def __init__(self) -> None:
        self.lease: Lease | None = Lease("0", "", 0, 8.0)
        self.versions = 0
        self.calls = 0
        self.silent: set[str] = set()
        self.hangs = Counter[str]()
        self.unheard = False
        self.seconds = 0.005
        self.failing: set[str] = set()
        self.readers: set[str] = set()

    def of(self, name: str) -> "Seat":
        return Seat(self, name)


class Seat:
    """One elector's way to the Lease."""

    def __init__(self, shared: Shared, name: str) -> None:
        self._shared = shared
        self._name = name

    async def _arrive(self) -> None:
        self._shared.calls += 1
        await self._hang(unheard=False)
        if self._name in self._shared.silent:
            await asyncio.Event().wait()
        if self._name in self._shared.failing:
            raise Temporary("502 with an HTML page")
        await asyncio.sleep(self._shared.seconds)

    async def _hang(self, *, unheard: bool) -> None:
        if self._shared.hangs[self._name] and self._shared.unheard is unheard:
            self._shared.hangs[self._name] -= 1
            await asyncio.Event().wait()

    async def read(self) -> Lease | None:
        await self._arrive()
        await self._hang(unheard=True)
        return self._shared.lease

    async def write(self, claim: LeaseClaim) -> str:
        await self._arrive()
        shared = self._shared
        if self._name in shared.readers:
            raise PermissionError("may not update leases")
        if claim.version != (shared.lease.version if shared.lease is not None else None):
            raise Conflict("modified")
        shared.versions += 1
        shared.lease = Lease(str(shared.versions), claim.holder, claim.epoch, claim.lease_seconds)
        await self._hang(unheard=True)
        return str(shared.versions)


class SetClock(LoopClock):
    """A clock that somebody sets."""

    def __init__(self) -> None:
        self.set_by = 0.0

    def now(self) -> float:
        return super().now() + self.set_by


@asynccontextmanager
async def running(shared: Shared, *names: str, clocks: Sequence[Clock] = ()) -> AsyncIterator[list[Elector]]:
    each_clock = clocks or [LoopClock() for _ in names]
    electors = [Elector(shared.of(name), clock, name) for name, clock in zip(names, each_clock, strict=True)]
    tasks = [asyncio.create_task(each.run()) for each in electors]
    try:
        yield electors
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def every_hundredth(seconds: float) -> AsyncIterator[None]:
    for _ in range(round(100 * seconds)):
        await asyncio.sleep(0.01)
        yield


async def now() -> float:
    return asyncio.get_running_loop().time()


@pytest.mark.looptime
async def test_one_of_two_leads_and_both_know_who() -> None:
    async with running(Shared(), "rb-0", "rb-1") as (one, two):
        await one.elected.wait()
        await asyncio.sleep(3.0)
        assert (one.why_not(), two.why_not()) == (None, "rb-0 leads")
        assert (one.leader, two.leader) == ("rb-0", "rb-0")
        assert one.epoch is not None
        assert two.epoch is None


@pytest.mark.looptime
@pytest.mark.parametrize("fault", ["silent", "failing"])
async def test_a_leader_that_is_cut_off_stops_before_another_one_begins(fault: str) -> None:
    shared = Shared()
    async with running(shared, "rb-0", "rb-1") as (one, two):
        await one.elected.wait()
        await asyncio.sleep(5.3)
        cut = await now()
        getattr(shared, fault).add("rb-0")
        reason = await one.lost
        stopped = await now()
        assert one.why_not() == "the lease was not renewed in time" == reason
        await two.elected.wait()
        began = await now()
        assert stopped < began
        assert stopped - cut <= 7.0 + 7 / 3  # the last call that hangs is given up after a third of it
        assert began - cut <= 8.0 + 0.25 + 0.1
        assert (two.epoch or 0) > (one.epoch or 0)


@pytest.mark.looptime
async def test_the_right_to_act_ends_on_time_though_the_call_that_would_renew_it_still_hangs() -> None:
    shared = Shared()
    async with running(shared, "rb-0") as (one,):
        await one.elected.wait()
        await asyncio.sleep(2.0)
        left = one.seconds_left()
        shared.silent.add("rb-0")
        await asyncio.sleep(left - 0.01)
        assert one.why_not() is None
        await asyncio.sleep(0.02)
        assert one.why_not() == "the lease was not renewed in time"


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("hangs", "unheard", "seconds", "outlives"),
    [
        (2, False, 0.005, True),
        (2, False, 0.9, True),
        (2, False, 1.1, True),
        (2, False, 1.3, False),
        (1, False, 2.2, True),
        (2, True, 0.005, True),
        (2, True, 0.4, True),
        (2, True, 0.5, False),
        (1, True, 1.1, True),
        (1, True, 1.3, False),
    ],
)
async def test_a_leader_may_act_throughout_though_calls_in_a_row_hang(
    hangs: int, seconds: float, *, unheard: bool, outlives: bool
) -> None:
    """As docs/operations.md says: how slow the other calls may be, where these hang on their way there, or back."""
    shared = Shared()
    async with running(shared, "rb-0", "rb-1") as (one, _):
        await one.elected.wait()
        shared.seconds, shared.unheard = seconds, unheard
        await asyncio.sleep(20.0)
        assert one.why_not() is None
        shared.hangs["rb-0"] = hangs
        whenever = [one.why_not() is None async for _ in every_hundredth(20.0)]
        assert all(whenever) is outlives
        assert shared.hangs["rb-0"] == 0


@pytest.mark.looptime
@pytest.mark.parametrize("seconds", [3600.0, -3600.0])
@pytest.mark.parametrize("whose", [0, 1])
async def test_a_clock_that_is_set_by_an_hour_neither_ends_a_term_nor_begins_one(whose: int, seconds: float) -> None:
    clocks = SetClock(), SetClock()
    async with running(Shared(), "rb-0", "rb-1", clocks=clocks) as (one, two):
        await one.elected.wait()
        await asyncio.sleep(3.0)
        epoch, clocks[whose].set_by = one.epoch, seconds
        async for _ in every_hundredth(20.0):
            assert (one.why_not(), one.epoch, two.why_not()) == (None, epoch, "rb-0 leads")


@pytest.mark.looptime
async def test_a_release_lets_the_next_one_begin_within_its_next_look() -> None:
    async with running(Shared(), "rb-0", "rb-1") as (one, two):
        await one.elected.wait()
        await asyncio.sleep(1.1)
        began = await now()
        await one.release()
        assert one.why_not() is not None
        await two.elected.wait()
        assert await now() - began < 0.3
        assert one.ended_seconds() == 0.0  # it went by itself: nobody has to end it
        assert not one.lost.done()


@pytest.mark.looptime
async def test_a_release_waits_for_the_renewal_under_way_which_would_make_it_a_conflict() -> None:
    async with running(Shared(), "rb-0", "rb-1") as (one, two):
        await one.elected.wait()
        renewed = one.seconds_left()
        while one.seconds_left() <= renewed:  # until just after the next renewal has ended
            renewed = one.seconds_left()
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.997)  # the one after it is under way
        await one.release()
        began = await now()
        await two.elected.wait()
        assert await now() - began < 0.3


@pytest.mark.looptime
async def test_a_deleted_lease_costs_its_leader_nothing() -> None:
    shared = Shared()
    async with running(shared, "rb-0", "rb-1") as (one, two):
        await one.elected.wait()
        epoch = one.epoch
        for _ in range(5):
            await asyncio.sleep(4.0)
            shared.lease = None
        await asyncio.sleep(12.0)
        assert (one.why_not(), one.epoch) == (None, epoch)
        assert not two.elected.is_set()


@pytest.mark.looptime
async def test_a_leader_that_somebody_unseats_by_hand_stops_and_says_so() -> None:
    shared = Shared()
    async with running(shared, "rb-0") as (one,):
        await one.elected.wait()
        shared.versions += 1
        shared.lease = Lease(str(shared.versions), "kubectl", 7, 8.0)
        assert await one.lost == "kubectl leads"
        await asyncio.sleep(2.5)
        assert one.ended_seconds() >= 2.0  # what the watchdog waits for


@pytest.mark.looptime
async def test_a_leader_and_one_that_stands_by_make_five_calls_a_second() -> None:
    shared = Shared()
    async with running(shared, "rb-0", "rb-1") as (one, _):
        await one.elected.wait()
        before = shared.calls
        await asyncio.sleep(100.0)
        assert (shared.calls - before) / 100 <= 5.0


async def test_a_lease_spoiled_by_hand_still_says_its_version() -> None:
    obj = {"metadata": {"resourceVersion": "4", "annotations": {EPOCH: "x1"}}, "spec": {"holderIdentity": 3}}
    assert decoded(obj) == Lease("4", "", 0, 0.0)


async def test_when_a_lease_was_made_is_read_in_whole_seconds() -> None:
    obj = {"metadata": {"resourceVersion": "4", "creationTimestamp": "2026-11-24T04:05:00Z"}, "spec": {}}
    assert decoded(obj).created_at == 1_795_493_100


@pytest.fixture
async def api() -> AsyncIterator[EmbeddedKubernetes]:
    async with EmbeddedKubernetes(LoopClock()) as api:
        yield api


async def test_on_an_api_server_a_lease_is_made_taken_and_refused_at_an_old_version(api: EmbeddedKubernetes) -> None:
    access = Access(api.url, "Bearer sandbox-rebalancer")
    async with KubeClient(access, LoopClock(), random.Random(1)) as kube:
        lease = LeaseObject(kube, "rebalancer", "rebalancer", LoopClock())
        assert await lease.read() is None
        made = await lease.write(LeaseClaim(None, "unknown", 3, 8.0))
        there = await lease.read()
        assert there is not None
        assert there == Lease(made, "unknown", 3, 8.0, there.created_at)
        assert abs(there.created_at - LoopClock().now()) < 60.0
        taken = await lease.write(LeaseClaim(made, "rb-0_1", 4, 8.0))
        assert await lease.read() == Lease(taken, "rb-0_1", 4, 8.0, there.created_at)
        with pytest.raises(Conflict):
            await lease.write(LeaseClaim(made, "rb-1_2", 5, 8.0))
        obj = await kube.get(Ref(LEASES, "rebalancer", "rebalancer"))
        assert obj["metadata"]["annotations"] == {EPOCH: "4"}
        with pytest.raises(Conflict):
            await lease.write(LeaseClaim(None, "unknown", 9, 8.0))


@pytest.mark.looptime
async def test_who_has_not_seen_the_lease_renewed_for_as_long_as_it_lasts_names_nobody_and_why() -> None:
    shared = Shared()
    async with running(shared, "rb-0", "rb-1") as (one, two):
        await one.elected.wait()
        await asyncio.sleep(5.3)
        shared.failing |= {"rb-0", "rb-1"}
        await asyncio.sleep(6.0)
        assert (one.leader, two.leader) == ("rb-0", "rb-0"), "it may still act"
        await asyncio.sleep(2.5)
        assert (one.leader, two.leader) == ("", "")
        assert two.trouble == "Temporary: 502 with an HTML page"


@pytest.mark.looptime
async def test_before_the_first_look_has_its_answer_it_is_not_known_who_leads() -> None:
    shared = Shared()
    async with running(shared, "rb-0", "rb-1") as (one, two):
        await one.elected.wait()
        shared.silent.add("rb-2")
        async with running(shared, "rb-2") as (three,):
            await asyncio.sleep(0.5)
            assert (three.leader, three.why_unknown()) == ("", "the Lease was not looked at yet")
            assert three.why_not() == "the Lease was not looked at yet"
            assert (two.leader, two.why_unknown()) == ("rb-0", None)
            shared.silent.clear()
            await asyncio.sleep(5.0)
            assert (three.leader, three.why_unknown(), three.why_not()) == ("rb-0", None, "rb-0 leads")


@pytest.mark.looptime
async def test_a_lease_that_can_be_read_and_not_written_is_logged_once_a_minute_and_when_that_ends() -> None:
    shared = Shared()
    shared.readers.add("rb-0")
    with capture_logs() as log:
        async with running(shared, "rb-0") as (one,):
            for _ in range(130):
                await asyncio.sleep(1.003)  # in every part of a turn
                assert one.trouble == "PermissionError: may not update leases"
            shared.readers.clear()
            await one.elected.wait()
            await asyncio.sleep(10.0)
    events = [each["event"] for each in log if each["event"] != "leads"]
    assert events == ["the lease cannot be read or written"] * 3 + ["the lease is read and written again"]


@pytest.mark.looptime
async def test_who_alone_cannot_read_the_lease_says_so_and_whom_it_saw_leading_last() -> None:
    shared = Shared()
    async with running(shared, "rb-0", "rb-1") as (one, two):
        await one.elected.wait()
        await asyncio.sleep(5.3)
        shared.failing.add("rb-1")
        await asyncio.sleep(20.0)
        assert (one.leader, two.leader) == ("rb-0", "")
        assert two.why_not() == (
            "the Lease cannot be read: Temporary: 502 with an HTML page; rb-0 was last seen to renew it 20 s ago"
        )
        shared.failing.clear()
        await asyncio.sleep(1.0)
        assert two.why_not() == "rb-0 leads"

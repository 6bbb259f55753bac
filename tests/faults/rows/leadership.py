"""7.3 Crash, leadership, time."""

import json
import time
from contextlib import suppress
from typing import Literal

from aiohttp import web

from tests.faults import door
from tests.faults.injections import frozen, sample, standby, to_die_at
from tests.faults.row import Deed, Group, Row
from tests.faults.scene import LEASE, Scene
from tests.real.crashing import Point
from tests.real.service import Service

_FROZEN_SECONDS = 12.0  # the lease lasts 8 s


_LIVES = 3
_OF_A_SHIFT = (
    "kube/update/scale",
    "kafka/decisions/intent",
    "kafka/decisions/outcome",
    "kafka/decisions/cycle",
    "kafka/decisions/frame",
    "kafka/state/memory",
    "journal/append",
    "kube/patch/leases",
)
"""What a leader does of itself while GPUs change hands."""


def _killed_at_effects(when: Literal["before", "after"]) -> Deed:
    """Three lives, each of which ends at an effect that the seed chooses; in each the tide turns."""

    async def deed(scene: Scene) -> None:
        for effect in scene.chance.sample(_OF_A_SHIFT, _LIVES):
            async with to_die_at(scene, Point(effect, 1, when)) as ended:
                now = await scene.replicas()  # a life may have ended before anything moved
                scene.needs_much = min(("chat", "code"), key=lambda name: now[name])
                scene.tide()
                await ended()

    return deed


async def _leads(scene: Scene, service: Service) -> None:
    async def so() -> bool:
        lease = await scene.kube.get("Lease", LEASE, scene.namespace)
        return str(lease["spec"].get("holderIdentity", "")).startswith(f"{service.settings['INSTANCE']}_")

    await scene.until(so, f"{service.settings['INSTANCE']} leads", 30.0)


async def _frozen_past_its_lease(scene: Scene) -> None:
    """The other one takes over in the middle of the turn; who wakes up ends itself before anything else."""
    async with standby(scene) as other:
        await scene.turns()
        scene.now.stopped = True
        async with frozen(scene.service.pid):
            await _leads(scene, other)

        async def ended() -> bool:
            with suppress(OSError):
                await scene.service.unready()
                return False
            return True

        await scene.until(ended, "who lost the lease has ended", 20.0)
        await scene.rests()
        scene.now.kills += 1
        await scene.service.kill()
        await scene.service.start()


async def _calls_fail(scene: Scene) -> None:
    """Each of the ways in which a library's elector became a zombie, two seconds of each, in any order."""
    ways = [
        door.answering(500, json.dumps({"kind": "Status", "code": 500})),
        door.answering(503, "<html>unavailable</html>", "text/html"),
        door.reset,
        door.silence,
    ]
    scene.chance.shuffle(ways)
    for way in ways:

        async def meddle(request: web.Request, way: door.Meddle = way) -> web.StreamResponse | None:
            return await way(request) if "/leases" in request.path else None

        async with scene.door.meddling(meddle):
            await scene.silent(2.0)
        await scene.silent(1.5)


async def _ordered_restart(scene: Scene) -> None:
    """SIGTERM in the middle of the turn, and a start."""
    began = time.time()
    scene.now.kills += 1
    assert await scene.service.stop() == 0
    assert time.time() - began < 15.0
    await scene.service.start()


async def _down_with_a_backlog(scene: Scene) -> None:
    """While nobody is there 20,000 samples come, of models that nobody knows and of those that everybody does."""
    await scene.killed(start=False)
    now = time.time()
    for number in range(20):
        for name in ("side", "nobody"):
            value = sample(name, now - 30 + number, '{"running": 15}')
            await scene.flood("metrics", value, 500)
    await scene.service.start()


async def _killed(scene: Scene) -> None:
    await scene.killed()


async def _one_name_for_two(scene: Scene) -> None:
    """A second process under the same name: each is itself to the Lease."""
    async with standby(scene, name=scene.service.settings["INSTANCE"]):
        await scene.turns()
        await scene.rests()


async def _lease_spoilt(scene: Scene) -> None:
    """Garbage in it, then nobody's, then gone."""
    garbage = {"metadata": {"annotations": {"rebalancer.io/epoch": "many"}}, "spec": {"leaseDurationSeconds": 1}}
    for spoil in (garbage, {"spec": {"holderIdentity": "somebody"}}):
        await scene.kube.patch("Lease", LEASE, spoil, scene.namespace)
        await scene.silent(1.0)
    await scene.kube.delete("Lease", LEASE, scene.namespace)
    await scene.recover()


async def _store_gone(scene: Scene) -> None:
    """The topic of checkpoints is deleted while the service is down."""
    await scene.killed(start=False)
    async with scene.broker.admin() as admin:
        await admin.delete_topics([scene.broker.topic("state")])
    await scene.service.start()


_CUT_OFF = (
    "real/test_leadership.py::test_a_leader_whose_network_is_gone_ends_itself_and_writes_nothing_after_its_deadline",
)
_WATCHDOG = (
    "leader/test_watchdog.py::test_a_process_that_leads_and_whose_loop_hangs_is_ended_and_writes_nothing_more",
)
_CLOCK = (
    "schedules/test_schedules.py::test_one_acts_and_the_same_goes_on_whichever_clock_is_set_by_an_hour",
    "leader/test_elector.py::test_a_clock_that_is_set_by_an_hour_neither_ends_a_term_nor_begins_one",
    "app/test_clock_set.py::test_a_service_whose_clock_is_set_stays_ready_and_alive_and_says_by_how_much",
)
_RATE = (
    "leader/test_candidate.py::test_two_replicas_never_may_act_at_once",
    "leader/test_candidate.py::test_the_slowest_leader_may_not_act_any_more_when_the_fastest_standby_may_begin",
)

LEADERSHIP = Group(
    "leadership",
    "7.3 Crash, leadership, time",
    (
        Row("C01", "kill -9 after each side effect", "I1 I2 I5 I8 I7", _killed_at_effects("after"),
            f"three of {len(_OF_A_SHIFT)} effects by the seed; all in `real/test_crash_points.py`", turns=False),
        Row("C02", "kill -9 before each side effect", "I1 I2 I5 I8 I7", _killed_at_effects("before"),
            "as C01", turns=False),
        Row("C03", "leader frozen past its lease", "I3", _frozen_past_its_lease, "until the other one leads",
            turns=False),
        Row("C04", "leader cut from the API alone", "I3, failover within 12 s", elsewhere=_CUT_OFF),
        Row("C05", "the elector's calls fail in every way", "I3", _calls_fail, "each for 2 s: no lease is lost"),
        Row("C06", "event loop blocked 20 s", "the watchdog ends it", elsewhere=_WATCHDOG),
        Row("C07", "wall clock set by an hour", "I3, stays ready", elsewhere=_CLOCK,
            as_played="of leader and of standby, forward and back, in virtual time; readiness by half an hour"),
        Row("C08", "clocks of two replicas run apart", "I3", elsewhere=_RATE, as_played="by 8/7, in virtual time"),
        Row("C09", "rolling update mid-shift", "lease released, I2 I7", _ordered_restart, "the same version"),
        Row("C10", "down, with a backlog", "no decrease from it, I7", _down_with_a_backlog, "20,000 samples"),
        Row("C11", "OOM kill", "as C01", _killed, "SIGKILL, which is what the kernel sends", fast=True),
        Row("C12", "two processes of one name", "I3", _one_name_for_two, turns=False),
        Row("C13", "Lease edited, garbage in it, deleted", "I3 I7", _lease_spoilt),
        Row("C14", "checkpoints deleted", "rebuilt from the cluster", _store_gone),
    ),
)  # fmt: skip

"""7.7 Overrides, policy, host."""

import asyncio
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp

from tests.faults import door
from tests.faults.injections import begun_by, few_descriptors, starved, to_die_at
from tests.faults.row import Group, Row
from tests.faults.scene import Scene
from tests.real.crashing import Point


async def _two_pins(scene: Scene) -> None:
    """The later one counts, and the earlier one's author can read that."""
    await scene.people.pin("first", "side", 1, seconds=60)
    await scene.people.phase("first", "InForce")
    await scene.silent(1.1)  # objects are as old as the second in which they were made: of one second neither is later
    await scene.people.pin("second", "side", 2, seconds=60)
    await scene.people.phase("first", "Superseded")
    await scene.people.phase("second", "InForce")
    for name in ("first", "second"):
        await scene.takes_back(name)


async def _accepted_then_killed(scene: Scene) -> None:
    """Stored, and dead before it is answered; then answered, and dead at once: each is there, once, and in force."""
    pin = {"kind": "pin", "target": {"model": "side"}, "value": 2, "forSeconds": 300, "reason": "the test says so"}
    async with to_die_at(scene, Point("kube/create/overrides", 1, "after")) as ended:
        await scene.service.wait_ready(30.0)
        with suppress(aiohttp.ClientError, OSError):
            await scene.service.ask("POST", "/v1/overrides", pin)
        await ended()
    (stored,) = await scene.kube.items("Override", scene.namespace)
    await _ruled(scene, stored["metadata"]["name"])
    await scene.silent(1.1)  # objects are as old as the second in which they were made
    status, answer = await scene.service.ask("POST", "/v1/overrides", pin)
    assert status == 201, answer
    await scene.killed()
    name = answer["override"]["name"]
    await _ruled(scene, name)
    names = {each["metadata"]["name"] for each in await scene.kube.items("Override", scene.namespace)}
    assert names == {stored["metadata"]["name"], name}
    for each in names:
        await scene.takes_back(each)


async def _ruled(scene: Scene, name: str) -> None:
    async def in_force() -> bool:
        override: dict[str, Any] = await scene.kube.get("Override", name, scene.namespace)
        return bool(override.get("status", {}).get("phase") == "InForce")

    await scene.until(in_force, f"{name} is in force", 40.0)


async def _nobody_reads_its_output(scene: Scene) -> None:
    """Where it logs to is a pipe, full from the start, and nobody reads: GPUs change hands all the same."""
    pipe = scene.service.folder / f"output-{time.time():.0f}"
    await asyncio.to_thread(os.mkfifo, pipe)
    full = f'exec 3<>{pipe}; head -c 65536 /dev/zero >&3; exec "$@" >&3 2>&3'
    async with begun_by(scene, full):
        await scene.turns()
        await scene.rests()


async def _names_are_lost(scene: Scene) -> None:
    """API server and broker have names, which nobody can look up for ten seconds, while connections are cut."""
    folder, settings = scene.service.folder, scene.service.settings
    names, before = folder / "hosts", dict(settings)
    spelled = "127.0.0.1 localhost api.test kafka.test\n"
    kubeconfig = folder / "by-name"
    text = await asyncio.to_thread(Path(settings["KUBECONFIG"]).read_text)
    await asyncio.to_thread(kubeconfig.write_text, text.replace("127.0.0.1", "api.test"))
    await asyncio.to_thread(names.write_text, spelled)
    settings |= {
        "DEV": "true",  # without TLS a broker is let be on loopback alone, and that is known by its address
        "KUBECONFIG": str(kubeconfig),
        "KAFKA_BOOTSTRAP": settings["KAFKA_BOOTSTRAP"].replace("127.0.0.1", "kafka.test"),
    }
    try:
        bound = f'exec unshare -rm sh -c \'mount --bind {names} /etc/hosts && exec "$@"\' sh "$@"'
        async with begun_by(scene, bound):
            await scene.turns()
            await asyncio.to_thread(names.write_text, "127.0.0.1 localhost\n")
            for _ in range(10):
                scene.wire.cut()
                scene.door.end_watches()
                await scene.silent(1.0)
            await asyncio.to_thread(names.write_text, spelled)
            await scene.rests()
            settings.clear()
            settings.update(before)
    finally:
        settings.clear()
        settings.update(before)


async def _bad_policies(scene: Scene) -> None:
    """Half a file, a floor above its maximum, no YAML at all: the last good policy stays, and it is told."""
    good = Path(scene.service.settings["POLICY_PATH"])
    text = await asyncio.to_thread(good.read_text)
    for bad in (text[: len(text) // 2], text.replace('"minReplicas": 1', '"minReplicas": 99'), "\x00{{{"):
        await asyncio.to_thread(good.write_text, bad)
        await scene.silent(2.5)
        assert "policy" not in await scene.service.unready(), "readiness stays"
    await asyncio.to_thread(good.write_text, text)


async def _empty_fleet(scene: Scene) -> None:
    """A valid policy without most of the models is refused, and says so; the last one stays in force."""
    policy = scene.policy
    policy["models"] = policy["models"][:1]
    await scene.service.policy(policy)

    async def refused() -> bool:
        problems = (await scene.service.status())["policyProblems"]
        return any("this reload would remove 2 of 3 models" in each for each in problems)

    await scene.until(refused, "the reload is refused")
    await scene.silent(4.0)
    assert await refused(), "it was taken after all"
    planned = {model["id"] for model in (await scene.service.snapshot())["models"]}
    assert planned == set(scene.desired), f"models of the policy in force: {planned}"
    await scene.service.policy(scene.policy)


async def _few_descriptors(scene: Scene) -> None:
    """No new connection can be opened for eight seconds, and the ones there are are cut."""
    async with few_descriptors(scene):
        scene.wire.cut()
        await scene.silent(8.0)


async def _starved(scene: Scene) -> None:
    await starved(scene, 12.0, 0.2)


async def _ends_unseen(scene: Scene) -> None:
    """A pin whose end comes while the API server cannot be reached has no late effect."""
    await scene.people.pin("short", "side", 1, seconds=4)
    async with scene.door.meddling(door.reset):
        await scene.silent(5.0)
    began = time.time()
    await scene.people.phase("short", "Expired")
    assert time.time() - began < 15.0
    await scene.takes_back("short")


_REFUSED = "real/test_doors.py::test_what_the_api_server_refuses_is_refused_over_http_with_its_field"
_SIGNED = (
    "app/test_signed_overrides.py::test_a_forged_one_a_late_one_and_one_that_cannot_be_make_nothing",
    "app/test_signed_overrides.py::test_a_signed_record_is_one_object_by_its_key_however_often_it_comes",
    "ingest/test_signed.py::test_it_is_good_in_its_cluster_alone",
    "ingest/test_signed.py::test_it_is_good_for_five_minutes_or_as_long_as_it_says_but_never_over_an_hour",
)
_DISK = (
    "runbooks/test_runbooks.py::"
    "test_the_page_names_what_is_broken_and_its_mitigation_or_the_repair_ends_the_alert[RebalancerJournalFailing]"
)
_CLOCKS_CHANGE = (
    *(
        f"domain/test_schedules.py::TestChangesOfClocks::{name}"
        for name in (
            "test_a_skipped_time_is_the_jump_and_a_repeated_one_the_first",
            "test_a_window_that_clocks_skip_does_not_happen",
            "test_windows_that_touch_on_the_clock_touch_in_time",
        )
    ),
    "settings/test_schedules.py::test_a_window_that_clocks_skip_on_its_only_day_never_happens",
)

PEOPLE = Group(
    "people",
    "7.7 Overrides, policy, host",
    (
        Row("O01", "override ends during an outage", "no late effect, I6", _ends_unseen),
        Row("O02", "two overrides that conflict", "the loser is told", _two_pins, fast=True),
        Row("O03", "below a floor, above the budget, of nobody", "refused with a reason", elsewhere=(_REFUSED,)),
        Row("O04", "forged, expired, another cluster's signature; replayed", "refused; stored once", elsewhere=_SIGNED),
        Row("O05", "accepted, then a crash", "accepted is stored", _accepted_then_killed),
        Row("O06", "invalid policy, half a file", "the last good one stays", _bad_policies),
        Row("O07", "a policy that would empty the fleet", "refused and told, the last one stays", _empty_fleet),
        Row("O08", "schedule where clocks skip an hour, or repeat it", "no window twice; one wholly skipped is none",
            elsewhere=_CLOCKS_CHANGE,
            as_played="a window that could never happen for it is refused with the file"),
        Row("H01", "disk of the journal full", "alarm, never a crash", elsewhere=(_DISK,)),
        Row("H02", "stdout blocked", "the loop goes on", _nobody_reads_its_output, turns=False),
        Row("H03", "no descriptors left", "I12, recovers", _few_descriptors, "as many as it has, not 64"),
        Row("H04", "CPU starved", "lease kept or given up", _starved, "a fifth of its time for 12 s"),
        Row("H05", "DNS fails", "back-off, I11", _names_are_lost, "no name is found for 10 s", turns=False),
        Row("H06", "read-only root, non-root", "works",
            elsewhere=("image/test_image.py::test_the_service_starts_from_it_and_becomes_ready",)),
    ),
)  # fmt: skip

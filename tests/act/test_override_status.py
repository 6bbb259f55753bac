"""People are told what their overrides do, when it changes."""

import pytest
from msgspec.structs import replace

from rebalancer.domain.plan import OverrideState
from rebalancer.sandbox.api import Obj
from rebalancer.sandbox.api.resources import OVERRIDES
from tests.act.rig import Rig, write_stop
from tests.builders import NAMESPACE, an_override

IN_FORCE = OverrideState(NAMESPACE, "pin-b", "uid-pin-b", "InForce", "pin 3")


def show(rig: Rig, **fields: object) -> None:
    """Let the facts show the override so."""
    rig.facts = replace(rig.facts, overrides=(an_override("pin", "b", 3, **fields),))


@pytest.fixture(autouse=True)
def _pinned(rig: Rig) -> None:
    stored = rig.store.put(
        {
            "apiVersion": "rebalancer.io/v1alpha1",
            "kind": "Override",
            "metadata": {"name": "pin-b", "namespace": NAMESPACE, "uid": "uid-pin-b"},
            "spec": {"kind": "pin", "target": {"model": "b"}, "value": 3},
        }
    )
    show(rig, resource_version=stored["metadata"]["resourceVersion"])


def version(rig: Rig) -> object:
    return rig.object(OVERRIDES, "pin-b")["metadata"]["resourceVersion"]


def phase(rig: Rig) -> object:
    return status(rig)["phase"]


def status(rig: Rig) -> Obj:
    found: Obj = rig.object(OVERRIDES, "pin-b").get("status", {})
    return found


async def test_a_new_state_is_told(rig: Rig) -> None:
    await rig.apply(overrides=(IN_FORCE,))

    assert status(rig) == {"phase": "InForce", "message": "pin 3", "observedAt": "2027-01-15T08:00:00.000000Z"}
    assert rig.object(OVERRIDES, "pin-b")["spec"]["value"] == 3


async def test_it_is_told_once_although_the_watch_shows_it_late(rig: Rig) -> None:
    gate = rig.gate()

    await rig.apply_by(gate, overrides=(IN_FORCE,))
    await rig.apply_by(gate, overrides=(IN_FORCE,))

    assert len(rig.writes) == 1


async def test_what_the_object_shows_is_not_told_again(rig: Rig) -> None:
    show(rig, phase="InForce", message="pin 3")

    await rig.apply(overrides=(IN_FORCE,))

    assert rig.writes == []


async def test_each_change_of_state_is_told(rig: Rig) -> None:
    gate = rig.gate()
    await rig.apply_by(gate, overrides=(IN_FORCE,))
    show(rig, phase="InForce", message="pin 3", resource_version=version(rig))

    await rig.apply_by(gate, overrides=(replace(IN_FORCE, phase="Expired", message="its time is over"),))

    assert phase(rig) == "Expired"


@pytest.mark.parametrize("ours_was_seen", [True, False])
async def test_what_somebody_else_writes_over_it_is_put_right(rig: Rig, *, ours_was_seen: bool) -> None:
    """The watch may show both changes as one."""
    gate = rig.gate()
    await rig.apply_by(gate, overrides=(IN_FORCE,))
    if ours_was_seen:
        show(rig, phase="InForce", message="pin 3", resource_version=version(rig))
        await rig.apply_by(gate, overrides=(IN_FORCE,))

    rig.store.patch(OVERRIDES, "pin-b", {"status": {"phase": "Rejected", "message": "not ours"}}, NAMESPACE)
    show(rig, phase="Rejected", message="not ours", resource_version=version(rig))
    await rig.apply_by(gate, overrides=(IN_FORCE,))

    assert (phase(rig), len(rig.writes)) == ("InForce", 2)


async def test_what_could_not_be_told_is_told_next_time(rig: Rig) -> None:
    gate = rig.gate()
    rig.server.faults.fail_next(1, 403, method="PATCH")

    await rig.apply_by(gate, overrides=(IN_FORCE,))
    await rig.apply_by(gate, overrides=(IN_FORCE,))

    assert phase(rig) == "InForce"


async def test_an_override_made_again_under_the_name_is_not_told_the_old_state(rig: Rig) -> None:
    rig.store.remove(OVERRIDES, "pin-b", NAMESPACE)
    rig.store.put(
        {
            "apiVersion": "rebalancer.io/v1alpha1",
            "kind": "Override",
            "metadata": {"name": "pin-b", "namespace": NAMESPACE, "uid": "another"},
            "spec": {},
        }
    )

    await rig.apply(overrides=(IN_FORCE,))

    assert status(rig) == {}


async def test_a_write_stop_does_not_keep_people_from_being_told(rig: Rig) -> None:
    rig.store.put(write_stop())

    await rig.apply(overrides=(IN_FORCE,))

    assert phase(rig) == "InForce"


async def test_shadow_and_followers_tell_nothing(rig: Rig) -> None:
    await rig.apply_by(rig.gate("shadow"), overrides=(IN_FORCE,))
    rig.right.why = "pod rebalancer-1 leads"
    await rig.apply(overrides=(IN_FORCE,))

    assert rig.writes == []

"""What died between a plan and its write stops a decrease that counted on it."""

import pytest
from msgspec.structs import replace

from tests.act.rig import Rig
from tests.act.test_floor import of_b, two_pools


@pytest.mark.parametrize(("phase", "status"), [("lost", "refused"), ("loading", "written")])
async def test_replicas_that_died_since_the_plan_stop_a_release_that_counted_on_them(
    rig: Rig, phase: str, status: str
) -> None:
    # Six were Ready, and two of them spare. Who loads goes first, so that four are left; a lost one may stay instead.
    two_pools(rig, a100=0, spot=6)
    release = of_b(rig, "b-spot", 4)
    pods = rig.target("b-spot").pods
    rig.show("b-spot", pods=tuple(replace(pod, phase=phase) if n < 1 else pod for n, pod in enumerate(pods)))

    (outcome,) = await rig.apply(release)

    assert outcome.status == status
    assert status == "written" or (
        outcome.detail == "moved: b-spot would keep 3 Ready replicas, and 4 when the plan was made"
    )


async def test_nobody_who_says_so_by_name_waits_for_those_that_died(rig: Rig) -> None:
    two_pools(rig, a100=0, spot=6)
    release = replace(of_b(rig, "b-spot", 4), passes="override cap-b")
    pods = rig.target("b-spot").pods
    rig.show("b-spot", pods=(replace(pods[0], phase="lost"), *pods[1:]))

    (outcome,) = await rig.apply(release)

    assert outcome.status == "written"

"""A policy file that is refused in part or whole, at a reload and at a start, through the whole service."""

import asyncio
from pathlib import Path

import pytest

from rebalancer.app import Service
from rebalancer.app.followed import NoPolicy
from rebalancer.app.past import read_last_policy
from rebalancer.domain.pinned import DEPARTED
from rebalancer.domain.policy import Model
from rebalancer.kafka.broker import Broker
from rebalancer.sandbox.demo_cluster import POLICY_FILE
from rebalancer.sandbox.sandbox import Sandbox
from tests.app.conftest import POLL_SECONDS, Started, get, until
from tests.app.test_restoring import bounds, is_ours, pinned, without_image

REFUSED = "models.image keeps its last good form"


def spoilt() -> str:
    """The demo's policy with a word for image's maximum, and another maximum for chat."""
    return (
        POLICY_FILE.read_text()
        .replace("maxReplicas: 5", "maxReplicas: five")
        .replace("maxReplicas: 7", "maxReplicas: 6")
    )


def in_force(service: Service) -> dict[str, Model]:
    return {model.id: model for model in service.cycle_ports.policy.models} if service.cycle_ports else {}


async def test_a_bad_entry_keeps_its_form_and_its_pins_while_its_neighbours_are_taken_over_also_by_a_restart(
    started: Started, sandbox: Sandbox, policy_path: Path
) -> None:
    sandbox.kubernetes.store.put(pinned("image"))
    async with started(write_mode="act") as service:
        await until(lambda: service.plan is not None and not service.reporter.unready(), "ready")
        await asyncio.to_thread(policy_path.write_text, spoilt())
        await until(lambda: in_force(service)["chat"].max_replicas == 6, "chat's new maximum is in force")
        assert service.reporter.status().policy_refused == (REFUSED,)
        code, body = await get(service.servers.probe_port, "/readyz")
        assert (code, body["policyRefused"]) == (200, [REFUSED])
        assert b'rebalancer_policy_entries_refused{form="kept"} 1.0' in service.reporter.metrics()
    async with started(write_mode="act") as reborn:
        await until(lambda: reborn.plan is not None and not reborn.reporter.unready(), "ready again")
        assert in_force(reborn)["chat"].max_replicas == 6
        assert in_force(reborn)["image"].max_replicas == 5
        assert reborn.reporter.status().policy_refused == (REFUSED,)
        assert [one for one in reborn.reporter.status().pinned if one.state == DEPARTED] == []
    assert is_ours(sandbox, "image")


async def test_a_bad_entry_at_the_very_first_start_starts_nothing_and_gives_nothing_back(
    started: Started, sandbox: Sandbox, policy_path: Path
) -> None:
    sandbox.kubernetes.store.put(pinned("image"))
    await asyncio.to_thread(policy_path.write_text, spoilt())
    with pytest.raises(NoPolicy, match=r"maxReplicas is not a whole number at .* models\.image\.maxReplicas"):
        async with started(write_mode="act") as service:
            await service.start()
    assert bounds(sandbox, "image") == (2, 2)


def only_image() -> str:
    """The demo's policy without two of its three models."""
    text = POLICY_FILE.read_text()
    return text[: text.index("  - id: chat")] + text[text.index("  - id: image") :]


async def test_a_reload_that_drops_more_than_half_of_the_models_is_refused_by_the_next_start_too(
    started: Started, sandbox: Sandbox, policy_path: Path
) -> None:
    sandbox.kubernetes.store.put(pinned("code"))
    async with started(write_mode="act") as service:
        await until(lambda: service.plan is not None and not service.reporter.unready(), "ready")
        await asyncio.to_thread(policy_path.write_text, only_image())
        await until(lambda: service.reporter.status().policy_problems, "the file is refused")
    for _ in range(2):  # the checkpoint of the first start keeps what is in force, not what the file says
        async with started(write_mode="act") as reborn:
            await until(lambda: reborn.plan is not None and not reborn.reporter.unready(), "ready again")
            assert set(in_force(reborn)) == {"chat", "code", "image"}
            (problem,) = reborn.reporter.status().policy_problems
            assert "this reload would remove 2 of 3 models (chat, code)" in problem
            assert [one for one in reborn.reporter.status().pinned if one.state == DEPARTED] == []
    assert is_ours(sandbox, "code")


async def test_a_policy_is_kept_for_the_next_start_as_it_comes_into_force(
    started: Started, sandbox: Sandbox, policy_path: Path
) -> None:
    """The demo's models leave in two steps, none too large for a reload: a start must not take both for one."""
    broker = Broker(sandbox.bootstrap)
    async with started(checkpoint_seconds=300.0) as service:
        await until(lambda: service.plan is not None and not service.reporter.unready(), "ready")
        await asyncio.to_thread(policy_path.write_text, without_image())
        async with asyncio.timeout(45.0):
            while (
                policy := await read_last_policy(broker, service.settings.installation, service.clock.now())
            ) is None:
                await asyncio.sleep(POLL_SECONDS)
    assert {model.id for model in policy.models} == {"chat", "code"}

"""Which policy a start goes on with, by its file and by what was in force last, as Kafka keeps it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from structlog.testing import capture_logs

from rebalancer.app.followed import FollowedPolicy
from rebalancer.app.past import TopicsShared
from rebalancer.domain.memory import Memory
from rebalancer.domain.policy import Policy
from rebalancer.kafka.broker import Broker
from rebalancer.loop.clock import RealClock
from rebalancer.obs.journal_files import JournalFiles
from rebalancer.obs.recorder import Recorder
from rebalancer.sandbox.broker import EmbeddedBroker
from rebalancer.settings.policy_file import PolicyFile
from rebalancer.state import checkpoint
from tests.builders import a_policy
from tests.settings.a_policy_text import GOOD


def ids(policy: Policy) -> set[str]:
    return {model.id for model in policy.models}


US, OTHERS = "prod/rebalancer", "staging/rebalancer"
THEIRS = a_policy()
OURS = {"qwen-32b", "sdxl"}


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    async with EmbeddedBroker({"rebalancer.state": 1}) as running:
        yield Broker(running.bootstrap)


@pytest.fixture
def followed(broker: Broker, tmp_path: Path) -> FollowedPolicy:
    (tmp_path / "policy.yaml").write_text(GOOD)
    recorder = Recorder(JournalFiles(tmp_path / "journal", 1 << 30), away, lambda _key, _line: None)
    return FollowedPolicy(PolicyFile(tmp_path / "policy.yaml"), broker, RealClock(), recorder, US)


async def away(_key: bytes, _line: bytes) -> bool:
    """Kafka acknowledges nothing."""
    return False


async def left(broker: Broker, writers: dict[str, float], policy: Policy = THEIRS) -> None:
    """Each of `writers` kept memory so many seconds ago, and the last one `policy`."""
    memories = [
        checkpoint.memory_entry(Memory(), 7, RealClock().now() - ago_seconds, {}, installation=writer)
        for writer, ago_seconds in writers.items()
    ]
    async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
        for key, value in (*memories, checkpoint.policy_entry(policy)):
            await producer.send_and_wait("rebalancer.state", value, key=key)


@pytest.mark.parametrize(
    ("writers", "models"),
    [
        ({US: 86_400.0}, ids(THEIRS)),
        ({"": 86_400.0}, ids(THEIRS)),
        ({OTHERS: 86_400.0}, OURS),
        ({US: 3 * 86_400.0, OTHERS: 86_400.0}, OURS),
        ({OTHERS: 3 * 86_400.0, US: 86_400.0}, ids(THEIRS)),
    ],
)
async def test_a_start_goes_on_from_our_last_policy_and_from_no_other_installation_s(
    broker: Broker, followed: FollowedPolicy, writers: dict[str, float], models: set[str]
) -> None:
    """The file drops all that was in force last: no reload of ours may. An older version's memory has no name."""
    await left(broker, writers)
    await followed.first()
    assert ids(await followed.go_on()) == models


async def test_a_model_that_was_renamed_while_the_service_was_down_is_told_at_its_start(
    broker: Broker, followed: FollowedPolicy
) -> None:
    """It may lend, and calls nothing home under a name that nobody says: a reload tells that, and so does a start."""
    ours = await followed.first()
    known = tuple(one.model_copy(update={"id": "sdxl-turbo"}) if one.id == "sdxl" else one for one in ours.models)
    await left(broker, {US: 86_400.0}, ours.model_copy(update={"models": known}))
    with capture_logs() as logs:
        assert await followed.go_on() is ours
    (told,) = [line["problem"] for line in logs if line["log_level"] == "warning"]
    assert told.startswith("model sdxl-turbo is called sdxl now: samples that say sdxl-turbo are heard no more")
    assert followed.last_change().differences == (told,)


async def test_the_policy_of_an_installation_that_lives_on_our_topics_is_never_in_force(
    broker: Broker, followed: FollowedPolicy
) -> None:
    await left(broker, {OTHERS: 10.0})
    ours = await followed.first()
    with pytest.raises(TopicsShared, match=r"staging/rebalancer wrote its memory .*, and we are prod/rebalancer"):
        await followed.go_on()
    assert followed.in_force() is ours

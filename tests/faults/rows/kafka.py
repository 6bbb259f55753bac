"""7.1 Kafka and events."""

import asyncio
import time

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import NewPartitions, RecordsToDelete

from tests.faults import wire
from tests.faults.evidence import Span
from tests.faults.injections import frozen, sample, sent
from tests.faults.row import Group, Row
from tests.faults.scene import Scene
from tests.real.poison import KINDS
from tests.real.records import Place, everything_in, letters
from tests.real.traffic import STRUCTURED

_GROUP = "rebalancer"
_TIER = "-aggregate"  # whatever the prefix, so end groups of the aggregate tier, which other tests run


async def _broker_killed(scene: Scene) -> None:
    async with scene.down(scene.kafka.process, scene.kafka.start):
        pass


async def _broker_frozen(scene: Scene) -> None:
    async with frozen(scene.kafka.process.pid), scene.blinded():
        await scene.complains("kafka-in")


async def _broker_away(scene: Scene) -> None:
    async with scene.down(scene.kafka.process, scene.kafka.start), scene.blinded():
        await scene.complains("kafka-in", "kafka-out")
    back = time.time()
    await scene.service.wait_ready(30.0)
    assert time.time() - back < 30.0, "consumption resumes within 30 s"


async def _others_join_a_group(scene: Scene) -> None:
    """There is no group to be thrown out of: the service assigns its partitions itself and commits nothing."""
    topic = scene.broker.topic("metrics")
    for _ in range(3):
        async with AIOKafkaConsumer(
            topic, bootstrap_servers=scene.broker.bootstrap, group_id=_GROUP, enable_auto_commit=False
        ) as member:
            await member.getmany(timeout_ms=1000)
    async with scene.broker.admin() as admin:
        groups = {group[0] for group in await admin.list_consumer_groups()}
        (answer,) = await admin.describe_consumer_groups([_GROUP])
        offsets = await admin.list_consumer_group_offsets(_GROUP)
    assert {group for group in groups if not group.endswith(_TIER)} <= {_GROUP}, f"the service is in a group: {groups}"
    ((_, _, state, _, _, members, *_),) = answer.groups
    assert members == [], f"the service is in the group: {state} {members}"
    assert offsets == {}, f"the service commits: {offsets}"


async def _again(scene: Scene) -> None:
    """The last 300 records once more, byte by byte."""
    records = await everything_in(scene.broker, "metrics", 300)
    await sent(scene, *(record.value for record in records))


async def _shuffled(scene: Scene) -> None:
    """Samples of the last seconds that say something else come after newer ones, in no order."""
    now = time.time()
    ages = [age / 2 for age in range(2, 14)]
    scene.chance.shuffle(ages)
    await sent(scene, *(sample(scene.needs_much, now - age, '{"running": 0}') for age in ages))


async def _late(scene: Scene) -> None:
    """Three hours old, and full of demand."""
    old = time.time() - 3 * 3600
    await sent(scene, *(sample("side", old + second, '{"running": 500}') for second in range(30)))


async def _poison(scene: Scene) -> None:
    doses = {}
    for kind in KINDS:
        value = kind.make()
        doses[Place.of(await scene.traffic.send(kind.topic, value, key=b"chat", headers=kind.headers))] = kind.reason

    async def all_dead() -> bool:
        dead = {letter.place: letter.reason for letter in await letters(scene.broker, 200)}
        return doses.items() <= dead.items()

    await scene.until(all_dead, "every dose is a dead letter with its reason", 30.0)


async def _huge(scene: Scene) -> None:
    """One of 900 KiB, and three of 8 MiB that are a few KiB while nobody unpacks them."""
    big = sample("chat", time.time(), '{"running": 1, "' + "x" * 900_000 + '": 1}')
    await sent(scene, big)
    async with AIOKafkaProducer(
        bootstrap_servers=scene.broker.bootstrap, compression_type="gzip", max_request_size=64 * 2**20
    ) as producer:
        bomb = sample("chat", time.time(), '{"running": 1, "' + "x" * 8 * 2**20 + '": 1}')
        places = [
            Place.of(await producer.send_and_wait(scene.broker.topic("metrics"), bomb, headers=list(STRUCTURED)))
            for _ in range(3)
        ]

    async def refused() -> bool:
        dead = {letter.place: letter.reason for letter in await letters(scene.broker, 200)}
        return all(dead.get(place) == "too-large" for place in places)

    await scene.until(refused, "each is a dead letter: too large", 30.0)


async def _out_of_range(scene: Scene) -> None:
    """While no answer to Fetch comes, retention passes what is to be read next."""
    topic = scene.broker.topic("metrics")
    since = time.time()
    async with scene.wire.meddling(wire.without(wire.FETCH, asks=False)):
        await scene.silent(3.0)
        async with scene.broker.admin() as admin, AIOKafkaConsumer(bootstrap_servers=scene.broker.bootstrap) as reader:
            ends = await reader.end_offsets(
                [TopicPartition(topic, each) for each in range(await scene.broker.partitions(topic))]
            )
            await admin.delete_records({part: RecordsToDelete(end) for part, end in ends.items()})
    scene.now.gone.append(Span(since - 2.0, time.time()))


async def _topic_anew(scene: Scene) -> None:
    """Deleted, made anew by whoever speaks first, and then of two partitions."""
    topic, since = scene.broker.topic("metrics"), time.time()
    async with scene.broker.admin() as admin:
        await admin.delete_topics([topic])

    async def there() -> bool:
        return await scene.broker.partitions(topic) == 1

    async with scene.blinded():
        await scene.until(there, "the topic is there again", 30.0)
        async with scene.broker.admin() as admin:
            await admin.create_partitions({topic: NewPartitions(total_count=2)})
        await scene.silent(12.0)
    scene.now.gone.append(Span(since - 2.0, time.time()))


async def _unknown(scene: Scene) -> None:
    """Models, kinds and versions that nobody knows; none of them becomes the label of a metric."""
    now = time.time()
    await sent(scene, *(sample(f"stranger-{number}", now) for number in range(200)))
    await sent(scene, sample("chat", now, kind="io.rebalancer.metric.sample.v9"), sample("chat", now, kind="com.x.y"))
    await scene.silent(2.0)
    series = await scene.service.metrics()
    assert not [name for name in series if "stranger" in name], "a stranger became a label"


async def _numbers(scene: Scene) -> None:
    for spelled in ("NaN", "Infinity", "-Infinity", "-1", "1e308", "-0.0", "true", '"500"', "9" * 5000, "1e309"):
        await sent(scene, sample("side", time.time(), f'{{"running": {spelled}}}'))
        await asyncio.sleep(0.1)


async def _wrong_instants(scene: Scene) -> None:
    now = time.time()
    instants = (now + 60, now + 3600, now + 10 * 365 * 86_400, 0.0)
    await sent(scene, *(sample("side", at, '{"running": 500}') for at in instants))


async def _aborted(scene: Scene) -> None:
    async with AIOKafkaProducer(
        bootstrap_servers=scene.broker.bootstrap, transactional_id=f"{scene.namespace}-{scene.chance.random()}"
    ) as producer:
        await producer.begin_transaction()
        for _ in range(10):
            value = sample("side", time.time(), '{"running": 500}')
            await producer.send_and_wait(scene.broker.topic("metrics"), value, headers=list(STRUCTURED))
        await producer.abort_transaction()


async def _outbox_hangs(scene: Scene) -> None:
    """No record of ours is acknowledged: nobody loses anything; an ordered end takes no longer for it."""
    async with scene.wire.meddling(wire.without(wire.PRODUCE, asks=True)):
        before = await scene.replicas()
        await scene.silent(6.0)
        began = time.time()
        scene.now.kills += 1
        await scene.service.stop()
        took = time.time() - began
        after = await scene.replicas()
    await scene.service.start()
    assert sum(max(0, before[name] - after[name]) for name in after) <= 1, f"{before} became {after}"
    assert took <= 10.0, f"an ordered end took {took:.1f} s"


async def _stalled(scene: Scene) -> None:
    """Everything but the answers to Fetch goes on."""
    async with scene.wire.meddling(wire.without(wire.FETCH, asks=False)), scene.blinded():
        await scene.complains("kafka-in")


_OF_THE_TIER = (
    "of `rebalancer aggregate`; the service is in no group and commits nothing, as K04 looks up at the broker"
)
_TIER_TESTS = "real/test_aggregate_group.py"
_SLOW = (f"{_TIER_TESTS}::test_a_member_that_hands_on_for_longer_than_its_session_stays_a_member_and_loses_no_sample",)
_COMMIT_LOST = (f"{_TIER_TESTS}::test_a_member_killed_while_it_waits_for_its_commit_loses_no_sample",)
_FLOOD = ("real/test_doors.py::test_under_ten_thousand_events_a_second_an_override_takes_effect_within_five_seconds",)
_ROTATES = ("real/test_kafka_security.py::test_a_password_rotates_while_the_service_runs",)

KAFKA = Group(
    "kafka",
    "7.1 Kafka and events",
    (
        Row("K01", "broker killed mid-batch", "I4 I5 I7", _broker_killed),
        Row("K02", "broker paused", "I4 I9 I12", _broker_frozen, "SIGSTOP until /readyz complains, not 45 s"),
        Row("K03", "broker away, and back", "resumes within 30 s", _broker_away, "until /readyz complains, not 15 min"),
        Row("K04", "rebalance with a batch in flight", "I4 I5, no deadlock", _others_join_a_group,
            "a member of a group of the service's name joins and leaves three times;"
            f" of `rebalancer aggregate`, which is in a group, in `{_TIER_TESTS}`"),
        Row("K05", "handler slower than the session", "no livelock, none is lost", elsewhere=_SLOW,
            as_played=f"{_OF_THE_TIER}; 20 s without an answer to Produce, its longest poll interval is 5 min"),
        Row("K06", "effect done, commit lost", "each counts once or more, none is lost", elsewhere=_COMMIT_LOST,
            as_played=f"{_OF_THE_TIER}; the commit, or its reply, then SIGKILL"),
        Row("K07", "duplicates", "I5: no effective write", _again, "the last 300 records, not 10,000", fast=True),
        Row("K08", "out of order", "newest counts", _shuffled, "one partition"),
        Row("K09", "late events", "counted, no effect", _late),
        Row("K10", "poison", "I14, a dead letter with its reason each", _poison, "16 kinds at once, not 1 in 100"),
        Row("K11", "huge event, compression bomb", "I13 I14", _huge, "900 KiB, and 8 MiB three times in a few KiB"),
        Row("K12", "flood of 100,000 events/s", "I13, overrides within 5 s", elsewhere=_FLOOD,
            as_played="10,000 events/s"),
        Row("K13", "what is to be read next is gone", "full resync and a word", _out_of_range),
        Row("K14", "topic deleted, made anew, partitions added", "I7", _topic_anew),
        Row("K15", "unknown model, kind, version", "rejected, labels bounded", _unknown),
        Row("K16", "numbers that are none", "I1 I14", _numbers),
        Row("K17", "instants of the future and of 1970", "no newer sample is blocked", _wrong_instants),
        Row("K18", "aborted transactions", "never seen", _aborted),
        Row("K19", "credentials rotate", "reconnects within 60 s", elsewhere=_ROTATES),
        Row("K20", "the decisions topic takes nothing", "I8, an ordered end within 10 s", _outbox_hangs),
        Row("K21", "silent stall: no answer to Fetch", "I12 within 60 s", _stalled),
    ),
)  # fmt: skip

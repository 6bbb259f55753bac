"""How what is seen gets into the state, and when the runner is woken by it."""

import random
from collections.abc import Callable

from rebalancer.app.cycle_ports import ServicePorts
from rebalancer.aws.address import QueueAddress
from rebalancer.aws.identity import AwsIdentity
from rebalancer.aws.owner import QueueReader, queues_read
from rebalancer.aws.queue import SqsQueue
from rebalancer.domain.events import Event
from rebalancer.ingest.intake import KafkaIntake
from rebalancer.ingest.notice_queue import NoticeQueue
from rebalancer.ingest.prometheus import PrometheusReadings, Server
from rebalancer.kafka.outbox import Outbox
from rebalancer.kube.reader import KubeReader
from rebalancer.kube.resources import DEPLOYMENTS
from rebalancer.loop.runner import Runner
from rebalancer.obs.clock import Clock
from rebalancer.settings.queue_url import region_of
from rebalancer.settings.service import ServiceSettings
from rebalancer.state import ClusterState
from rebalancer.state.wakes import patience_seconds

PODS_LOOK_SECONDS = 0.05

Sink = Callable[[list[Event]], None]


def sink_of(state: ClusterState, runner: Runner, clock: Clock) -> Sink:
    """Where all sources put their events: into the state, which may know of something that cannot wait."""

    def sink(events: list[Event]) -> None:
        state.apply_all(events, clock.now())
        if state.wakes:
            runner.wake(patience_seconds(state.wakes))

    return sink


async def read_when_pods_are_known(intake: KafkaIntake, state: ClusterState, clock: Clock) -> None:
    """Consume for ever, once the pods are known."""
    await await_pods(state, clock)
    await intake.run()


async def await_pods(state: ClusterState, clock: Clock) -> None:
    """A sample of a pod counts for its model: before the pods are listed nobody could say whose it is."""
    while not state.sync(clock.now()).sees_replicas:
        await clock.sleep(PODS_LOOK_SECONDS)


def server_of(settings: ServiceSettings) -> Server:
    """The Prometheus that the settings name, and how it is asked."""
    return Server(
        settings.prometheus_url,
        settings.prometheus_token_file,
        settings.prometheus_ca_file,
        settings.prometheus_username,
        settings.prometheus_password_file,
        settings.prometheus_certificate_file,
        settings.prometheus_key_file,
        settings.prometheus_sigv4_region,
        settings.prometheus_matchers,
    )


def notice_queue_of(
    settings: ServiceSettings, clock: Clock, rng: random.Random, outbox: Outbox, kube: KubeReader
) -> NoticeQueue:
    """The reader of the queue that the settings name; whose it is, Deployments of the cluster may say."""
    url = settings.notices_queue_url
    region = settings.notices_queue_region or region_of(url)

    async def read_by() -> dict[str, str]:
        listed = await kube.list(DEPLOYMENTS, into=QueueReader)
        return queues_read(listed.items)

    return NoticeQueue(SqsQueue(QueueAddress(url, region), AwsIdentity(region)), outbox, clock, rng, read_by)


def prometheus_of(
    settings: ServiceSettings, clock: Clock, sink: Sink, state: ClusterState, cycle_ports: ServicePorts
) -> PrometheusReadings:
    """The source of readings beside Kafka, or in its place: then it is asked for counters, too.

    It is asked for the pods of the policy's namespaces, by the policy's own maps and ours.
    """
    return PrometheusReadings(
        server_of(settings),
        settings.prometheus_interval_seconds,
        clock,
        sink,
        lambda: {model.namespace for model in cycle_ports.policy.models},
        state.pod_named,
        models=lambda: {name for model in cycle_ports.policy.models for name in (model.id, *model.aliases)},
        own_maps=lambda: cycle_ports.policy.metrics.maps,
        counted=not settings.kafka_enabled,
    )

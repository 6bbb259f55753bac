"""pytest fixtures of the real tier beside those of the testbed: the service and its traffic."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import yaml

from tests.real.occupancy import Pods, gpus_of_nodes
from tests.real.oracles import below_floor, least_asked, most_asked, over_budget, steps, unserved
from tests.real.people import People
from tests.real.rights import Ledger, is_whole_tier, rights_in, take_away, to_apply
from tests.real.service import ACCOUNT, Service
from tests.real.traffic import Traffic
from tests.testbed.kafka import Kafka
from tests.testbed.kube import Kube
from tests.testbed.stack import Stack

__all__ = [
    "account",
    "crds",
    "drained_nodes",
    "judged",
    "ledger",
    "patience",
    "people",
    "service",
    "target_kinds",
    "traffic",
]

_CRDS = Path(__file__).parents[2] / "charts/rebalancer/crds"
CRD_OBJECTS = [yaml.safe_load(file.read_text()) for file in sorted(_CRDS.glob("*.yaml"))]

# In the everyday run the other half computes on the same two cores, beside Kafka and the API server. On a slow day a
# storm's notices were called after 4.7 s and its overrides obeyed after 7.4 s, where 2 and 5 s are promised.
_ON_A_SHARED_MACHINE = 5.0


@pytest.fixture(
    params=[
        pytest.param(_ON_A_SHARED_MACHINE, id="shared machine"),
        pytest.param(1.0, id="own machine", marks=pytest.mark.proof),
    ]
)
def patience(request: pytest.FixtureRequest) -> float:
    """How many times the promised seconds an answer may take: 1 where the test has the machine for itself."""
    times: float = request.param
    return times


@pytest.fixture
async def crds(kube: Kube) -> AsyncIterator[None]:
    """Override and WriteStop are served.

    What a test decided ends with it: its namespace may need half a minute to go, and a service answers every override.
    """
    await kube.install_crds(CRD_OBJECTS)
    yield
    for kind in ("Override", "WriteStop"):
        for obj in await kube.items(kind):
            await kube.delete(kind, obj["metadata"]["name"], obj["metadata"].get("namespace"))


@pytest.fixture
async def people(kube: Kube, crds: None, namespace: str) -> AsyncIterator[People]:
    """Somebody with kubectl; what they made goes with the test."""
    people = People(kube, namespace)
    yield people
    await people.leave()


@pytest.fixture(scope="session")
def ledger(request: pytest.FixtureRequest) -> Iterator[Ledger]:
    """Which rights the services of this session were granted. In the end they must have used all of them."""
    ledger = Ledger()
    yield ledger
    print(ledger.differences())
    assert not ledger.refused, f"the chart grants too little\n{ledger.differences()}"
    if is_whole_tier(request.session):
        assert not ledger.unused, f"the chart grants what nothing needs\n{ledger.differences()}"


@pytest.fixture
def target_kinds() -> tuple[str, ...]:
    """The kinds of targets besides Deployments that the test's service may scale, as RESOURCE.GROUP."""
    return ()


@pytest.fixture
def drained_nodes() -> dict[str, str] | None:
    """Labels of the nodes that the test's service may drain; None: it drains none."""
    return None


@pytest.fixture
async def account(  # what it stands on
    cluster: Stack,
    kube: Kube,
    ledger: Ledger,
    crds: None,
    namespace: str,
    target_kinds: tuple[str, ...],
    drained_nodes: dict[str, str] | None,
) -> AsyncIterator[str]:
    """A token of the chart's service account, with exactly the chart's rights in the test's namespace."""
    rendered = await asyncio.to_thread(rights_in, namespace, target_kinds, drained_nodes)
    objects = to_apply(rendered)
    await kube.apply(*objects)
    yield await kube.token(namespace, ACCOUNT)
    await cluster.audit.settle(kube)
    await asyncio.to_thread(ledger.close, rendered, cluster.audit)
    await take_away(kube, objects, namespace)


@pytest.fixture
async def service(
    cluster: Stack, kafka: Kafka, account: str, namespace: str, topic_prefix: str, tmp_path: Path
) -> AsyncIterator[Service]:
    """The service, not started yet: give it a policy, then `start` it. Whatever it decides must replay byte by byte."""
    kubeconfig = await asyncio.to_thread(cluster.kubeconfig, namespace, account)
    user = f"system:serviceaccount:{namespace}:{ACCOUNT}"
    service = await asyncio.to_thread(Service, cluster, kafka, kubeconfig, user, topic_prefix, tmp_path)
    yield service
    print(await asyncio.to_thread(service.log_tail))  # pytest shows it for a failed test
    await service.close()
    replayed = await service.replay()
    assert replayed.differences == [], f"{len(replayed.differences)} of {replayed.cycles} decisions differ"


@pytest.fixture
async def traffic(kafka: Kafka, topic_prefix: str) -> AsyncIterator[Traffic]:
    """A voice for every model, silent until it is told what to say."""
    async with Traffic.to(kafka.bootstrap, topic_prefix) as traffic:
        yield traffic


@pytest.fixture
async def judged(cluster: Stack, kube: Kube, service: Service, namespace: str) -> AsyncIterator[None]:
    """In the end the API server's audit log says whether the service kept floors and budget.

    For models of one GPU on Deployments of their name, on one pool of the test's own nodes; floors are the first
    policy's.
    """
    since = time.time()
    yield
    ours = await service.writes(kube, since=since, namespace=namespace)
    everybody = await asyncio.to_thread(cluster.audit.writes, since=since)
    made = [each for each in everybody if each.namespace == namespace or each.resource == "nodes"]
    floors = {model["id"]: model["minReplicas"] for model in service.policies[0]["models"]}
    begun = [each for each in made if (each.resource, each.subresource) == ("deployments", "") and each.name in floors]
    replicas = {each.name: each.response["spec"]["replicas"] for each in reversed(begun)}
    pods, taken = Pods.of(made), steps(ours, replicas, most_asked)
    print(f"judged by the audit log: {len(taken)} writes of replicas, {len(pods.ended)} pods ended")
    assert pods.ready, "the log says when pods became Ready"
    broken = [
        *(f"{step} asks for less than its floor" for step in below_floor(steps(ours, replicas, least_asked), floors)),
        *unserved(taken, floors, pods),
        *over_budget(taken, replicas, pods, gpus_of_nodes(made, namespace)),
    ]
    assert not broken, "\n".join(broken)

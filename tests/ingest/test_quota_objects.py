"""Quotas, queues, jobs and what templates ask for, as the API server sends them."""

import json

import msgspec
import pytest

from rebalancer.domain.cluster import ClusterObject, Pod, Workload
from rebalancer.domain.jobs import Job
from rebalancer.domain.kueue import ClusterQueue, Cohort, FlavorQuota, LocalQueue, ResourceFlavor, Used
from rebalancer.domain.quantities import thousandths
from rebalancer.domain.quotas import ContainerAsk, LimitRange, Limits, PriorityClass, ResourceQuota, Scope
from rebalancer.ingest.instants import epoch
from rebalancer.ingest.objects import SHAPES, Unusable, value_of
from tests.ingest import quota_manifests as objects
from tests.ingest.manifests import container, deployment, pod

GPU = "nvidia.com/gpu"


def read(source: str, obj: dict[str, object]) -> ClusterObject | Unusable:
    return value_of(source, msgspec.json.decode(json.dumps(obj), type=SHAPES[source].wire))


def test_a_quota_with_what_its_status_enforces_and_counts() -> None:
    terms = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]}
    found = read("resourcequotas", objects.resource_quota(scopes=["NotTerminating"], scopeSelector=terms))
    assert found == ResourceQuota(
        "serving",
        "gpus",
        "uid-gpus",
        "1001",
        hard={f"requests.{GPU}": 8000, "requests.cpu": 500},
        used={f"requests.{GPU}": 6000, "requests.cpu": 0},
        scopes=(Scope("NotTerminating"), Scope("PriorityClass", "In", ("high",))),
    )


def test_a_quota_that_nobody_counted_yet_has_its_spec_and_uses_nothing_that_is_known() -> None:
    found = read("resourcequotas", objects.resource_quota() | {"status": {}})
    assert isinstance(found, ResourceQuota)
    assert found.hard[f"requests.{GPU}"] == 8000
    assert found.used == {}


def test_a_limit_range() -> None:
    row = Limits("Container", requests={"cpu": 1000}, limits={"cpu": 2000}, most={GPU: 4000})
    assert read("limitranges", objects.limit_range()) == LimitRange("serving", "small", "uid-small", "1001", (row,))


def test_a_priority_class() -> None:
    found = read("priorityclasses", objects.priority_class(globalDefault=True))
    assert found == PriorityClass("serving-high", "uid-serving-high", "1001", 1000, default=True, preempts=False)


def test_a_job_ends_by_its_deadline_and_belongs_to_its_job_set() -> None:
    found = read("jobs", objects.job())
    ends_at = epoch("2027-01-15T09:00:00Z")
    assert found == Job("serving", "tune-workers-0", "uid-tune-workers-0", "1001", ends_at, ("JobSet", "tune"))


def test_kueues_queues_cohorts_and_flavors() -> None:
    assert read("localqueues", objects.local_queue()) == LocalQueue("serving", "llms", "uid-llms", "1001", "research")
    assert read("clusterqueues", objects.cluster_queue()) == ClusterQueue(
        "research",
        "uid-research",
        "1001",
        cohort="all",
        quotas=(FlavorQuota("a100", GPU, 4000, borrows=2000, lends=1000),),
        used=(Used("a100", GPU, 3000),),
    )
    assert read("cohorts", objects.cohort()) == Cohort("all", "uid-all", "1001", "company")
    assert read("resourceflavors", objects.resource_flavor()) == ResourceFlavor(
        "a100", "uid-a100", "1001", {"pool": "a100"}
    )


def test_a_template_says_what_its_pods_ask_of_the_namespace() -> None:
    obj = deployment()
    obj["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "llms"}
    obj["spec"]["template"]["spec"] |= {
        "priorityClassName": "high",
        "initContainers": [container(None, restartPolicy="Always"), container(2)],
    }
    found = read("deployments", obj)
    assert isinstance(found, Workload)
    assert (found.ask.priority_class, found.ask.ends, found.ask.queue) == ("high", False, "llms")
    assert [one.step for one in found.ask.containers] == ["sidecar", "init", ""]
    asks = {"cpu": 8000, "memory": 64 * 2**30 * 1000, GPU: 1000}
    assert found.ask.containers[2] == ContainerAsk(asks, asks)


def test_a_pod_says_its_class_its_end_and_its_gates() -> None:
    spec = {
        "priorityClassName": "low",
        "activeDeadlineSeconds": 60,
        "schedulingGates": [{"name": "kueue.x-k8s.io/admission"}],
    }
    obj = pod(spec=spec)
    obj["status"]["startTime"] = "2027-01-15T07:00:00Z"
    found = read("pods", obj)
    assert isinstance(found, Pod)
    assert (found.priority_class, found.ends_at) == ("low", epoch("2027-01-15T07:01:00Z"))
    assert found.gates == ("kueue.x-k8s.io/admission",)


@pytest.mark.parametrize(
    ("text", "amount"), [("500m", 500), ("1", 1000), (2, 2000), ("1.0001", 1001), ("1Ki", 1024000), ("9E", 9 * 10**18)]
)
def test_a_quantity_is_counted_in_thousandths_rounded_up(text: str | int, amount: int) -> None:
    assert thousandths(text) == amount


def test_what_is_no_quantity_is_refused() -> None:
    obj = objects.resource_quota() | {"status": {}}
    obj["spec"] = {"hard": {"pods": "many"}}
    found = read("resourcequotas", obj)
    assert isinstance(found, Unusable)
    assert found.why == "'many' is no quantity"

"""Small clusters as manifests, and the first policy of each, loaded as `rebalancer config check` loads it."""

from collections.abc import Iterable, Mapping
from typing import Any

from rebalancer.domain.policy import Model, Policy, Pool
from rebalancer.settings.problems import check_text
from rebalancer.survey.first_policy.drafting import first_policy
from rebalancer.survey.first_policy.recent import Use
from rebalancer.survey.first_policy.text import text_of
from rebalancer.survey.objects import Survey
from tests.testbed.objects import deployment

Json = dict[str, Any]

PRODUCT = "nvidia.com/gpu.product"
READY_AT = "2027-01-15T08:02:30Z"
PLACED_AT = "2027-01-15T08:00:30Z"
CREATED_AT = "2027-01-15T08:00:00Z"


def text(objects: Iterable[Json], recent: Mapping[str, Use] | None = None, namespaces: tuple[str, ...] = ()) -> str:
    """The file that `rebalancer init` would write."""
    return text_of(first_policy(Survey(tuple(objects)), recent, namespaces))


def policy(objects: Iterable[Json], recent: Mapping[str, Use] | None = None) -> Policy:
    """The first policy, which must load."""
    written = text(objects, recent)
    found, problems = check_text(written, "policy.yaml")
    assert found is not None, "\n".join([*map(str, problems), written])
    return found


def the_model(found: Policy, name: str = "chat") -> Model:
    return next(model for model in found.models if model.id == name)


def the_pool(found: Policy, name: str) -> Pool:
    return next(pool for pool in found.pools if pool.name == name)


def engine(name: str, replicas: int = 1, *, served: str = "", namespace: str = "ml", **more: Any) -> Json:  # noqa: ANN401  those of `deployment`
    """A Deployment of vLLM; `served` names the model in its arguments, else the Deployment's name does."""
    made = deployment(name, namespace, replicas, **more)
    (container,) = made["spec"]["template"]["spec"]["containers"]
    container |= {"image": "vllm/vllm-openai:v0.11.0", "args": ["--served-model-name", served or f"{name}-v1"]}
    return made


def pod(owner: str, number: int, node: str, *, namespace: str = "ml", gpus: int = 1, kind: str = "ReplicaSet") -> Json:
    """A Ready pod of the Deployment `owner` (or of an owner of another kind), 120 s from placed to Ready."""
    reference = {"kind": kind, "name": f"{owner}-abcde" if kind == "ReplicaSet" else owner, "controller": True}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{owner}-abcde-{number}",
            "namespace": namespace,
            "uid": f"{owner}-{number}",
            "creationTimestamp": CREATED_AT,
            "labels": {"pod-template-hash": "abcde"} if kind == "ReplicaSet" else {},
            "ownerReferences": [reference],
        },
        "spec": {"nodeName": node, "containers": [{"resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}]},
        "status": {
            "phase": "Running",
            "conditions": [
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": PLACED_AT},
                {"type": "Ready", "status": "True", "lastTransitionTime": READY_AT},
            ],
        },
    }

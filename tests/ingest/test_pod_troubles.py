"""What a pod that does not serve says of itself, as its status tells it: by kubelet, and by the scheduler."""

from typing import Any

import msgspec
import pytest

from rebalancer.domain.starts import NOT_SET_UP
from rebalancer.ingest.objects.pods import PodWire, pod
from rebalancer.state.views import pod_view

GPU: dict[str, Any] = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
BACK_OFF = "back-off 5m0s restarting failed container=engine pod=chat-1_serving(0e1f)"


def told(*containers: dict[str, Any], **status: object) -> str:
    """What the view of a pod with this status says."""
    raw = {
        "metadata": {"name": "chat-1", "namespace": "serving", "uid": "u1", "resourceVersion": "1"},
        "spec": {"containers": [GPU], "nodeName": "gpu-1"},
        "status": {"phase": "Pending", "containerStatuses": containers, **status},
    }
    wire = msgspec.json.decode(msgspec.json.encode(raw), type=PodWire)
    return pod_view(pod(wire)).trouble or ""


def waiting(reason: str, message: str = "", **beside: object) -> dict[str, Any]:
    return {"name": "engine", "state": {"waiting": {"reason": reason, "message": message}}, **beside}


def unplaced(message: str) -> dict[str, str]:
    return {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}


def test_an_image_that_does_not_come_is_told_with_its_reason() -> None:
    message = 'Back-off pulling image "registry.example/vllm:0.9.9"'
    assert told(waiting("ImagePullBackOff", message)) == f"ImagePullBackOff: {message}"


def test_an_engine_that_ends_again_and_again_is_told_with_how_it_ended() -> None:
    killed = {"lastState": {"terminated": {"reason": "OOMKilled", "exitCode": 137}}}
    assert told(waiting("CrashLoopBackOff", BACK_OFF, **killed)) == (
        f"CrashLoopBackOff: its last run ended: OOMKilled, exit code 137; {BACK_OFF}"
    )
    assert told({"state": {"running": {}}, **killed}) == "its last run ended: OOMKilled, exit code 137"


def test_what_the_scheduler_says_comes_before_all() -> None:
    message = "0/5 nodes are available: 5 Insufficient nvidia.com/gpu."
    assert told(conditions=[unplaced(message)]) == f"Unschedulable: {message}"


def test_an_init_container_that_fails_holds_the_engine_up() -> None:
    failed = [waiting("CrashLoopBackOff", "back-off 10s restarting failed container=download")]
    told_by_init = told(waiting("PodInitializing"), initContainerStatuses=failed)
    assert told_by_init == "CrashLoopBackOff: back-off 10s restarting failed container=download"


def test_a_pod_whose_volume_or_secret_is_not_there_says_that_it_is_not_set_up() -> None:
    """Kubelet says FailedMount in an Event alone; the container waits in ContainerCreating like any that starts."""
    not_set_up = {"type": "PodReadyToStartContainers", "status": "False"}
    assert told(waiting("ContainerCreating"), conditions=[not_set_up]) == NOT_SET_UP
    assert told(waiting("ContainerCreating"), conditions=[not_set_up | {"status": "True"}]) == ""
    config = waiting("CreateContainerConfigError", 'secret "hf-token" not found')
    assert told(config, conditions=[not_set_up]) == 'CreateContainerConfigError: secret "hf-token" not found'


@pytest.mark.parametrize("reason", ["ContainerCreating", "PodInitializing"])
def test_a_pod_that_just_starts_says_nothing(reason: str) -> None:
    assert told(waiting(reason)) == ""
    assert told() == ""


def test_a_pod_that_is_ready_says_nothing() -> None:
    ready = {"type": "Ready", "status": "True"}
    assert told({"lastState": {"terminated": {"reason": "OOMKilled", "exitCode": 137}}}, conditions=[ready]) == ""


def test_it_is_one_line_of_at_most_160_characters_without_logins() -> None:
    message = "pull from https://us:hunter2@registry.example/v2/x?token=hunter2 failed\nand hunter2 " + "x" * 300
    shown = told(waiting("ErrImagePull", message))
    assert shown == "ErrImagePull: pull from https://registry.example/v2/x?... failed"
    assert len(told(waiting("ErrImagePull", "x" * 300))) == 160

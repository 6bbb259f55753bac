"""The past of a model by step, and what it comes to over a window; what nobody told is not zero."""

from collections.abc import Mapping

import msgspec
import pytest

from rebalancer.ingest.past.looks import PodLook, read_range
from rebalancer.ingest.past.minutes import ModelMinute, minutes
from rebalancer.ingest.past.names import pods_then
from rebalancer.ingest.past.use import window_use
from tests.builders import a_model, a_target_spec

HOUR = 3600.0


def look(at: float, pod: str, values: Mapping[str, float], model: str = "chat") -> PodLook:
    return PodLook(at, (model, pod, 0.0), {"at": at, **values})


def one(*looks: PodLook, slo: float | None = None) -> ModelMinute:
    (made,) = minutes(looks, 60.0, {} if slo is None else {"chat": slo})
    return made


def test_gpus_say_how_busy_they_are_and_where_none_does_replicas_with_work_do() -> None:
    by_gpus = one(
        look(0, "a", {"running": 9, "gpuUtilisation": 0.2}), look(0, "b", {"running": 0, "gpuUtilisation": 0.4})
    )
    assert (by_gpus.replicas, by_gpus.by_gpus, by_gpus.running) == (2, True, 9)
    assert by_gpus.busy == pytest.approx(0.3)
    by_requests = one(look(0, "a", {"running": 9}), look(0, "b", {"running": 0}))
    assert (by_requests.busy, by_requests.by_gpus) == (0.5, False)
    assert one(look(0, "a", {"fbUsedMib": 3.0})).busy is None


def test_a_value_that_is_none_counts_for_nothing() -> None:
    made = one(look(0, "a", {"running": float("nan"), "gpuUtilisation": 922.0}), slo=1.0)
    assert (made.running, made.waiting, made.busy, made.late) == (None, None, None, None)


def test_a_step_is_late_when_one_of_the_pods_is_and_only_against_an_slo() -> None:
    looks = (look(0, "a", {"ttftP95Seconds": 0.2}), look(0, "b", {"ttftP95Seconds": 1.2}))
    assert one(*looks, slo=1.0).late is True
    assert one(*looks, slo=2.0).late is False
    assert one(*looks).late is None


def test_a_pod_above_its_histograms_last_bound_is_late_where_that_bound_is() -> None:
    looks = (look(0, "a", {"ttftP95Seconds": 0.2}), look(0, "b", {"ttftP95AboveSeconds": 30.0}))
    assert [one(*looks, slo=slo).late for slo in (20.0, 30.0, 40.0)] == [True, True, None]


def test_a_window_sums_up_by_how_long_each_step_stands_for() -> None:
    chat, idle = a_model("chat", gpus_per_replica=2), a_model("idle")
    told = [
        ModelMinute("chat", 0, HOUR, replicas=1, busy=1.0, by_gpus=True, late=True),
        ModelMinute("chat", 1, 3 * HOUR, replicas=3, busy=0.5, by_gpus=True, late=False),
    ]
    use, nothing = window_use([chat, idle], told)
    assert (use.hours, use.gpus, use.gpus_most, use.late) == (4.0, 5.0, 6, 0.25)
    assert use.busy == pytest.approx((1 * 1.0 + 9 * 0.5) / 10)
    assert use.idle_gpu_hours == pytest.approx(2 * 9 * 0.5)
    assert (nothing.hours, nothing.gpus, nothing.busy, nothing.idle_gpu_hours) == (0.0, None, None, None)


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet"])
@pytest.mark.parametrize("length", [5, 46, 47, 50, 56, 57, 58, 60])
def test_a_pod_that_is_gone_is_its_workloads_however_long_that_is_called(kind: str, length: int) -> None:
    workload = "chat" + "a" * (length - 4)
    replica_set = workload if kind == "ReplicaSet" else f"{workload}-6d4cf56db6"
    pod = f"{replica_set}-"[:58] + "x7k2p"  # Kubernetes cuts what stands before the five at random
    then = pods_then([a_model("chat", targets=(a_target_spec("a100", workload, kind=kind),))], lambda *_: None)
    assert then("serving", pod, 0.0) == ("chat", f"serving/{pod}", 0.0)
    assert then("serving", pod.replace("chat", "code"), 0.0) is None


def test_a_pod_is_its_owners_while_it_is_there_and_by_its_name_when_it_is_gone() -> None:
    models = [
        a_model("chat", targets=(a_target_spec("a100", "chat"),)),
        a_model("code", targets=(a_target_spec("a100", "chat-70b"),)),
        a_model("set", targets=(a_target_spec("a100", "set", kind="StatefulSet"),)),
    ]
    then = pods_then(models, lambda _, name: ("chat", "uid", 100.0) if name == "odd" else None)
    assert then("serving", "odd", 100.0) == ("chat", "uid", 100.0)
    assert then("serving", "odd", 99.0) is None, "another pod had its name before"
    named = {
        name: then("serving", name, 0.0)
        for name in ("chat-5d9f7b6c4d-aaaaa", "chat-70b-5d9f7b6c4d-aaaaa", "set-3", "set-3-1", "chat-x", "other-1")
    }
    assert {name: pod and pod[0] for name, pod in named.items()} == {
        "chat-5d9f7b6c4d-aaaaa": "chat",
        "chat-70b-5d9f7b6c4d-aaaaa": "code",
        "set-3": "set",
        "set-3-1": None,
        "chat-x": None,
        "other-1": None,
    }
    assert then("elsewhere", "chat-5d9f7b6c4d-aaaaa", 0.0) is None


def test_an_answer_is_read_step_by_step_and_what_was_not_scraped_is_no_look() -> None:
    def series(reading: str, *values: tuple[float, str]) -> dict[str, object]:
        return {"metric": {"reading": reading, "namespace": "n", "pod": "p"}, "values": values}

    result = [series("at", (0, "-1"), (60, "55")), series("running", (0, "1"), (60, "2"), (120, "3"))]
    looks = read_range(result, lambda *_: ("chat", "uid", 50.0))
    assert looks == [PodLook(60, ("chat", "uid", 50.0), {"at": 55.0, "running": 2.0})]
    with pytest.raises(msgspec.ValidationError):
        read_range({"no": "matrix"}, lambda *_: None)

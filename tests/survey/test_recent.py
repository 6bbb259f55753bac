"""Last week's use: what Prometheus is asked, what its answer says, and that a real one understands the question."""

import subprocess
from pathlib import Path

import msgspec
import pytest

from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.ingest.prometheus import Server, answers
from rebalancer.loop.clock import RealClock
from rebalancer.survey.first_policy.recent import Use, questions, use_of
from tests.obs.prometheus import prometheus
from tests.testbed.build import Missing
from tests.testbed.system import program

pytestmark = pytest.mark.slow  # 10 s

CHAT = WorkloadRef("ml", "Deployment", "chat")
CODE = WorkloadRef("ml", "StatefulSet", "chat.code")


def test_an_answer_is_read_by_workload_and_what_is_not_finite_is_not_there() -> None:
    def series(workload: str, reading: str, value: str) -> dict[str, object]:
        return {"metric": {"workload": workload, "reading": reading}, "value": [0, value]}

    found = use_of(
        [
            *(series("deployment/ml/chat", reading, value) for reading, value in (("median", "2.5"), ("looks", "12"))),
            series("deployment/ml/chat", "most", "4"),
            series("deployment/ml/code", "median", "NaN"),
        ]
    )
    assert found == {"deployment/ml/chat": Use(median=2.5, most=4, hours=2)}
    assert found["deployment/ml/chat"].replicas() == 3
    with pytest.raises(msgspec.ValidationError):
        use_of({"no": "vector"})


def test_workloads_are_asked_about_a_few_at_a_time() -> None:
    asked = list(questions([WorkloadRef("ml", "Deployment", f"m{n}") for n in range(25)]))
    assert [question.count('"median"') for question in asked] == [10, 10, 5]
    assert list(questions([])) == []


def _past(now: float) -> str:
    """A day of metrics: chat has 3 pods of which 2 work, a neighbour whose name begins alike has 5 at work."""
    pods = {f"chat-7d9f8c6b5-aaaa{n}": 1 if n < 2 else 0 for n in range(3)}
    pods |= {f"chat-70b-7d9f8c6b5-bbbb{n}": 1 for n in range(5)}
    pods |= {"chat.code-0": 4, "chatxcode-0": 4}
    samples = [
        f'vllm:num_requests_running{{namespace="ml",pod="{name}"}} {running} {now - minutes * 60:.0f}'
        for name, running in pods.items()
        for minutes in range(24 * 60, -1, -4)
    ]
    return "\n".join(["# TYPE vllm:num_requests_running gauge", *samples, "# EOF", ""])


@pytest.mark.timeout(120)
def test_a_real_prometheus_tells_the_median_of_replicas_at_work(tmp_path: Path) -> None:
    try:
        promtool = program("promtool")
    except Missing as missing:
        pytest.skip(str(missing))
    clock = RealClock()
    (tmp_path / "past").write_text(_past(clock.now()))
    command = [str(promtool), "tsdb", "create-blocks-from", "openmetrics", "past", "tsdb"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)  # noqa: S603  our own command
    with prometheus(tmp_path, {}) as running:
        results = answers(Server(running.url), questions([CHAT, CODE]), clock, 30)
    found = {workload: use for result in results for workload, use in use_of(result).items()}
    assert found[str(CHAT)][:2] == (2, 2)
    assert found[str(CODE)][:2] == (1, 1)
    assert found[str(CHAT)].hours == pytest.approx(24, rel=0.05)

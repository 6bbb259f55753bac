"""What the cycles of the service show in metrics: who stands by thinks along, and counts nothing."""

from pathlib import Path

import pytest

from rebalancer.act.shadow import Shadow
from rebalancer.app.cycle_ports import ServicePorts
from rebalancer.app.history import History
from rebalancer.domain.memory import Memory
from rebalancer.loop.cycle import cycle
from rebalancer.obs.journal_files import JournalFiles
from rebalancer.obs.metrics import Metrics
from rebalancer.obs.recorder import Recorder
from tests.act.rig import SteppingClock
from tests.builders import NOW, a_policy
from tests.state.objects import a_cluster_node, a_ready_pod, a_state, a_told_notice, a_workload, feed, gone


async def acknowledged(_key: bytes, _line: bytes) -> bool:
    return True


@pytest.mark.parametrize(("leads", "drained"), [(True, 1), (False, 0)])
async def test_replicas_of_a_node_under_notice_are_counted_by_who_acts_alone(
    tmp_path: Path, *, leads: bool, drained: int
) -> None:
    policy, pod, clock = a_policy(), a_ready_pod(), SteppingClock()
    state = a_state(policy, a_cluster_node(), a_workload(), pod)
    recorder = Recorder(JournalFiles(tmp_path, 1 << 20), acknowledged, lambda _key, _line: None)
    shadow, metrics = Shadow(clock, recorder), Metrics()
    ports = ServicePorts(policy, Memory(), state, recorder, shadow, metrics, clock, lambda: None, 1, History())
    ports.leads = lambda: leads

    feed(state, a_told_notice())
    await cycle(NOW, ports)
    feed(state, gone(pod, NOW + 10.0), now=NOW + 10.0)
    await cycle(NOW + 10.0, ports)

    lines = [line.split() for line in metrics.text().decode().splitlines()]
    assert drained == sum(float(words[-1]) for words in lines if words[0].startswith("rebalancer_notice_drained_total"))

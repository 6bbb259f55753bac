"""The shortest history that still breaks the rule, and its story step by step."""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from rebalancer.world import WorldHpa, WorldScaledObject
from tests.machine.histories import History, Played, Watch, play
from tests.machine.stage import Stage
from tests.machine.worlds import START

MOST_TRIES = 150


def shrunk(history: History, rule: str, tries: int = MOST_TRIES, played: Callable[[History], Any] = play) -> History:
    """Fewer deeds that break the same rule: parts are left out as long as it breaks without them."""

    def breaks(deeds: tuple[Any, ...]) -> bool:
        nonlocal tries
        tries -= 1
        verdict = played(replace(history, deeds=deeds)).verdict
        return verdict is not None and verdict.rule == rule

    deeds, size = history.deeds, max(1, len(history.deeds) // 2)
    while tries > 0:
        for start in range(0, len(deeds), size):
            fewer = deeds[:start] + deeds[start + size :]
            if tries > 0 and len(fewer) < len(deeds) and breaks(fewer):
                deeds = fewer
                break
        else:
            if size == 1:
                break
            size //= 2
    return replace(history, deeds=deeds)


def told(history: History, played: Callable[[History, Watch], Played] = play) -> list[str]:
    """What happens in it, a line a step in which something does; `played`: by its kind."""
    lines = [f"{history.spec}"]
    last: list[str] = []
    seen_outcomes = 0

    def watch(stage: Stage, what: str) -> None:
        nonlocal last, seen_outcomes
        at = stage.world.now - START
        if what:
            lines.append(f"{at:6.0f} s  == {what}")
        for outcome in stage.service.topics.outcomes[seen_outcomes:]:
            intent = outcome.intent
            lines.append(
                f"{at:6.0f} s     {outcome.status}: {intent.kind} {intent.object} {intent.replicas_from} ->"
                f" {intent.replicas_to} (min {intent.minimum_from} -> {intent.minimum_to}) {intent.reason}"
                f" {outcome.detail}"
            )
        seen_outcomes = len(stage.service.topics.outcomes)
        shown = picture(stage)
        if shown != last:
            lines.extend(f"{at:6.0f} s  {line}" for line in shown if line not in last)
            last = shown

    verdict = played(history, watch).verdict
    return [*lines, f"verdict: {verdict}"]


def picture(stage: Stage) -> list[str]:
    """Each target with its pods, each node."""
    lines = []
    for owner in stage.world.deployments.values():
        pods = " ".join(
            f"{'T' if pod.deleted_at else 'F' if pod.failed else 'R' if pod.ready_at else 'l' if pod.node else 'p'}"
            f"@{pod.node.name if pod.node else '-'}"
            for pod in owner.pods.values()
        )
        autoscalers: list[WorldHpa | WorldScaledObject] = [
            *stage.world.hpas.values(),
            *stage.world.scaled_objects.values(),
        ]
        bounds = " ".join(
            f"{type(one).__name__} {one.minimum}..{one.maximum}" for one in autoscalers if one.target == owner.ref
        )
        need = stage.oracle.need(owner.model) if owner.model else ""
        lines.append(f"{owner.ref.name}: {owner.replicas} x {owner.gpus} need {need} {bounds} [{pods}]")
    nodes = " ".join(
        f"{node.name}:{node.used}/{node.allocatable}{'' if node.ready else '!'}{'' if node.alive else 'X'}"
        for node in stage.world.nodes.values()
    )
    return [*lines, f"nodes {nodes}"]

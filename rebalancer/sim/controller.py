"""What decides in a simulation: a peer, foresight, or a recorded plan. Everything it may know is in `Seen`."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from rebalancer.sim.demand import F64
from rebalancer.sim.scenario import Scenario


@dataclass(slots=True)
class Seen:
    """What metrics and the API show at second `now`.

    Arrays have the shape (models, seconds) and are known up to (not including) second `now` - `delay_seconds`. Of
    `work` and `requests` the rest of the run is in them too, which foresight alone reads. Lists have a number for each
    model; they come from the API, without delay.

    scenario: what is played; in the fluid world its `nodes` follow the machines that go and come.
    now: the second that begins.
    delay_seconds: seconds by which metrics come late, 0 where they are seen at once.
    work: replica-seconds of work that arrived in each second.
    requests: requests that arrived in each second.
    busy: replica-seconds of work that were done in each second.
    served_by: Ready replicas in each second.
    left: backlog at the end of each second, in replica-seconds.
    wait: seconds that the arrivals of each second waited.
    desired: replicas that are asked for.
    ready: Ready replicas.
    loading: replicas that have a node and are not Ready yet.
    waiting: replicas that wait for a node.
    ready_elastic: those of `ready` on the elastic pool; empty where models have no Deployments of their own for it.
    """

    scenario: Scenario
    now: int
    delay_seconds: int
    work: F64
    requests: F64
    busy: F64
    served_by: F64
    left: F64
    wait: F64
    desired: list[int]
    ready: list[int]
    loading: list[int]
    waiting: list[int]
    ready_elastic: list[int] = field(default_factory=list)

    def window(self, of: F64, model: int, seconds: int) -> F64:
        """The last `seconds` of one model's values that are known now; shorter, or empty, at the beginning."""
        end = max(0, self.now - self.delay_seconds)
        known: F64 = of[model, max(0, end - seconds) : end]
        return known

    def rate(self, model: int, seconds: int) -> float | None:
        """Replica-seconds of work that arrive per second; None before anything is known."""
        known = self.window(self.work, model, seconds)
        return float(np.add.reduce(known)) / len(known) if len(known) else None

    def utilisation(self, model: int, seconds: int) -> float | None:
        """Work done over the work that the Ready replicas could have done (ideal: no exporter gives it)."""
        able = float(np.add.reduce(self.window(self.served_by, model, seconds)))
        return float(np.add.reduce(self.window(self.busy, model, seconds))) / able if able else None


class Controller(Protocol):
    """Decides for all models, every `every_seconds`."""

    every_seconds: int

    def decide(self, seen: Seen) -> Sequence[int]:
        """Replicas asked for, by model, from now on."""
        ...

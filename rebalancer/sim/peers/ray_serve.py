"""Ray Serve's replica autoscaler: ongoing requests over a target, after a delay in which nothing said otherwise.

From the algorithm of ray-project/ray python/ray/serve/autoscaling_policy.py. The delay is one of time: loop ticks that
all want more (or all less) for `up_delay_seconds` (or `down_delay_seconds`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from rebalancer.sim.controller import Seen
from rebalancer.sim.peers import signals
from rebalancer.sim.scenario import ScenarioModel


@dataclass(frozen=True, slots=True)
class Config:
    """`autoscaling_config` of a deployment.

    target_ongoing: ongoing requests that each replica shall have, those in the queue included.
    up_delay_seconds: seconds for which every tick must want more before replicas are added.
    down_delay_seconds: seconds for which every tick must want less before replicas go.
    to_zero_delay_seconds: the same for the last replica; None: as `down_delay_seconds`.
    up_factor: factor by which the missing replicas are multiplied; where there are none yet, how many to begin with.
    down_factor: factor by which the superfluous replicas are multiplied.
    look_back_seconds: seconds over which handles average the ongoing requests that they report.
    metrics_seconds: seconds from one report of the handles to the next.
    """

    target_ongoing: float = 2.0
    up_delay_seconds: float = 30.0
    down_delay_seconds: float = 600.0
    to_zero_delay_seconds: float | None = None
    up_factor: float = 1.0
    down_factor: float = 1.0
    look_back_seconds: int = 30
    metrics_seconds: int = 10


def smoothed(config: Config, desired: float, current: int) -> int:
    """The difference times its factor; a decrease that rounding would swallow is one replica."""
    factor = config.up_factor if desired > current else config.down_factor
    replicas = math.ceil(current + factor * (desired - current))
    return replicas - 1 if math.ceil(desired) < current and replicas == current else replicas


@dataclass(slots=True)
class Delay:
    """The direction that every tick has wanted since an instant: 1 up, -1 down, 0 neither."""

    direction: int = 0
    since: float = 0.0

    def passed(self, config: Config, now: float, desired: int, target: int) -> int:
        """`desired` once its delay is over, until then `target`. Nothing but 1 goes to 0."""
        direction = (desired > target) - (desired < target)
        if direction != self.direction:
            self.direction, self.since = direction, now
        delay = config.up_delay_seconds if direction > 0 else config.down_delay_seconds
        if direction < 0 and target == 1 and config.to_zero_delay_seconds is not None:
            delay = config.to_zero_delay_seconds
        if not direction or now - self.since < delay:
            return target
        self.direction = 0
        return max(1, desired) if direction < 0 and target != 1 else desired


@dataclass(slots=True)
class ServeDeployment:
    """One deployment between its bounds: `replicas` is called at each tick of the control loop.

    config: its settings.
    least: the least number of replicas that it asks for, once it has any.
    most: the largest number of replicas that it asks for, once it has any.
    delay: since when its ticks want more, or less.
    """

    config: Config
    least: int
    most: int
    delay: Delay = field(default_factory=Delay)

    def replicas(self, now: float, ongoing: float, current: int, target: int) -> int:
        """What to have, from `ongoing` requests in all, `current` running replicas and the `target` so far."""
        if not current:
            return max(math.ceil(self.config.up_factor), target) if ongoing > 0 else target
        desired = smoothed(self.config, ongoing / self.config.target_ongoing, current)
        return self.delay.passed(self.config, now, min(max(desired, self.least), self.most), target)


class RayServe:
    """A deployment per model; `share` of its model's `slots` is its target, else `config.target_ongoing` requests."""

    every_seconds = 2  # its loop of 0.1 s sees nothing new between reports, which come, as delays end, at even seconds

    def __init__(self, config: Config, share: float | None = None) -> None:
        self._config = config
        self._share = share
        self._ongoing: list[float] = []
        self._deployments: list[ServeDeployment] = []

    def decide(self, seen: Seen) -> Sequence[int]:
        """Each deployment for itself; nothing before the first report."""
        if seen.now % self._config.metrics_seconds == 0:
            (known,) = signals.in_flight(seen, (self._config.look_back_seconds,))
            self._ongoing = [] if any(map(math.isnan, known)) else known
        if not self._ongoing:
            return seen.desired
        if not self._deployments:
            self._deployments = [
                ServeDeployment(self._of(model), model.floor, model.most) for model in seen.scenario.models
            ]
        return [
            deployment.replicas(seen.now, ongoing, ready, desired)
            for deployment, ongoing, ready, desired in zip(
                self._deployments, self._ongoing, seen.ready, seen.desired, strict=True
            )
        ]

    def _of(self, model: ScenarioModel) -> Config:
        return self._config if self._share is None else replace(self._config, target_ongoing=self._share * model.slots)

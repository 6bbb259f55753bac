"""How far a role may move in one plan for the sake of the other one of its couple; what it keeps by that is a refusal.

Two writes never happen at once, and guards, the gate or a lost reply may leave out any of them. So each role counts
with the least and with the most that the moves of this plan may take it to: whatever subset of them is written, the two
are within their ratio after each write, or, where they were not, no further from it.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from rebalancer.domain.couples import Couple, couples
from rebalancer.domain.plan import Refusal
from rebalancer.planning.facts.scene import Scene
from rebalancer.planning.shares.share import ModelShare

RATIO = "ratio"  # the guard, and the constraint of who waits for the other role


@dataclass(slots=True)
class Roles:
    """The roles of all couples while units are placed, and while nodes are granted after that.

    scene: the scene, which is only read.
    gone: replicas taken so far, by model id.
    gained: replicas granted so far, by model id.
    couples: the couple of every model that is a role, by model id.
    bound: ids of roles that were to give a replica, and keep it for the other one's sake.
    """

    scene: Scene[ModelShare]
    gone: Counter[str]
    gained: Counter[str]
    couples: Mapping[str, Couple]
    bound: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, scene: Scene[ModelShare]) -> "Roles":
        """The roles before anything moves."""
        return cls(scene, Counter(), Counter(), scene.memo.of("", couples, scene.policy))

    def copy(self) -> "Roles":
        """A copy for the next stage, which counts on."""
        return Roles(self.scene, Counter(self.gone), Counter(self.gained), self.couples, set(self.bound))

    def borne(self, name: str, more: int) -> bool:
        """Whether the other role bears so many more replicas of a model, below 0: so many fewer."""
        return name not in self.couples or self._bearing(name, fewer=more < 0)(more)

    def _bearing(self, name: str, *, fewer: bool) -> Callable[[int], bool]:
        """The same of a role, to ask of several numbers that are all below 0, or not."""
        couple = self.couples[name]
        (least, most), settle = self._reach(name), self._settling(name)
        own = {least, least + settle} if fewer else {most, most + settle}
        other = couple.other(name)
        (low, high), settle = self._reach(other), self._settling(other)
        others = {low, high, high + settle}
        return lambda more: all(couple.bears(name, each, each + more, others) for each in own)

    def parting(self, name: str, most: int) -> int:
        """How many of `most` replicas a model may give; who keeps one is noted.

        Where some are too many for the other role, more are, too: a role that leaves its bounds gets only further.
        """
        if name not in self.couples:
            return most
        borne = self._bearing(name, fewer=True)
        gives = bisect_left(range(1, most + 1), 1, key=lambda fewer: not borne(-fewer))
        if gives < most:
            self.bound.add(name)
        return gives

    def words(self, name: str) -> str:
        """The ratio and the other role's replicas before this plan, in words."""
        couple = self.couples[name]
        return couple.words(name, self.scene.models[couple.other(name)].staying_replicas)

    def refusals(self) -> Iterator[Refusal]:
        """One for each role that would have fewer or more replicas were it not for the other one."""
        for name, couple in self.couples.items():
            model = self.scene.models[name]
            now = model.staying_replicas - self.gone[name] + self.gained[name]
            wanted = model.aim if model.alone is None else model.alone
            if (name in self.bound and wanted < now) or (wanted > now and not self.borne(name, 1)):
                numbers = {"least": couple.least, "most": couple.most}
                yield Refusal(RATIO, name, now, wanted, self.words(name), {**numbers, "other": couple.other(name)})

    def _reach(self, name: str) -> tuple[int, int]:
        """The least and the most replicas to which this plan may take a model, as far as it has come."""
        has = self.scene.models[name].staying_replicas
        return has - self.gone[name], has + self.gained[name]

    def _settling(self, name: str) -> int:
        """Numbers of replaced replicas, which come back sooner or later."""
        return sum(target.settle for target in self.scene.models[name].targets)

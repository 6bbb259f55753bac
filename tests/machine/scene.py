"""A world that is disturbed and given back: what deeds do to it, whoever runs there."""

from collections.abc import Callable
from functools import partial

from rebalancer.kube.errors import KubeError
from rebalancer.kube.resources import Ref
from rebalancer.world import WorldNode
from tests.machine.oracle import Oracle
from tests.machine.worlds import WorldSpec, built


class Scene:
    """`hit`: the pools that deeds may touch. `refused`: whose writes an admission webhook denies."""

    oracle: Oracle

    def __init__(self, spec: WorldSpec, hit: tuple[str, ...] | None = None) -> None:
        self.spec = spec
        self.hit = hit or tuple(pool.name for pool in spec.pools)
        self.models = {model.name: model for model in spec.models}
        # Of two worlds that differ in one pool alone the other one has the same victims where all else is equal.
        self.world, self.dials = built(spec, uids_by_owner=hit is not None)
        self.refused: dict[str, KubeError | None] = {}
        self.healed = False
        self._undos: dict[int, Callable[[], object]] = {}
        self._hindering: set[int] = set()

    @property
    def everything(self) -> frozenset[str]:
        """All pools."""
        return frozenset(pool.name for pool in self.spec.pools)

    def refuse(self, ref: Ref) -> None:
        """Raise what a webhook answers there."""
        error = self.refused.get(ref.name)
        if error is not None:
            raise error

    def later(self, seconds: float, undo: Callable[[], object], *, hinders: bool = True) -> None:
        """It ends by itself after that time, or when all is healed; `hinders`: until then the service cannot act."""
        number = len(self._undos) + 1 if not self._undos else max(self._undos) + 1
        self._undos[number] = undo
        if hinders:
            self._hindering.add(number)
        self.world.at(self.world.now + seconds, partial(self._undo, number))

    def _undo(self, number: int) -> None:
        undo = self._undos.pop(number, None)
        self._hindering.discard(number)
        if undo is not None:
            self.disturbed()
            undo()

    def disturbed(self) -> None:
        """Something happened."""

    def turn(self, model: str, rate_per_second: float, over_seconds: float) -> None:
        """Its users ask for more or less."""
        self.dials[model].turn(rate_per_second, self.world.now, over_seconds)

    def going(self, node: WorldNode) -> bool:
        """Whether the node's end is announced."""
        return node.name in self.oracle.deadlines

    def noticed(self, node: WorldNode, deadline: float) -> None:
        """The node's end is announced."""
        self.oracle.deadlines[node.name] = min(deadline, self.oracle.deadlines.get(node.name, deadline))

    def spared(self, node: WorldNode) -> None:
        """It stays."""
        self.oracle.deadlines.pop(node.name, None)

    def heal(self) -> None:
        """All that was broken is given back, as far as it can be."""
        self.healed = True
        for number in sorted(self._undos):
            self._undo(number)
        self.refused.clear()

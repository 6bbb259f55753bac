"""Best fit on the nodes of a pool without looking at each of them for every pod: they are found by free GPUs."""

import heapq
from collections.abc import Collection, Mapping


class Fits:
    """Nodes that one kind of pod may land on. `free`: GPUs by node."""

    def __init__(self, free: Mapping[str, int]) -> None:
        self._free = dict(free)
        self._with: dict[int, list[str]] = {}  # heaps; a name may be in some where its node is no longer
        for name, gpus in free.items():
            self._with.setdefault(gpus, []).append(name)
        for names in self._with.values():
            heapq.heapify(names)

    def set(self, node: str, gpus: int) -> None:
        """Note the GPUs that are free on a node now; a node that this kind of pod may not land on is ignored."""
        if self._free.get(node, gpus) != gpus:
            self._free[node] = gpus
            heapq.heappush(self._with.setdefault(gpus, []), node)

    def best(self, gpus: int, excluded: Collection[str]) -> str | None:
        """The node with least room of those with enough, of equals the first by name; None where there is none."""
        for free in sorted(each for each in self._with if each >= gpus):
            node = self._first(free, excluded)
            if node is not None:
                return node
        return None

    def _first(self, free: int, excluded: Collection[str]) -> str | None:
        names, aside, node = self._with[free], [], None
        while names and node is None:
            if self._free[names[0]] != free:
                heapq.heappop(names)
            elif names[0] in excluded:
                aside.append(heapq.heappop(names))
            else:
                node = names[0]
        for name in aside:
            heapq.heappush(names, name)
        return node

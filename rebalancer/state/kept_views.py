"""Views of models or pools, each kept until what it shows changes; one that cannot be made costs nobody else theirs."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from traceback import extract_tb
from typing import Generic, TypeVar

from rebalancer.domain.sync import Unseen

V = TypeVar("V")


class KeptViews(Generic[V]):
    """Views by name. `make(name)` makes one anew, and is asked for those in `dirty` alone.

    What `make` raises on is a defect of ours, or a fact that nobody foresaw: that view stays as it was, or is missing
    where there was none, `unseen` tells it, and it is tried again whenever somebody looks. `kind`: `model` or `pool`.
    `pools_of(name)`: the pools of which then too little is known.
    """

    def __init__(self, kind: str, make: Callable[[str], V], pools_of: Callable[[str], Iterable[str]]) -> None:
        self.dirty: set[str] = set()
        self._kind = kind
        self._make = make
        self._pools_of = pools_of
        self._names: frozenset[str] = frozenset()
        self._views: dict[str, V] = {}
        self._unseen: dict[str, Unseen] = {}
        self._all: tuple[V, ...] | None = None

    def follow(self, names: Iterable[str]) -> None:
        """From now on these are there, all to be made anew; views of others are forgotten."""
        self._names = frozenset(names)
        self._views = {name: view for name, view in self._views.items() if name in self._names}
        self._unseen = {name: unseen for name, unseen in self._unseen.items() if name in self._names}
        self.dirty, self._all = set(self._names), None

    def made(self) -> Mapping[str, V]:
        """The views as they were made last."""
        return self._views

    def unseen(self) -> tuple[Unseen, ...]:
        """What could not be looked at when `all` was asked last, by name."""
        return tuple(self._unseen[name] for name in sorted(self._unseen))

    def all(self) -> tuple[V, ...]:
        """All views, by name; what did not change is the same value as last time."""
        for name in self.dirty & self._names:
            self._look(name)
        self.dirty = set(self._unseen)
        if self._all is None:
            self._all = tuple(self._views[name] for name in sorted(self._views))
        return self._all

    def _look(self, name: str) -> None:
        try:
            view = self._make(name)
        except Exception as error:  # noqa: BLE001  # whatever it is, it is this one's, and it is told
            self._unseen[name] = Unseen(self._kind, name, tuple(self._pools_of(name)), _what_and_where(error))
            return
        self._unseen.pop(name, None)
        if view != self._views.get(name):
            self._views[name] = view
            self._all = None


def _what_and_where(error: Exception) -> str:
    """The error, and the line of code that raised it: nothing else of the traceback goes into a journal."""
    message, trace = f"{type(error).__name__}: {error}", extract_tb(error.__traceback__)
    return f"{message} ({Path(trace[-1].filename).name}, line {trace[-1].lineno})" if trace else message

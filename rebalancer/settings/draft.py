"""A policy that may be wrong anywhere, read as far as it goes: what the checks of several fields look at.

A value that is absent has the schema's default; one that has the wrong type or is out of its range is None: the check
of single fields reports it, the others leave it out.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple, cast

from rebalancer.domain.target_kinds import TargetKind, Victims, kind_named
from rebalancer.settings.allowed import default_at, in_range, part_at
from rebalancer.settings.document import Path


class DraftFinding(NamedTuple):
    """Fields that do not agree.

    path: path of the field at fault, as keys and places in lists.
    what: what is wrong with it.
    allowed: what the other fields leave it, in words; "" where that cannot be said.
    fix: what to do about it, "" where that is plain.
    """

    path: Path
    what: str
    allowed: str = ""
    fix: str = ""


@dataclass(frozen=True)
class DraftPart:
    """The mapping at `path` of a draft; `raw` may be anything."""

    path: Path
    raw: object

    def at(self, key: str) -> Path:
        """Path of the value under `key`."""
        return (*self.path, key)

    def get(self, key: str) -> object:
        """The value under `key` as given, or its default."""
        given = self.raw.get(key) if isinstance(self.raw, dict) else None
        return default_at(self.at(key)) if given is None else given

    def given(self, key: str) -> bool:
        """Whether there is anything under `key`."""
        return isinstance(self.raw, dict) and self.raw.get(key) is not None

    def text(self, key: str) -> str | None:
        """A text."""
        value = self.get(key)
        return value if isinstance(value, str) else None

    def number(self, key: str) -> float | None:
        """A finite number within its own range."""
        value = self.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        if isinstance(value, float) and not math.isfinite(value):
            return None
        return value if in_range(part_at(self.at(key)), value) else None

    def whole(self, key: str) -> int | None:
        """A whole number within its own range."""
        value = self.get(key)
        return value if isinstance(value, int) and self.number(key) is not None else None

    def texts(self, key: str) -> tuple[tuple[Path, str], ...]:
        """The texts of a list, each with its path."""
        items = self.get(key)
        if not isinstance(items, tuple):
            return ()
        return tuple(((*self.at(key), index), item) for index, item in enumerate(items) if isinstance(item, str))

    def labels(self, key: str) -> dict[str, str]:
        """A mapping of texts."""
        value = self.get(key)
        return (
            {str(name): item for name, item in value.items() if isinstance(item, str)}
            if isinstance(value, dict)
            else {}
        )

    def part(self, key: str) -> "DraftPart":
        """The mapping under `key`."""
        return DraftPart(self.at(key), self.get(key))

    def parts(self, key: str) -> tuple["DraftPart", ...]:
        """The mappings of a list."""
        items = self.get(key)
        if not isinstance(items, tuple):
            return ()
        return tuple(
            DraftPart((*self.at(key), index), item) for index, item in enumerate(items) if isinstance(item, dict)
        )


def kind_of(target: DraftPart) -> TargetKind | None:
    """The kind of a target; None for one that is not known and names no apiVersion, or is not spelled as allowed."""
    kind, api_version, victims = target.text("kind"), target.text("apiVersion"), target.text("victims")
    return None if kind is None else kind_named(kind, api_version, cast("Victims", victims or ""))


def pools_by_name(policy: DraftPart) -> dict[str, DraftPart]:
    """Pools by name, the first of equal names."""
    named = {pool.text("name"): pool for pool in reversed(policy.parts("pools"))}
    return {name: pool for name, pool in named.items() if name is not None}


def primary_pool(model: DraftPart, pools: dict[str, DraftPart]) -> str | None:
    """Name of the pool that holds the model's entitlement: the first primary one among its targets."""
    for target in model.parts("targets"):
        name = target.text("pool")
        if name in pools and pools[name].text("kind") == "primary":
            return name
    return None

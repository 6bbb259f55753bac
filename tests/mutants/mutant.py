"""One way in which a guard or a rule is wrong."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest


@dataclass(frozen=True, slots=True)
class Mutant:
    """One way in which `guard` (or a rule on facts) is wrong; `apply` makes it so until the patch is undone."""

    guard: str
    what: str
    apply: Callable[[pytest.MonkeyPatch], None]

    def __str__(self) -> str:
        return f"{self.guard} {self.what}"

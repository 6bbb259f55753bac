"""The name of a scale target, by which everything about it is found."""

from msgspec import Struct


class WorkloadRef(Struct, frozen=True, order=True):
    """A scale target by name."""

    namespace: str
    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind.lower()}/{self.namespace}/{self.name}"

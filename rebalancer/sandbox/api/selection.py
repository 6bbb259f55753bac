"""Which objects a list or a watch wants: namespace, label selector, field selector."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rebalancer.sandbox.api.resources import Obj
from rebalancer.sandbox.api.status import StatusError


@dataclass(frozen=True)
class Term:
    """One comma-separated part of a selector: `key=value`, `key!=value`, `key` or `!key`."""

    key: str
    value: str | None  # None asks only whether the key is there
    wanted: bool

    @classmethod
    def parse(cls, text: str) -> "Term":
        """Read one term. Raises StatusError 400 for set-based ones, which are not served."""
        if "(" in text or " in" in text:
            raise StatusError(400, f"selector term {text!r}: only =, ==, !=, KEY and !KEY are served here")
        if "!=" in text:
            key, _, value = text.partition("!=")
            return cls(key.strip(), value.strip(), wanted=False)
        if "=" in text:
            key, _, value = text.replace("==", "=").partition("=")
            return cls(key.strip(), value.strip(), wanted=True)
        return cls(text.strip().lstrip("!"), None, wanted=not text.strip().startswith("!"))

    def holds(self, value: object) -> bool:
        """Whether a key with that value (None: no such key) satisfies the term."""
        satisfied = value is not None if self.value is None else value == self.value
        return satisfied is self.wanted


@dataclass(frozen=True)
class Selection:
    """The objects wanted; an empty one wants them all."""

    namespace: str = ""
    labels: tuple[Term, ...] = ()
    fields: tuple[Term, ...] = ()

    @classmethod
    def parse(cls, namespace: str, query: Mapping[str, str]) -> "Selection":
        """From the query parameters `labelSelector` and `fieldSelector`."""
        return cls(namespace, _terms(query.get("labelSelector", "")), _terms(query.get("fieldSelector", "")))

    def matches(self, obj: Obj) -> bool:
        """Whether `obj` is wanted."""
        metadata = obj["metadata"]
        if self.namespace and metadata.get("namespace") != self.namespace:
            return False
        labels = metadata.get("labels") or {}
        return all(term.holds(labels.get(term.key)) for term in self.labels) and all(
            term.holds(_field(obj, term.key)) for term in self.fields
        )


def _terms(text: str) -> tuple[Term, ...]:
    return tuple(Term.parse(part) for part in text.split(",") if part.strip())


def _field(obj: Obj, path: str) -> str:
    """The field at a dotted path as text; like the API server, an absent one is the empty string."""
    value: Any = obj
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return "" if value is None else str(value)

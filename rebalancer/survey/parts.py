"""Takes parts out of decoded objects, whatever stands there: a manifest may hold a placeholder where a number belongs.

Nothing here raises: what is absent or of another type is an empty mapping, an empty list, "" or None.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from rebalancer.domain.placement import Requirement
from rebalancer.survey.objects import Object

NO_NAMESPACE: Final = "default"
"""Where kubectl puts a manifest that names no namespace."""

_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h))+")
_STEP = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")


def value(obj: object, *path: str) -> Any:  # noqa: ANN401 - decoded JSON
    """What stands at `path`, None where it ends early."""
    for key in path:
        if not isinstance(obj, Mapping):
            return None
        obj = obj.get(key)
    return obj


def part(obj: object, *path: str) -> Object:
    """The mapping at `path`."""
    mapping = value(obj, *path)
    return mapping if isinstance(mapping, Mapping) else {}


def items(obj: object, *path: str) -> list[Object]:
    """The mappings of the list at `path`."""
    return [each for each in _list(value(obj, *path)) if isinstance(each, Mapping)]


def words(obj: object, *path: str) -> list[str]:
    """The scalars of the list at `path`, as text."""
    return [word for each in _list(value(obj, *path)) if (word := _word(each))]


def text(obj: object, *path: str) -> str:
    """The scalar at `path` as Kubernetes would write it: True is `true`."""
    return _word(value(obj, *path))


def mapped(obj: object, *path: str) -> dict[str, str]:
    """The labels, annotations or trigger metadata at `path`, as text."""
    return {str(key): _word(each) for key, each in part(obj, *path).items()}


def whole(obj: object, *path: str) -> int | None:
    """The whole number at `path`: a number, or digits as text."""
    word = text(obj, *path).strip()
    return int(word) if re.fullmatch(r"-?\d{1,12}", word) else None


def number(word: str) -> float | None:
    """The number that `word` spells, without a unit."""
    return float(word) if re.fullmatch(r"-?\d{1,15}(\.\d{1,15})?", word.strip()) else None


def duration_seconds(word: str) -> float | None:
    """Seconds of a Go duration such as `1h30m`; None for anything else, `Never` among it."""
    if not _DURATION.fullmatch(word.strip()):
        return None
    return sum(float(amount) * _UNIT_SECONDS[unit] for amount, unit in _STEP.findall(word))


def namespace(obj: Object) -> str:
    """The namespace of an object."""
    return text(obj, "metadata", "namespace") or NO_NAMESPACE


def controllers(obj: Object) -> list[Object]:
    """The owner references of what controls an object: one, or none."""
    return [each for each in items(obj, "metadata", "ownerReferences") if text(each, "controller") == "true"]


def requirements(term: object, *path: str) -> list[Requirement]:
    """The conditions on labels at `path`: `matchExpressions`, or the `requirements` of a NodePool."""
    conditions = items(term, *path)
    return [Requirement(text(each, "key"), text(each, "operator"), tuple(words(each, "values"))) for each in conditions]


def selects(selector: Object, labels: Mapping[str, str]) -> bool:
    """Whether a label selector of `policy/v1` or `apps/v1` matches; the empty selector matches everything."""
    pairs = mapped(selector, "matchLabels").items()
    if any(labels.get(key) != wanted for key, wanted in pairs):
        return False
    return all(one.holds(labels) for one in requirements(selector, "matchExpressions"))


def _list(entry: object) -> list[Any]:
    return entry if isinstance(entry, list) else []


def _word(scalar: object) -> str:
    if isinstance(scalar, bool):
        return "true" if scalar else "false"
    return str(scalar) if isinstance(scalar, str | int | float) else ""

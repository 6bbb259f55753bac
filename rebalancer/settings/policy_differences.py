"""What is other in one policy than in another, an entry each, in words: `models.chat.maxReplicas 4 -> 6`."""

from collections import Counter
from collections.abc import Iterator, Mapping

from rebalancer.domain.policy import Policy

MOST = 100  # differences told; a policy with more of them is another one
MOST_CHARACTERS = 80  # of a value; what is longer is told to differ
LONG = "something long"
KNOWN_BY = (
    "id",
    "pool",
    "name",
    "topic",
    "reading",
    "metric",
    "taint",
    "condition",
    "label",
)  # the first that an entry has


def differences(before: Policy, after: Policy) -> tuple[str, ...]:
    """In the order of the policy's keys; entries of a list are known by their id or name."""
    every = list(_between("", before.to_mapping(), after.to_mapping()))
    more = [f"and {len(every) - MOST} more"] if len(every) > MOST else []
    return (*every[:MOST], *more)


def _between(path: str, old: object, new: object) -> Iterator[str]:
    if old == new:
        return
    olds, news = _parts(old), _parts(new)
    if olds is None or news is None:
        texts = _value_text(old), _value_text(new)
        yield f"{path} is another" if texts == (LONG, LONG) else f"{path} {texts[0]} -> {texts[1]}"
        return
    if isinstance(new, list) and [key for key in olds if key in news] != [key for key in news if key in olds]:
        yield f"{path} is in another order"
    for key in (*olds, *(key for key in news if key not in olds)):
        at = f"{path}.{key}" if path else key
        if key not in news:
            yield f"{at} is gone"
        elif key not in olds:
            yield f"{at} is new" if isinstance(news[key], Mapping | list) else f"{at} {_value_text(news[key])} is new"
        else:
            yield from _between(at, olds[key], news[key])


def _parts(value: object) -> dict[str, object] | None:
    """What a mapping, or a list of things with names, is made of; None of anything else."""
    if isinstance(value, Mapping):
        return dict(value)
    if not isinstance(value, list) or not all(isinstance(each, Mapping) and _name(each) for each in value):
        return None
    seen, parts = Counter[str](), dict[str, object]()
    for each in value:
        name = _name(each)
        seen[name] += 1
        parts[name if seen[name] == 1 else f"{name} ({seen[name]})"] = each
    return parts


def _name(entry: Mapping[str, object]) -> str:
    """What tells an entry from the others in its list, as a model by its id and a target by its pool."""
    return next((str(entry[key]) for key in KNOWN_BY if isinstance(entry.get(key), str)), "")


def _value_text(value: object) -> str:
    text = "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= MOST_CHARACTERS else LONG

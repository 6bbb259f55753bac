"""What is other in one policy than in another, an entry each, in words: `models.chat.maxReplicas 4 -> 6`."""

from collections.abc import Iterator, Mapping

from rebalancer.domain.policy import Policy

MOST = 100  # differences told; a policy with more of them is another one
MOST_CHARACTERS = 80  # of a value; what is longer is told to differ


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
        yield f"{path} {_said(old)} -> {_said(new)}"
        return
    for key in (*olds, *(key for key in news if key not in olds)):
        at = f"{path}.{key}" if path else key
        if key not in news:
            yield f"{at} is gone"
        elif key not in olds:
            yield f"{at} is new" if isinstance(news[key], Mapping | list) else f"{at} {_said(news[key])} is new"
        else:
            yield from _between(at, olds[key], news[key])


def _parts(value: object) -> dict[str, object] | None:
    """What a mapping, or a list of things with names, is made of; None of anything else."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, list) and all(isinstance(each, Mapping) and _name(each) for each in value):
        return {_name(each): each for each in value}
    return None


def _name(entry: Mapping[str, object]) -> str:
    """`id` of a model, `name` of anything else; a target is known by its pool, of which it has one."""
    return next((str(entry[key]) for key in ("id", "pool", "name") if isinstance(entry.get(key), str)), "")


def _said(value: object) -> str:
    text = "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= MOST_CHARACTERS else "something long"

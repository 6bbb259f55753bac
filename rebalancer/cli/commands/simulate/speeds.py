"""Options of `rebalancer simulate` that may be given for all and again for one: `--batch 64 --batch chat=32`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from rebalancer.cli.failure import USAGE, Failed
from rebalancer.domain.policy import Policy
from rebalancer.sim.contest.replica import ReplicaSpeeds


@dataclass(frozen=True, slots=True)
class Speeds:
    """Options that say how fast replicas work, each as typed: `[MODEL=]NUMBER`, any number of times.

    prefill_rate: prompt tokens per second of one replica.
    seconds_per_token: seconds per generated token of a full replica.
    batch: requests that a full replica decodes at once.
    patience: seconds of waiting after which clients leave.
    release: seconds from a scale-down until the GPUs are free.
    """

    prefill_rate: Sequence[str]
    seconds_per_token: Sequence[str]
    batch: Sequence[str]
    patience: Sequence[str]
    release: Sequence[str]


def gpus_of(words: Sequence[str]) -> dict[str | None, int]:
    """GPUs by pool, or by None for the only one, of [POOL=]N. Raises Failed."""
    return {name: round(_number(value, word, "--gpus", least=1)) for word in words for name, value in [_pair(word)]}


def services(speeds: Speeds, policy: Policy, recorded: Policy) -> dict[str, ReplicaSpeeds]:
    """By model id, under whatever policy is played; a value without a model is everybody's. Raises Failed.

    A batch that was not given is what the policy says under which the traffic was `recorded`, and else `policy`: a
    policy with another `perReplica` has another guess about the same replicas.
    """
    known = {model.id: model for model in (*policy.models, *recorded.models)}
    by_model = {model.id: ReplicaSpeeds(batch=ReplicaSpeeds().rates(known[model.id]).batch) for model in policy.models}
    given: tuple[tuple[str, Sequence[str], float, Callable[[ReplicaSpeeds, float], ReplicaSpeeds]], ...] = (
        ("--prefill-rate", speeds.prefill_rate, 1e-9, lambda of, n: replace(of, prefill_tokens_per_second=n)),
        ("--seconds-per-token", speeds.seconds_per_token, 0, lambda of, n: replace(of, seconds_per_token=n)),
        ("--batch", speeds.batch, 1, lambda of, n: replace(of, batch=round(n))),
        ("--patience", speeds.patience, 0, lambda of, n: replace(of, patience_seconds=n)),
        ("--release", speeds.release, 0, lambda of, n: replace(of, release_seconds=round(n))),
    )
    for option, words, least, changed in given:
        for word in sorted(words, key=lambda each: "=" in each):
            name, value = _pair(word)
            if name is not None and name not in by_model:
                raise Failed(f"{option} {word}: no model {name} in the policy; it has {', '.join(by_model)}", USAGE)
            number = _number(value, word, option, least)
            for each in by_model if name is None else (name,):
                by_model[each] = changed(by_model[each], number)
    return by_model


def _pair(word: str) -> tuple[str | None, str]:
    name, separator, value = word.rpartition("=")
    return (name if separator else None), value


def _number(value: str, word: str, option: str, least: float) -> float:
    try:
        number = float(value)
    except ValueError:
        number = float("nan")
    if not least <= number < float("inf"):
        raise Failed(f"{option} {word}: {value!r} is not a number from {least:g} on", USAGE)
    return number

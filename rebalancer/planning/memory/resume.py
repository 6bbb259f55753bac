"""How a start uses memory that is older than the cluster: where it does not know, it holds back."""

from collections.abc import Iterable

from msgspec.structs import replace

from rebalancer.domain.memory import Memory, ModelMemory, Owed


def resume(memory: Memory, now: float, models: Iterable[str], *, behind: bool, gaps: bool) -> Memory:
    """Memory to begin with at `now`, of `models` (ids of the policy's).

    `behind`: cycles came after it, so how patient votes were since then is unknown. Everybody claims what it has as far
    as votes ask for it, and nothing is taken for want of demand before that is known again (guard `start`). So does a
    model that memory does not know, as all of them after a lost checkpoint: did one claim whatever it holds, a third
    one's need would be met by calling home what a fourth needs, instead of by what this one has to spare.
    `gaps`: writes of ours may be unknown too. Then no number comes back by itself, and guards' windows that reach back
    before `now` count as used up.
    """
    if not (behind or gaps):
        return memory
    return replace(
        memory,
        models={
            name: _begun_anew(memory.models.get(name, ModelMemory()), now if gaps else None)
            for name in sorted({*memory.models, *models})
        },
        resumed_at=now,
        unknown_before=now if gaps else memory.unknown_before,
    )


def _begun_anew(memory: ModelMemory, gap_until: float | None) -> ModelMemory:
    """A model's memory without durations. `gap_until`: until then it may have released; None: it has not."""
    return replace(
        memory,
        demand=None,
        higher_since=None,
        surge_since=None,
        calm_since=None,
        lower_since=None,
        lower_peak=0,
        owed=None if memory.owed is None else Owed(memory.owed.replicas),
        spare_since=None,
        replaced=memory.replaced if gap_until is None else (),
        gave_at=memory.gave_at if gap_until is None else gap_until,
        begun_anew=True,
    )

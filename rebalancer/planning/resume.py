"""What a start believes of memory that is older than the cluster: where it does not know, it holds back."""

from msgspec.structs import replace

from rebalancer.domain.memory import Memory, ModelMemory


def resume(memory: Memory, now: float, *, behind: bool, gaps: bool) -> Memory:
    """Memory to begin with at `now`.

    `behind`: cycles came after it, so how patient votes were since then is unknown; patience begins anew, from what
    each model has. `gaps`: writes of ours may be unknown too. Then no number comes back by itself, and what the
    guards' windows hold from before `now` counts as used up.
    """
    if not (behind or gaps):
        return memory
    models = {name: _impatient(kept, gaps=gaps) for name, kept in memory.models.items()}
    return replace(memory, models=models, unknown_before=now if gaps else memory.unknown_before)


def _impatient(kept: ModelMemory, *, gaps: bool) -> ModelMemory:
    kept = replace(kept, demand=None, lower_since=None, lower_peak=0, calm_since=None)
    return replace(kept, replaced=()) if gaps else kept

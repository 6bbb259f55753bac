"""What `shift.svg`, `worth.svg` and `notice.svg` show, from a demo's journal: `python -m tests.docs.record JOURNAL`.

Second 0 is `LEAD_SECONDS` before the surge's first release. Then `python -m tests.docs.pictures` draws.
"""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from rebalancer.domain.codec import from_bytes
from rebalancer.domain.plan import Plan
from rebalancer.domain.snapshot import ModelView, Snapshot
from rebalancer.obs.journal_reading import JournalRead, turns
from tests.docs.pictures import RECORDED

LEAD_SECONDS = 10.0
SHOWN_SECONDS = 100.0  # of the shift: there and back again
MODELS = ("chat", "code")
KINDS = {"release": "release", "grant": "grant"}


def recorded(journal: Path) -> dict[str, Any]:
    """As `tests.docs.pictures.Recorded`. Raises StopIteration where the journal has no such story."""
    cycles = [(turn.snapshot, from_bytes(turn.plan, Plan)) for turn in turns([journal], JournalRead())]
    first = next(
        seen
        for seen, plan in cycles
        if any(change.model == "code" and "chat" in change.recipients for change in plan.changes)
    )
    zero = first.at - LEAD_SECONDS
    story = [(seen, plan) for seen, plan in cycles if zero <= seen.at <= zero + SHOWN_SECONDS]
    return {
        "ready": _ready([seen for seen, _ in story], zero),
        "moves": [
            [round(plan.at - zero, 1), change.model, KINDS[change.kind], change.replicas_from, change.replicas_to]
            for _, plan in story
            for change in plan.changes
            if change.model in MODELS and change.kind in KINDS
        ],
        "late": _late(first),
        "notice": _notice(cycles),
    }


def _ready(seen: list[Snapshot], zero: float) -> list[list[float]]:
    """Ready replicas whenever they changed, and at the end."""
    rows: list[list[float]] = []
    for snapshot in seen:
        views = {view.id: view for view in snapshot.models}
        row = [round(snapshot.at - zero, 1), *(_of(views[model])["ready"] for model in MODELS)]
        if not rows or rows[-1][1:] != row[1:] or snapshot is seen[-1]:
            rows.append(row)
    return rows


def _of(view: ModelView) -> Counter[str]:
    return Counter(pod.phase for target in view.targets for pod in target.pods)


def _late(seen: Snapshot) -> dict[str, Any]:
    """What each count of replicas costs both, as their outlooks had it when the first replica moved."""
    outlooks = {load.model: load.outlook for load in seen.loads if load.outlook is not None}
    held = {view.id: _of(view).total() for view in seen.models}
    return {
        "horizonSeconds": outlooks["chat"].horizon_seconds,
        "held": {model: held[model] for model in MODELS},
    } | {model: [outlooks[model].least, [round(late, 1) for late in outlooks[model].late]] for model in MODELS}


def _notice(cycles: list[tuple[Snapshot, Plan]]) -> dict[str, float]:
    """The spot node's account, once its replicas were replaced; `end` is the cloud's deadline."""
    account = next(one for _, plan in cycles for one in plan.accounts if one.replaced_at is not None)
    heard = account.heard_at
    gone = [seen.at for seen, _ in cycles if seen.at >= heard and _ending(seen, account.node)]
    return {
        "asked": round((account.acted_at or heard) - heard, 1),
        "evicted": round(min(gone, default=account.drained_at or heard) - heard, 1),
        "ready": round((account.replaced_at or heard) - heard, 1),
        "end": round(account.deadline - heard, 1),
        "replicas": len(account.replicas),
    }


def _ending(seen: Snapshot, node: str) -> bool:
    pods = (pod for view in seen.models for target in view.targets for pod in target.pods)
    return any(pod.phase == "terminating" and pod.on({node}) for pod in pods)


if __name__ == "__main__":
    RECORDED.write_text(json.dumps(recorded(Path(sys.argv[1])), indent=1) + "\n")
    sys.stdout.write(f"recorded: {RECORDED}\n")

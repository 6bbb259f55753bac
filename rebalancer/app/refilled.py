"""What the history was before a restart, made again from the local journal while the service runs on.

1,565 cycles of three models (16 MB) take 0.25 s of a core, in a thread; the journal's size bounds it. Minutes in which
nothing was written, since the service was down, stay unknown.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

import structlog

from rebalancer.app.history import History
from rebalancer.domain.codec import from_bytes
from rebalancer.domain.memory import Memory
from rebalancer.domain.plan import Decision, Plan
from rebalancer.domain.policy import Policy
from rebalancer.obs import journal
from rebalancer.obs.journal_snapshot import JournalSnapshot

DAY_SECONDS = 86_400.0
MOST_BEFORE_A_MARK = 8  # lines; a file begins with the policy and a keyframe

log = structlog.get_logger()


def refilled(files: Sequence[Path], policy: Policy, since: float, first_cycle: int) -> History:
    """A history that has heard the cycles from `since` on, up to the one before `first_cycle`. It blocks for seconds.

    `policy`: in force until the journal names one. A file that cannot be read, or was rotated away, is left out; of a
    damaged one what comes after the damage.
    """
    history = History()
    policies: dict[str, Policy] = {}
    for path in _since(files, since):
        try:
            with path.open("rb") as lines:
                policy = _hear(lines, history, policy, policies, since, first_cycle)
        except Exception as error:  # noqa: BLE001  # a spoiled byte may make anything of a line, and the wheel must turn
            log.warning("the history before the start is not whole", file=path.name, error=str(error))
    return history


def _since(files: Sequence[Path], since: float) -> list[Path]:
    """The files that may have cycles from `since` on: those after it, and the one in which it is."""
    wanted: list[Path] = []
    for path in reversed([path for path in files if path.is_file()]):  # a device has no end
        wanted.insert(0, path)
        with suppress(OSError), path.open("rb") as lines:
            marks = (journal.MARK.match(raw[: journal.MARK_BYTES]) for raw in islice(lines, MOST_BEFORE_A_MARK))
            first = next((mark for mark in marks if mark), None)
            if first is not None and float(first[2]) < since:
                break
    return wanted


def _hear(  # noqa: PLR0913  # what a file is heard with
    lines: Iterable[bytes],
    history: History,
    policy: Policy,
    policies: dict[str, Policy],
    since: float,
    first_cycle: int,
) -> Policy:
    """Tell `history` the cycles of one file, which begins with a keyframe. Returns the policy in force last.

    `policies`: those read so far, by digest. Each file begins with one, and to read one of 1,000 models stops all other
    threads for 50 ms.
    """
    seen = JournalSnapshot()
    for _, line in journal.decode_lines(lines):
        if isinstance(line, journal.PolicyLine):
            if line.digest not in policies:
                policies[line.digest] = Policy.model_validate(line.policy, strict=False)
            policy = policies[line.digest]
        elif isinstance(line, journal.FrameLine):
            seen.frame(line)
        elif isinstance(line, journal.CycleLine) and seen.cycle(line):
            if seen.now.cycle >= first_cycle:
                break
            if seen.now.at >= since:
                history.cycle(seen.now, Decision(from_bytes(bytes(line.plan), Plan), Memory()), policy)
        elif isinstance(line, journal.OutcomeLine) and since <= line.outcome.at:
            history.wrote((line.outcome,))
    return policy

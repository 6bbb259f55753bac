"""The snapshot to which a journal's lines lead, one after another: a keyframe in parts, then differences."""

from rebalancer.domain.snapshot import Snapshot
from rebalancer.obs import journal
from rebalancer.obs.journal import CycleLine, FrameLine


class JournalSnapshot:
    """`now`: what the lines so far lead to. It says nothing unless it is `whole`."""

    def __init__(self) -> None:
        self.now: Snapshot = journal.EMPTY
        self._parts_left: int | None = None  # of a keyframe; None: none has begun, or lines after it are missing

    @property
    def whole(self) -> bool:
        """Whether all parts of a keyframe were there, and each line since then."""
        return self._parts_left == 0

    def lose(self) -> None:
        """A line is missing: nothing is known until the next keyframe."""
        self._parts_left = None

    def frame(self, line: FrameLine) -> None:
        """Take a part of a keyframe."""
        if line.part == 0:
            self.now, self._parts_left = journal.EMPTY, line.parts
        if self._parts_left is not None:
            self.now = journal.apply(self.now, line.delta)
            self._parts_left -= 1

    def cycle(self, line: CycleLine) -> bool:
        """Take a cycle's difference; False where it is one to a snapshot that is not at hand."""
        if self.whole and not line.follows(self.now):
            self.lose()
        if not self.whole:
            return False
        self.now = journal.apply(self.now, line.delta)
        return True

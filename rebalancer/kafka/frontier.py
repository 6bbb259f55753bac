"""How far a partition is done: what may be kept in a checkpoint, so that a start after a crash loses nothing."""

from collections.abc import Mapping

from rebalancer.domain.events import Rejection

MOST_REFUSED = 10_000  # reasons for records that have found no room: some 4 MiB


class Frontier:
    """`next_offset` is read next; rejected records stay open until the dead-letter topic has them.

    Below `safe` every record is in the state or in the dead-letter topic, whatever happens to this process.
    `put_off_between`: the first and the last offset of what found no room to wait in and is to be read again.
    `refused`: of those whose fault a second reading would not show, why they were rejected, by offset. `known`: the
    same of the first reading, where this is the second.
    """

    def __init__(self, next_offset: int, known: Mapping[int, Rejection] | None = None) -> None:
        self.next_offset = next_offset
        self.put_off_between: tuple[int, int] | None = None
        self.refused: dict[int, Rejection] = {}
        self.known: Mapping[int, Rejection] = {} if known is None else known
        self._open: set[int] = set()

    @property
    def safe(self) -> int:
        """Where another process may take over."""
        waiting = self._open if self.put_off_between is None else self._open | {self.put_off_between[0]}
        return min(waiting, default=self.next_offset)

    def hold(self, offset: int) -> None:
        """Leave the record at `offset` open: it is done only when `acknowledged`."""
        self._open.add(offset)

    def acknowledged(self, offset: int) -> None:
        """The record is kept elsewhere now."""
        self._open.discard(offset)

    def put_off(self, offset: int, refused: Rejection | None = None) -> None:
        """Leave a record open for which there is no room: it is done only when it was `read_again`.

        `refused`: why it was rejected, None where a second reading shows it. What is more than can be remembered stays
        open until the next start, which reads it for the first time.
        """
        if refused is not None and len(self.refused) >= MOST_REFUSED:
            self.hold(offset)
            return
        if refused is not None:
            self.refused[offset] = refused
        first, last = self.put_off_between or (offset, offset)
        self.put_off_between = min(first, offset), max(last, offset)

    def read_again(self, up_to: int) -> None:
        """Close what was put off below this offset: it is kept elsewhere now."""
        if self.put_off_between is not None:
            first, last = self.put_off_between
            self.put_off_between = (max(first, up_to), last) if up_to <= last else None
            self.refused = {offset: why for offset, why in self.refused.items() if offset >= up_to}

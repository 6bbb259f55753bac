"""How far a partition is done: what may be kept in a checkpoint, so that a start after a crash loses nothing."""


class Frontier:
    """`next_offset` is read next; rejected records stay open until the dead-letter topic has them.

    Below `safe` every record is in the state or in the dead-letter topic, whatever happens to this process.
    """

    def __init__(self, next_offset: int) -> None:
        self.next_offset = next_offset
        self._open: set[int] = set()
        self._given_up: int | None = None

    @property
    def safe(self) -> int:
        """Where another process may take over."""
        waiting = self._open if self._given_up is None else self._open | {self._given_up}
        return min(waiting, default=self.next_offset)

    def hold(self, offset: int) -> None:
        """Leave the record at `offset` open: it is done only when `acknowledged`."""
        self._open.add(offset)

    def acknowledged(self, offset: int) -> None:
        """The record is kept elsewhere now."""
        self._open.discard(offset)

    def give_up(self, offset: int) -> None:
        """Give the record up: this process will not get it acknowledged any more, and the next one reads on from it."""
        self._given_up = offset if self._given_up is None else min(offset, self._given_up)

"""How far a partition is done: what may be kept in a checkpoint, so that a start after a crash loses nothing."""


class Frontier:
    """`next_offset` is read next; rejected records stay open until the dead-letter topic has them.

    Below `safe` every record is in the state or in the dead-letter topic, whatever happens to this process.
    `put_off_between`: the first and the last offset of what found no room to wait in and is to be read again.
    """

    def __init__(self, next_offset: int) -> None:
        self.next_offset = next_offset
        self.put_off_between: tuple[int, int] | None = None
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

    def put_off(self, offset: int) -> None:
        """Leave a record open for which there is no room: it is done only when it was `read_again`."""
        first, last = self.put_off_between or (offset, offset)
        self.put_off_between = min(first, offset), max(last, offset)

    def read_again(self, up_to: int) -> None:
        """Close what was put off below this offset: it is kept elsewhere now."""
        if self.put_off_between is not None:
            first, last = self.put_off_between
            self.put_off_between = (max(first, up_to), last) if up_to <= last else None

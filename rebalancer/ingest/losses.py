"""What every cloud's events come down to: which capacity goes, when, and which was only thought to."""

from collections.abc import Iterator
from typing import NamedTuple

from rebalancer.domain.events import CapacityNotice, Position
from rebalancer.domain.notice_kinds import KINDS, NoticeKind
from rebalancer.ingest.wrappings import Sent


class InstanceLoss(NamedTuple):
    """Instances that one event takes away.

    kind: one of `notice_kinds.KINDS`.
    deadline: when they go at the earliest, UTC epoch seconds.
    instance_ids: which, by the cloud's ids.
    ends_at: until when they go or are spared; None where that is not told.
    spared: those of `instance_ids` that stay after all.
    event: the same in all that is told of one plan; "" where the source tells it once.
    """

    kind: NoticeKind
    deadline: float
    instance_ids: tuple[str, ...]
    ends_at: float | None = None
    spared: frozenset[str] = frozenset()
    event: str = ""


class ToldLoss(NamedTuple):
    """What one event says: `loss` (None: nothing goes), and by whom, under which id and when that was `sent`."""

    loss: InstanceLoss | None
    sent: Sent

    def notices(self, position: Position) -> Iterator[CapacityNotice]:
        """One notice for each instance."""
        if self.loss is None:
            return
        for instance in self.loss.instance_ids:
            yield CapacityNotice(
                source=self.sent.source,
                id=self.sent.id,
                at=self.sent.at,
                kind=self.loss.kind,
                deadline=self.loss.deadline,
                instance_id=instance,
                cancelled=instance in self.loss.spared,
                position=position,
                ends_at=self.loss.ends_at,
                event=self.loss.event,
                confidence=KINDS[self.loss.kind].confidence,
            )

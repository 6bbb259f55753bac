"""What planning knows of permission to ask for pods: each quota, who may draw on it, and who holds it.

Amounts are thousandths, as in `domain.quotas`.
"""

from collections.abc import Sequence

from msgspec import Struct

from rebalancer.domain.instant import Instant, clock
from rebalancer.domain.quotas import number, spelled
from rebalancer.domain.words import listed, sentences


class Holder(Struct, frozen=True):
    """Somebody who holds GPUs, or part of a quota.

    kind: kind of the object above its pods, as Deployment or Job; Pod where nothing is above.
    namespace: `metadata.namespace` of the object.
    name: `metadata.name` of the object.
    amount: what its pods ask for: GPUs of a pool, or thousandths of a quota's key.
    ends_at: when all of its pods will have ended at the latest; None where nobody said.
    """

    kind: str
    namespace: str
    name: str
    amount: int
    ends_at: Instant | None = None

    def text(self, amount: str) -> str:
        """`job ml/train 8 until 14:05:00`."""
        until = f" until {clock(self.ends_at)}" if self.ends_at is not None else ""
        return f"{self.kind.lower()} {self.namespace}/{self.name} {amount}{until}"


def holding(holders: Sequence[Holder]) -> str:
    """The holders of GPUs as a list: `job ml/train 8 until 14:05:00 and pod ml/x 1`; "" for nobody."""
    return listed([one.text(str(one.amount)) for one in holders])


class PodRank(Struct, frozen=True):
    """The PriorityClass of a target's pods, by which the scheduler ends some for others.

    model: id of the model.
    pool: pool of its target.
    name: name of the PriorityClass.
    value: the priority, the higher first; 0 is that of pods without a class.
    preempts: whether the scheduler ends pods of a lower priority for them.
    """

    model: str
    pool: str
    name: str
    value: int
    preempts: bool = True


class QuotaDraw(Struct, frozen=True):
    """What one replica of a model takes of a quota.

    model: id of the model.
    pool: pool of its target.
    amount: of all pods of a replica together.
    """

    model: str
    pool: str
    amount: int


class QuotaView(Struct, frozen=True):
    """One key of a quota on which targets of the policy draw.

    kind: ResourceQuota, LimitRange or ClusterQueue.
    namespace: its namespace, "" where it has none.
    name: `metadata.name` of the object.
    key: what it counts, as `requests.nvidia.com/gpu`.
    hard: the most that may be asked for.
    used: what is asked for.
    draws: what a replica of each target takes, by model and pool.
    holders: who holds what is used, the most first.
    refuses: why it takes no pod of these targets whatever is used, as a clause; "" where it goes by the numbers.
    share: where the numbers of a ClusterQueue come from, as a clause; "" for others.
    """

    kind: str
    namespace: str
    name: str
    key: str
    hard: int = 0
    used: int = 0
    draws: tuple[QuotaDraw, ...] = ()
    holders: tuple[Holder, ...] = ()
    refuses: str = ""
    share: str = ""

    @property
    def named(self) -> str:
        """`ResourceQuota team-a/gpus`."""
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"

    @property
    def at_a_gate(self) -> bool:
        """Whether pods that it has not admitted yet exist, and wait: its numbers have them only afterwards."""
        return self.kind in {"ClusterQueue", "Cohort"}

    @property
    def full(self) -> bool:
        """Whether it takes no replica more of one of its targets."""
        return bool(self.refuses) or any(self.used + draw.amount > self.hard for draw in self.draws)

    def text(self, amount: int, coming: int = 0) -> str:
        """Why it takes no replica more of a target that draws `amount`, with used, hard and who holds it.

        `coming`: what was asked for and is not in `used` yet.
        """
        if self.refuses:
            return f"{self.named} {self.refuses}"
        held = listed([one.text(number(self.key, one.amount)) for one in self.holders])
        used = f"{self.named} has {number(self.key, self.used)} of {spelled(self.key, self.hard)} used"
        more = f"{number(self.key, coming)} more are asked for" if coming > 0 else ""
        needs = f"a replica takes {number(self.key, amount)}"
        return sentences(used + (f" by {held}" if held else ""), more, self.share, needs)

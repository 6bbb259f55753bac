"""The GPUs of a node as pictures show them: one tile for each device, and whose pods stand under them."""

from msgspec import Struct

from rebalancer.domain.instant import Instant

# One character per GPU on the wire, first match: 10,000 GPUs are 10 KB.
UNKNOWN, OTHER, DOOMED, LOADING, LENT, OWNED, CLOSED, FREE = "?ox/+#-."


class Seated(Struct, frozen=True):
    """Neighbouring devices of a node that are under pods of one model, or under none.

    gpus: how many devices they are.
    model: id of the model, "" where no model's pod has them.
    lender: id of the model whose GPUs a borrower has there, or name of the pool where nobody owns them; "" where they
        are the model's own, and where no model's pod has them.
    """

    gpus: int
    model: str = ""
    lender: str = ""


class NodeTiles(Struct, frozen=True):
    """One node in the picture of its pool.

    name: name of the node.
    gpus: one character for each of its GPUs, by device: `?` unknown, `o` held by pods of no model, `x` doomed,
        `/` loading, `+` lent, `#` owned, `-` closed, `.` free.
    ready: whether its Ready condition is True; where it is not, nothing is known of its GPUs.
    doomed_at: deadline of the notice about the node, None where no notice about it stands.
    seated: who has its GPUs, by device; empty in pools of more than 256 GPUs, whose pictures have no room for names.
    """

    name: str
    gpus: str
    ready: bool = True
    doomed_at: Instant | None = None
    seated: tuple[Seated, ...] = ()

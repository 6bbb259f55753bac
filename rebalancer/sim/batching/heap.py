"""A binary heap in an array of shape (room, 2): who gets the last token first is on top, compiled."""

from rebalancer.sim.batching.state import I64
from rebalancer.sim.compiled import compiled


@compiled
def put_in(heap: I64, size: int, step: int, slot: int) -> None:
    """Add (step, slot) to a heap of that size."""
    place = size
    while place > 0 and heap[(place - 1) // 2, 0] > step:
        heap[place, 0], heap[place, 1] = heap[(place - 1) // 2, 0], heap[(place - 1) // 2, 1]
        place = (place - 1) // 2
    heap[place, 0], heap[place, 1] = step, slot


@compiled
def take_out(heap: I64, size: int, place: int) -> None:
    """Take away what is at `place`; `size` is the heap's without it. The last one goes up or down from there."""
    step, slot = heap[size, 0], heap[size, 1]
    while place > 0 and heap[(place - 1) // 2, 0] > step:
        heap[place, 0], heap[place, 1] = heap[(place - 1) // 2, 0], heap[(place - 1) // 2, 1]
        place = (place - 1) // 2
    while 2 * place + 1 < size:
        child = 2 * place + 1
        if child + 1 < size and heap[child + 1, 0] < heap[child, 0]:
            child += 1
        if heap[child, 0] >= step:
            break
        heap[place, 0], heap[place, 1] = heap[child, 0], heap[child, 1]
        place = child
    heap[place, 0], heap[place, 1] = step, slot

"""Victims: whom a controller ends when it is asked for fewer replicas. Planning counts on it, the gate checks again.

A ReplicaSet goes by classes of pods, their deletion costs and their ages; a StatefulSet, and what numbers its replicas
as one does, ends the highest number, whatever it does and whatever was written on it.
"""

from collections.abc import Collection, Iterable

from msgspec import UNSET

from rebalancer.domain.snapshot import PodView

_OUT_CLASSES = {"ready": 0, "lost": 0, "loading": 1, "pending": 3}  # a ReplicaSet takes a lost pod for Ready


def keep_order(pod: PodView, doomed: Collection[str] = ()) -> tuple[int, int, bool, float, str]:
    """Sort key, best first: the reverse of the order in which a ReplicaSet deletes.

    It deletes unassigned pods first, then those whose containers do not run, then not ready ones, then those of a lower
    deletion cost, then younger ones; of equals in that the lost and the doomed are what we would rather lose. Numbered
    ones go from the highest number down.
    """
    if pod.place is not UNSET:
        return (pod.place.ordinal, 0, False, 0.0, pod.uid)
    gone = pod.phase == "lost" or pod.node in doomed
    return (out_class(pod), -(pod.deletion_cost or 0), gone, pod.created_at, pod.uid)


def out_class(pod: PodView) -> int:
    """All pods of a higher class end before any of a lower one, whatever their deletion costs.

    A numbered one is a class of its own. Of those that load a ReplicaSet ends pods first whose image is still on the
    way.
    """
    if pod.place is not UNSET:
        return pod.place.ordinal
    if pod.phase == "loading" and not pod.begun:
        return 2
    return _OUT_CLASSES.get(pod.phase, 4)


def ends_just(pod: PodView, staying: Collection[int], highest: int, *, marked: bool) -> bool:
    """Whether a target that is asked for one replica less ends the doomed `pod`, or another doomed one like it.

    `staying`: the classes of its replicas that stay. `highest`: the highest class of them and of its doomed ones. A pod
    that loads goes before one that is Ready. Of Ready pods the `marked` one goes; without a mark it may be one of those
    that stay. A lost pod never: the ReplicaSet takes it for Ready, Kubernetes deletes it with its Node all the same,
    and no GPU comes back by it.
    """
    own = out_class(pod)
    if pod.phase == "lost" or highest > own:
        return False
    return marked or own not in staying


def serving_after(pods: Iterable[PodView], replicas: int, doomed: Collection[str], first: Collection[str] = ()) -> int:
    """How many Ready pods on nodes that stay are left when a target is asked for `replicas`, at the worst.

    `first`: UIDs of pods marked to go before others of their class. Where costs are equal those that serve go first
    here, as nobody can be sure that they do not.
    """

    def serves(pod: PodView) -> bool:
        return pod.phase == "ready" and not pod.on(doomed)

    def order(pod: PodView) -> tuple[int, bool, int, bool]:
        return (out_class(pod), pod.uid in first, -(pod.deletion_cost or 0), serves(pod))

    alive = sorted((pod for pod in pods if pod.phase != "terminating"), key=order)
    if alive and alive[0].place is not UNSET:
        return sum(map(serves, lowest_numbers(alive, replicas)))
    return sum(map(serves, alive[: max(0, replicas)]))


def lowest_numbers(pods: Iterable[PodView], replicas: int) -> tuple[PodView, ...]:
    """The numbered pods that stay when the target is asked for `replicas`: those with a lower number."""
    return tuple(pod for pod in pods if pod.place is not UNSET and pod.place.ordinal < replicas)

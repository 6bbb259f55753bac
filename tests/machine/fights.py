"""Who fights over a target by the truth, held against whom the service stands down from.

A fight: two changes by somebody else to other numbers than ours within the window. Who puts one of two bounds back and
leaves the other as it is has changed nothing that is ours, and repaired nothing yet. While a fight lasts nobody of us
writes there; it is over when it is old, or when somebody has put our numbers back and they have stood for 30 s.
"""

from math import inf

from msgspec import Struct

from rebalancer.act.originals import ANNOTATION
from rebalancer.domain.plan import Plan
from rebalancer.domain.policy import Policy
from rebalancer.domain.snapshot import REPAIRED_AFTER_SECONDS
from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.world import Deployment, World, WorldHpa, WorldScaledObject
from tests.machine.oracle import Oracle
from tests.machine.service import INSTALLATION
from tests.machine.worlds import STEP_SECONDS

SLACK_SECONDS = 4 * STEP_SECONDS
CHANGES = 2

Numbers = tuple[int | None, ...]


class Fight(Struct):
    """What others did to one object: when, and since when our numbers stand there again; `begun_at`: watched since.

    `first`: the numbers at `begun_at`. Replicas that no autoscaler owns are ours to write before we ever did: until
    then others change these, and put these back. `first_changed_at`: since when the service knows them as such.
    `doubtful`: numbers of which a start may know that they are ours, or not: by its journal, or by an older fight.
    `doubted_at`: when others wrote these.
    """

    uid: str
    numbers: Numbers
    first: Numbers
    begun_at: float
    changed_at: tuple[float, ...] = ()
    first_changed_at: float = inf
    doubtful: tuple[Numbers, ...] = ()
    doubted_at: tuple[float, ...] = ()
    repaired_at: float | None = None


class Fights:
    """What others did to each target, and what of it the service can know."""

    def __init__(self, world: World, oracle: Oracle) -> None:
        self._lost: list[tuple[float, float]] = []  # what came between the two, by restarts
        self._world = world
        self._oracle = oracle
        self._of: dict[WorkloadRef, Fight] = {}
        self._stood_up_at: dict[str, float] = {}

    def stood_up(self, model: str) -> None:
        """A person says that what others did to the model until the next cycle does not count any more."""
        self._stood_up_at[model] = self._world.now + STEP_SECONDS

    def restarted(self, kept_at: float) -> None:
        """The service begins from a checkpoint of then: it does not know who wrote what it finds and has not seen.

        Nor what was done to a target that is in no policy: a checkpoint has nothing of it. Where nobody had changed a
        number by then, and we had not written it, what it finds now is the first it knows; unless it made again what
        it knew before.
        """
        self.look()
        named = {one.name for model in self._oracle.policy.models for one in model.targets}
        for ref, fight in self._of.items():
            fight.changed_at = fight.changed_at if ref.name in named else ()
            if fight.first_changed_at > kept_at:
                fight.doubtful = fight.first, fight.numbers
                fight.first, fight.first_changed_at = fight.numbers, inf
        self._lost.append((kept_at, self._world.now))

    def _known(self, at: float) -> bool:
        return not any(kept_at <= at <= restarted_at for kept_at, restarted_at in self._lost)

    def _seen(self, at: float) -> float:
        """From when on the service knows what happened then: what came after its checkpoint it sees as it starts."""
        for kept_at, restarted_at in self._lost:
            at = restarted_at if kept_at <= at <= restarted_at else at
        return at

    def look(self) -> None:
        """What the API server shows of each target's numbers now."""
        for ref, owner in self._world.deployments.items():
            found = self._numbers(owner)
            before = self._of.get(ref)
            if found is None or before is None or before.uid != found[0]:
                self._of.pop(ref, None)
                if found is not None:
                    self._of[ref] = Fight(found[0], found[1], found[1], self._world.now)
            elif found[1] != before.numbers:
                self._changed(ref, before, found[1], found[2])

    def _changed(self, ref: WorkloadRef, fight: Fight, numbers: Numbers, writers: tuple[str, ...]) -> None:
        now, ours = self._world.now, self._oracle.ours.get(ref, fight.first)[: len(numbers)]
        each = zip(fight.numbers, numbers, ours, writers, strict=True)
        by_others = [(after, our) for before, after, our, writer in each if after != before and writer]
        fight.numbers = numbers
        if by_others and numbers in fight.doubtful and ref not in self._oracle.ours:
            fight.repaired_at, fight.doubted_at = None, (*fight.doubted_at, now)
        elif by_others and numbers == ours:
            fight.repaired_at = now
        elif any(after != our for after, our in by_others):
            over = fight.repaired_at is not None and now - fight.repaired_at >= REPAIRED_AFTER_SECONDS
            fight.changed_at = (*(() if over else fight.changed_at), now)[-CHANGES:]
            fight.first_changed_at = min(fight.first_changed_at, now)
            fight.repaired_at = None

    def _numbers(self, owner: Deployment) -> tuple[str, Numbers, tuple[str, ...]] | None:
        """The object's UID, the numbers that we write there and who wrote each, "" for us; None: we write none."""
        autoscalers: list[WorldHpa | WorldScaledObject] = [
            *self._world.scaled_objects.values(),
            *self._world.hpas.values(),
        ]
        mine = next((one for one in autoscalers if one.target == owner.ref), None)
        if mine is None:
            return owner.uid, (owner.replicas,), (owner.writer,)
        if getattr(mine, "paused", False) or f'"{INSTALLATION}"' not in mine.annotations.get(ANNOTATION, ""):
            return None
        return mine.uid, (mine.minimum, mine.maximum), mine.writers

    def judge(self, plan: Plan, policy: Policy) -> None:
        """After a cycle whose plan knew what was shown last."""
        now, window = self._world.now, policy.guards.foreign.window_seconds
        models = {one.name: model.id for model in policy.models for one in model.targets}
        refused = {refusal.subject: refusal for refusal in plan.refusals if refusal.guard == "foreign"}
        written = {change.target.name for change in plan.changes}
        for ref, fight in self._of.items():
            repaired = None if fight.repaired_at is None else now - fight.repaired_at
            known = None if fight.repaired_at is None else now - self._seen(fight.repaired_at)
            model = models.get(ref.name, "")
            alone = sum(each == model for each in models.values()) == 1  # no other target of the model is fought over
            if known is not None and known > REPAIRED_AFTER_SECONDS + SLACK_SECONDS and alone and model in refused:
                self._oracle.fail("f", f"{refused[model].why}: our numbers stand there again for {known:.0f} s")
            stood_up_at = self._stood_up_at.get(model, 0.0)
            since = [at for at in fight.changed_at if at > stood_up_at]
            watched = fight.begun_at < stood_up_at < now - SLACK_SECONDS
            most = len(since) + sum(at > stood_up_at for at in fight.doubted_at)
            if watched and most < CHANGES and alone and model in refused:
                self._oracle.fail("f", f"{refused[model].why}: a person said to stand up {now - stood_up_at:.0f} s ago")
            lasts = sum(self._known(at) and now - at < window - SLACK_SECONDS for at in since) >= CHANGES
            over = repaired is not None and repaired > REPAIRED_AFTER_SECONDS - SLACK_SECONDS
            if ref.name in written and lasts and not over:
                ago = now - fight.changed_at[-1]
                self._oracle.fail("f", f"{ref.name} is written over others who fight for it, the last {ago:.0f} s ago")

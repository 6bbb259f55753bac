"""Watches for the guard `sudden`: demand that falls at once in most models is an outage in front of them, not calm.

What a model was offered is noted a few times per window and compared with its last minute. After an outage was seen
the notes begin anew, so that only a further fall prolongs it. A model that fell like this by itself lately says nothing
about what is in front of it: two bursty models, each idle half of the time, were held still for 15 minutes at a time by
nothing but their own pauses (64 % late requests instead of 58 %).

What fails may be in front of every model, or be a producer alone with those it tells of: a gateway, or a collector that
reports zeros. Each is looked at for itself, and only models it concerns speak for or against it. It holds who fell, for
as long as their work is not back. One that rises meanwhile speaks against it: requests come through, and users went
from the ones to the other. Three models that end while a fourth begins were held still for 15 minutes beside one that
was short: 34 % late requests instead of 9 %.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from rebalancer.domain.instant import clock
from rebalancer.domain.memory import Level, Memory, ModelMemory, Outage, Rose, SilentModel
from rebalancer.domain.policy import Policy, SuddenRule
from rebalancer.domain.readings import ModelLoad, Work
from rebalancer.domain.snapshot import Snapshot
from rebalancer.domain.words import figure, listed, work_of

_NOTHING = ModelMemory()
NOTES = 4  # per window: a fall that took three quarters of it is seen in any case


class _Look(NamedTuple):
    """One look at all models for a sudden fall of demand.

    memory: memory before the look.
    most: the most offered work noted within the window, in replicas, by model id.
    fell: whether its work fell suddenly, by model id; None where it had too little work to say, or work is unknown.
    usual: ids of models whose work fell so by itself lately; they say nothing about the others.
    rule: the policy's rule of the guard `sudden`.
    now: instant of the look.
    """

    memory: Memory
    most: Mapping[str, float]
    fell: Mapping[str, bool | None]
    usual: Collection[str]
    rule: SuddenRule
    now: float

    @classmethod
    def of(cls, memory: Memory, loads: Iterable[ModelLoad], rule: SuddenRule, now: float) -> "_Look":
        """A look by the notes in memory."""
        notes = {load.model: memory.models.get(load.model, _NOTHING) for load in loads}
        most = {model: _most(one, rule, now) for model, one in notes.items()}
        fell = {load.model: _fell(most[load.model], load, rule) for load in loads}
        return cls(memory, most, fell, {model for model, one in notes.items() if _usual(one, rule, now)}, rule, now)


def watch(memory: Memory, snapshot: Snapshot, policy: Policy) -> Memory:
    """Memory with what was offered lately and who fell by itself, and with the outages that this shows."""
    rule, now = policy.guards.sudden, snapshot.at
    standing = {outage.source: outage for outage in memory.outages if now < outage.until}
    look = _Look.of(memory, snapshot.loads, rule, now)
    outages: list[Outage] = []
    anew: set[str] = set()
    if standing or any(look.fell.values()):
        concerned = _concerned(snapshot.loads)
        for source in sorted({*concerned, *standing}):
            loads = concerned.get(source, ())  # none: since a start the producer has told of nobody
            outage = _seen(source, loads, standing.get(source), look)
            if outage is not None:
                outages.append(outage)
                if outage.since == now and outage.against is None:
                    anew.update([load.model for load in loads])
    noted = _notes(snapshot, look, anew)
    memory = memory if tuple(outages) == memory.outages else replace(memory, outages=tuple(outages))
    return replace(memory, models=dict(sorted({**memory.models, **noted}.items()))) if noted else memory


def silence(
    outages: Sequence[Outage], model: str, work: Work, rule: SuddenRule, now: float
) -> tuple[Outage, SilentModel] | None:
    """Where the model's silence could be an outage's, and what it had before; None: nowhere, or it is heard.

    One that holds comes before one that somebody speaks against.
    """
    for outage in sorted(outages, key=lambda one: one.against is not None):
        known = next((one for one in outage.silent if one.model == model), None)
        heard = known is None or (work.last_60s is not None and work.last_60s > (1.0 - rule.drop) * known.work)
        if known is not None and not heard and now < outage.until:
            return outage, known
    return None


def outage_words(outage: Outage, model: str, rule: SuddenRule) -> str:
    """A sentence: which models fell together with `model`, and why that is taken for an outage, or is not."""
    names = [model, *(one.model for one in outage.silent if one.model != model)]
    of = f"{outage.fell} of the {outage.of} models with work" + (
        f" that {outage.source} tells of" if outage.source else ""
    )
    fell = f"{listed(names)} lost {rule.drop:.0%} or more of their work within {rule.window_seconds:.0f} s ({of})"
    rose = outage.against
    if rose is not None:
        to = f"from a mean of {figure(rose.usual)} to {work_of(rose.work)}"
        return f"{fell} at {clock(outage.since)}, which is no outage: {rose.model} rose meanwhile {to}"
    whose = f"; models that others tell of say nothing about {outage.source}" if outage.source else ""
    return f"{fell} and nobody rose, which looks like an outage in front of them and not like calm{whose}"


def _concerned(loads: Sequence[ModelLoad]) -> dict[str, Sequence[ModelLoad]]:
    """The models whose silence it would be, by the producer that may fail; "" for all of them.

    A producer of one model says nothing: that falls by itself, too. One of all models is in front of all.
    """
    told_of: dict[str, list[ModelLoad]] = {}
    for load in loads:
        for source in load.told_by:
            told_of.setdefault(source, []).append(load)
    return {"": loads} | {source: of for source, of in told_of.items() if 1 < len(of) < len(loads)}


def _seen(source: str, loads: Sequence[ModelLoad], before: Outage | None, look: _Look) -> Outage | None:
    """The outage of `source` that the models it concerns show now: new, as it was `before`, or spoken against."""
    rule, now = look.rule, look.now
    telling = [gone for load in loads if (gone := look.fell[load.model]) is not None and load.model not in look.usual]
    together = sum(telling) >= rule.least_models and sum(telling) > rule.models * len(telling)
    silent_before = before.silent if before is not None and before.against is None else None
    if not together and silent_before is None:
        return before
    rose = _who_rose(loads, {one.model for one in silent_before or ()}, look)
    known = before.silent if before is not None else ()
    outage = before
    if outage is None or (together and rose is None):
        outage, known = (
            Outage(now, now + rule.hold_seconds, sum(telling), len(telling), source=source),
            silent_before or (),
        )
    if rose is not None and outage.against is None:
        outage = replace(outage, against=rose)
    return replace(outage, silent=_silent(loads, known, look))


def _silent(loads: Sequence[ModelLoad], known: Iterable[SilentModel], look: _Look) -> tuple[SilentModel, ...]:
    """The models that fell, by name, with the most work they had: the `known` ones, and others that follow."""
    had = {one.model: one.work for one in known}
    for load in loads:
        if look.fell[load.model]:
            had[load.model] = max(had.get(load.model, 0.0), look.most[load.model])
    return tuple(SilentModel(model, work) for model, work in sorted(had.items()))


def _who_rose(loads: Sequence[ModelLoad], back: Collection[str], look: _Look) -> Rose | None:
    """The model that gained most, of those that gained as large a share as others lost; fallen ones come `back`."""
    others = [load for load in loads if not look.fell[load.model] and load.model not in back]
    rose = [one for one in (_rise(load, look.rule) for load in others) if one is not None]
    return max(rose, key=lambda one: one.work - one.usual, default=None)


def _rise(load: ModelLoad, rule: SuddenRule) -> Rose | None:
    """A rise of the last minute over the means of up to 20 minutes, of at least `least_work`; None where it did not."""
    last, usual = load.work.last_60s, load.work.slow
    if last is None or usual is None or last < max((1.0 + rule.drop) * usual, usual + rule.least_work):
        return None
    return Rose(load.model, last, usual)


def _fell(most: float, load: ModelLoad, rule: SuddenRule) -> bool | None:
    """Whether the model's work fell suddenly; None: it had too little to say, or its work is unknown."""
    work = load.work.last_60s
    return None if work is None or most < rule.least_work else work <= (1.0 - rule.drop) * most


def _most(notes: ModelMemory, rule: SuddenRule, now: float) -> float:
    """The most offered work noted within the window, in replicas; 0.0 where none was."""
    return max([level.work for level in notes.levels if now - level.at <= rule.window_seconds], default=0.0)


def _usual(notes: ModelMemory, rule: SuddenRule, now: float) -> bool:
    """Whether it fell like this by itself lately; the fall that goes on is not its own precedent."""
    return any(rule.window_seconds < now - at <= rule.usual_seconds for at in notes.falls)


def _notes(snapshot: Snapshot, look: _Look, anew: Collection[str]) -> dict[str, ModelMemory]:
    """The models of which something is to be noted now, with the note; `anew`: those of an outage that begins."""
    noted = {}
    for load in snapshot.loads:
        before, begins = look.memory.models.get(load.model, _NOTHING), load.model in anew
        notes = _levels(before, load, look.rule, look.now, anew=begins)
        notes = _falls(notes, look.rule, look.now, fell=bool(look.fell[load.model]), outage=begins)
        if notes is not before:
            noted[load.model] = notes
    return noted


def _levels(notes: ModelMemory, load: ModelLoad, rule: SuddenRule, now: float, *, anew: bool) -> ModelMemory:
    work = load.work.last_60s
    if work is None or not (anew or not notes.levels or now - notes.levels[-1].at >= rule.window_seconds / NOTES):
        return notes
    recent = () if anew else tuple(level for level in notes.levels if now - level.at <= rule.window_seconds)
    return replace(notes, levels=(*recent, Level(now, work)))


def _falls(notes: ModelMemory, rule: SuddenRule, now: float, *, fell: bool, outage: bool) -> ModelMemory:
    """One note per fall, none of those that turned out to be part of an outage."""
    past = [at for at in notes.falls if now - at <= rule.usual_seconds]
    if outage:
        past = [at for at in past if now - at > rule.window_seconds]
    elif fell and not (past and now - past[-1] <= rule.window_seconds):
        past = [*past[-1:], now]  # the last two say all that is asked
    return notes if tuple(past) == notes.falls else replace(notes, falls=tuple(past))

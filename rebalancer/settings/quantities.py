"""Numbers that must agree: replicas with each other and with the GPUs there are, watermarks, windows, signals."""

from collections import defaultdict
from collections.abc import Iterator

from rebalancer.domain.gpu_memory import GpuMemory
from rebalancer.domain.signals import Signals
from rebalancer.settings.draft import DraftFinding, DraftPart, kind_of, pools_by_name, primary_pool

VOTING = tuple(field.alias or name for name, field in Signals.model_fields.items())


def ordered_replicas(policy: DraftPart) -> Iterator[DraftFinding]:
    """Floor, entitlement and maximum are in this order."""
    for model in policy.parts("models"):
        floor, own, most = model.whole("minReplicas"), model.whole("entitlement"), model.whole("maxReplicas")
        if floor is not None and most is not None and floor > most:
            fix = "raise maxReplicas or lower minReplicas"
            yield DraftFinding(
                model.at("minReplicas"), f"minReplicas {floor} > maxReplicas {most}", f"0 to {most}", fix
            )
            continue
        least, top = floor or 0, most if most is not None else own
        if own is None or top is None or least <= own <= top:
            continue
        what = f"minReplicas {least} > entitlement {own}" if own < least else f"entitlement {own} > maxReplicas {top}"
        fix = "raise entitlement or lower minReplicas" if own < least else "raise maxReplicas or lower entitlement"
        yield DraftFinding(
            model.at("entitlement"), what, f"{least} to {top}" if most is not None else f"from {least}", fix
        )


def entitled_somewhere(policy: DraftPart) -> Iterator[DraftFinding]:
    """An entitlement is held on a primary pool."""
    pools = pools_by_name(policy)
    primaries = [name for name, pool in pools.items() if pool.text("kind") == "primary"]
    for model in policy.parts("models"):
        own = model.whole("entitlement")
        known = all(target.text("pool") in pools for target in model.parts("targets"))
        if own and known and model.parts("targets") and primary_pool(model, pools) is None:
            fix = (
                f"add a target in {' or '.join(primaries) or 'a primary pool'}, or set entitlement and minReplicas to 0"
            )
            yield DraftFinding(
                model.at("entitlement"), f"entitlement {own} has no primary pool among the targets", "0", fix
            )


def entitlements_fit(policy: DraftPart) -> Iterator[DraftFinding]:
    """The entitlements on a primary pool fit its GPU limit, and so do the floors."""
    for name, pool in pools_by_name(policy).items():
        limit = pool.whole("gpuLimit")
        for key in ("entitlement", "minReplicas"):
            needs = _gpus(policy, name, key)
            total = sum(needs.values())
            if limit is not None and total > limit:
                what = f"{key} needs {total} GPUs of pool {name}, its gpuLimit is {limit}: {_largest(needs)}"
                yield DraftFinding(
                    pool.at("gpuLimit"), what, f"from {total}", f"raise gpuLimit or lower {key} of a model"
                )
                break


def whole_pods(policy: DraftPart) -> Iterator[DraftFinding]:
    """A replica is whole pods with the same number of GPUs; only kinds with groups have replicas of several."""
    for model in policy.parts("models"):
        gpus, pods = model.whole("gpusPerReplica"), model.whole("podsPerReplica")
        if gpus is None or pods is None or pods == 1:
            continue
        if gpus % pods:
            what = f"gpusPerReplica {gpus} is no multiple of podsPerReplica {pods}"
            yield DraftFinding(model.at("gpusPerReplica"), what, f"a multiple of {pods}")
        kinds = [kind_of(target) for target in model.parts("targets")]
        alone = next((kind for kind in kinds if kind is not None and not kind.grouped), None)
        if alone is not None:
            what = f"podsPerReplica {pods}: a {alone.kind}'s replica is one pod"
            yield DraftFinding(model.at("podsPerReplica"), what, "1", "set it to 1 or leave it out")


def watermarks(policy: DraftPart) -> Iterator[DraftFinding]:
    """A low watermark is below its high one."""
    classes = policy.part("classes")
    for name in ("realtime", "interactive", "batch"):
        yield from _below(classes.part(name), "lowUtilisation", "highUtilisation")
    for model in policy.parts("models"):
        yield from _below(model.part("signals").part("kvCache"), "low", "high")


def surge_windows(policy: DraftPart) -> Iterator[DraftFinding]:
    """A surge is seen in a window shorter than the one it is compared with, and left where it would not be entered."""
    surge = policy.part("surge")
    yield from _below(surge, "shortWindowSeconds", "longWindowSeconds")
    enter, leave = surge.number("enterRatio"), surge.number("leaveRatio")
    if enter is not None and leave is not None and leave > enter:
        path = surge.at("leaveRatio" if surge.given("leaveRatio") else "enterRatio")
        yield DraftFinding(path, f"leaveRatio {leave:g} > enterRatio {enter:g}", f"leaveRatio 1 to {enter:g}")


def turn_in_window(policy: DraftPart) -> Iterator[DraftFinding]:
    """A turn is part of its window."""
    yield from _below(policy.part("deferral"), "turnSeconds", "windowSeconds")


def deferred_one_way(policy: DraftPart) -> Iterator[DraftFinding]:
    """A model is deferred when it is of class batch, and by a deadline or by a share."""
    for model in policy.parts("models"):
        deferral = model.part("deferral")
        if not isinstance(deferral.raw, dict):
            continue
        if model.text("class") != "batch":
            what = f"deferral: only batch is deferred, and class is {model.text('class') or 'interactive'}"
            yield DraftFinding(deferral.path, what, fix="set class: batch or leave deferral out")
        elif deferral.given("deadlineSeconds") == deferral.given("share"):
            what = "deferral has both" if deferral.given("share") else "deferral has neither"
            yield DraftFinding(deferral.path, what, "deadlineSeconds or share", "say one of the two")


def takers_need_nothing(policy: DraftPart) -> Iterator[DraftFinding]:
    """A model that takes what is idle is batch work, owns nothing, votes for nothing, and brings no nodes."""
    pools = pools_by_name(policy)
    for model in (each for each in policy.parts("models") if each.get("takesIdle") is True):
        if model.text("class") != "batch":
            yield DraftFinding(model.at("takesIdle"), "takesIdle: who serves people needs GPUs", fix="set class: batch")
        for key in ("minReplicas", "entitlement"):
            if model.whole(key):
                what = f"{key} {model.whole(key)} beside takesIdle: it takes what nobody needs, and is owed nothing"
                yield DraftFinding(model.at(key), what, "0", "set it to 0, or leave takesIdle out")
        for key in VOTING:
            if model.part("signals").get(key) not in (None, False):
                what = f"{key} beside takesIdle: nothing votes for a model that needs nothing"
                yield DraftFinding(model.part("signals").at(key), what, fix="leave it out, or takesIdle")
        for target in model.parts("targets"):
            pool = pools.get(target.text("pool") or "")
            if pool is not None and (*pool.texts("nodePools"), *pool.texts("nodeGroups")):
                what = "nodes come and go in this pool: what is idle there goes, and batch work would keep it"
                yield DraftFinding(target.at("pool"), what, fix="a pool without nodePools and nodeGroups")


def voting_signals(policy: DraftPart) -> Iterator[DraftFinding]:
    """Something votes for every model, and latency votes against a promise."""
    for model in policy.parts("models"):
        signals = model.part("signals")
        if (
            model.get("takesIdle") is not True
            and isinstance(signals.raw, dict)
            and all(signals.get(key) in (None, False) for key in VOTING)
        ):
            what = "no signal votes for this model"
            yield DraftFinding(signals.path, what, f"at least one of {', '.join(VOTING)}", "configure a signal")
        if signals.get("latency") is True and not model.given("slo"):
            fix = "add slo: {latencySeconds: ...} to the model"
            yield DraftFinding(signals.at("latency"), "latency has no slo to vote against", fix=fix)


def memory_fits(policy: DraftPart) -> Iterator[DraftFinding]:
    """A replica fits into the GPU memory of some pool of its model's, where the policy says how much there is."""
    pools = pools_by_name(policy)
    for model in policy.parts("models"):
        need, gpus = model.part("gpuMemory"), model.whole("gpusPerReplica")
        sizes = [pools[name].number("memoryGib") for name in _pools_of(model) if name in pools]
        if not gpus or not sizes or not isinstance(need.raw, dict):
            continue
        try:
            memory = GpuMemory.model_validate(need.raw)
        except ValueError:
            continue  # told by the shape
        lacks = [memory.lacks(gpus, size) for size in sizes if size is not None]
        if len(lacks) == len(sizes) and all(lacks):
            fix = "raise gpusPerReplica, add a target in a pool of larger GPUs, or correct the sum"
            yield DraftFinding(need.path, f"a replica fits into no pool of its targets: {lacks[-1]}", fix=fix)


def _pools_of(model: DraftPart) -> list[str]:
    return [name for target in model.parts("targets") if (name := target.text("pool")) is not None]


def _gpus(policy: DraftPart, pool: str, key: str) -> dict[str, int]:
    """GPUs that `key` replicas need, per model whose primary pool is `pool`."""
    pools, needs = pools_by_name(policy), defaultdict[str, int](int)
    for model in policy.parts("models"):
        replicas, gpus = model.whole(key), model.whole("gpusPerReplica")
        if replicas and gpus and primary_pool(model, pools) == pool:
            needs[str(model.text("id"))] += replicas * gpus
    return needs


def _largest(needs: dict[str, int]) -> str:
    shown = sorted(needs.items(), key=lambda need: (-need[1], need[0]))[:5]
    more = f" and {len(needs) - len(shown)} more" if len(needs) > len(shown) else ""
    return ", ".join(f"{model} {gpus}" for model, gpus in shown) + more


def _below(part: DraftPart, low: str, high: str) -> Iterator[DraftFinding]:
    less, more = part.number(low), part.number(high)
    if less is not None and more is not None and less >= more:
        path = part.at(low if part.given(low) else high)
        yield DraftFinding(path, f"{low} {less:g} is not below {high} {more:g}", fix=f"lower {low} or raise {high}")

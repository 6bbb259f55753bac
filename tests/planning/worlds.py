"""Random worlds: policies that the settings would accept, and clusters that could stand behind them."""

from hypothesis import settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rebalancer.domain.autoscalers import Originals
from rebalancer.domain.cluster import Taint, Toleration
from rebalancer.domain.people import Override
from rebalancer.domain.policy import Model, Policy, Pool
from rebalancer.domain.pool_view import NodeView
from rebalancer.domain.readings import Work
from rebalancer.domain.role_ratio import RoleRatio
from rebalancer.domain.timetable import Schedule
from rebalancer.settings.couples import bounds_of_ratios, known_roles
from rebalancer.settings.draft import DraftPart
from tests.builders import NOW, Replicas, a_model, a_node, a_policy, a_pool, a_snapshot, an_autoscaler, an_override
from tests.planning import cluster
from tests.planning.outlooks import SHAPES, Shape, look
from tests.planning.story import Story

TAINT = Taint(key="dedicated", value="gpu", effect="NoSchedule")
TOLERATION = Toleration(key="dedicated", operator="Exists")
EVERYDAY = 50  # examples
PER_REPLICA = 4.0  # requests in flight that one replica carries, as the builders say


def fewer(of_fifty: int) -> settings:
    """So many examples where the profile has fifty, and in proportion: for tests whose worlds live long.

    A turn of such a world costs 5 ms on a core of its own, 30 ms on one that is shared; a test has 60 s.
    """
    return settings(max_examples=max(1, settings().max_examples * of_fifty // EVERYDAY))


def patience(seconds: int) -> int:
    """Seconds that a machine may take everyday; by hand, at length, as many as it takes (0)."""
    return 0 if settings().max_examples > EVERYDAY else seconds


@st.composite
def pools(draw: st.DrawFn) -> tuple[Pool, ...]:
    """A fixed primary pool, sometimes a second one, sometimes an elastic one that Karpenter fills."""
    found = [a_pool("a100", draw(st.integers(2, 20)))]
    if draw(st.booleans()):
        found.append(a_pool("h100", draw(st.integers(2, 12))))
    if draw(st.booleans()):
        behind = draw(st.sampled_from([(), ("spot",), ("spot", "spot-b")]))
        per_node = draw(st.sampled_from([2, 4, 8]))
        limit = draw(st.integers(0, 24))
        found.append(a_pool("spot", limit, kind="elastic", node_pools=behind, gpus_per_node=per_node))
    return tuple(found)


@st.composite
def policies(draw: st.DrawFn, least: int = 1) -> Policy:
    """`least` to 5 models whose entitlements fit their primary pools."""
    there = draw(pools())
    left = {pool.name: pool.gpu_limit if pool.kind == "primary" else 0 for pool in there}
    models = [draw(_models(f"m{n}", there, left)) for n in range(draw(st.integers(least, 5)))]
    return a_policy(*models, pools=there)


@st.composite
def _models(draw: st.DrawFn, name: str, there: tuple[Pool, ...], left: dict[str, int]) -> Model:
    names = draw(st.permutations([pool.name for pool in there]))
    own = tuple(names[: draw(st.integers(1, len(names)))])
    gpus = draw(st.sampled_from([1, 1, 1, 2, 4]))
    kind = draw(st.sampled_from(["Deployment", "Deployment", "Deployment", "StatefulSet", "LeaderWorkerSet"]))
    primary = next((pool.name for pool in there if pool.name in own and pool.kind == "primary"), None)
    most = left[primary] // gpus if primary else 0
    entitlement = draw(st.integers(0, min(6, most)))
    if primary:
        left[primary] -= entitlement * gpus
    floor = draw(st.integers(0, entitlement))
    both = {"concurrency": {"per_replica": PER_REPLICA}, "utilisation": True}
    return a_model(
        name,
        floor,
        pools=own,
        kind=kind,
        gpus_per_replica=gpus,
        pods_per_replica=2 if kind == "LeaderWorkerSet" and gpus > 1 else 1,
        entitlement=entitlement,
        max_replicas=draw(st.integers(max(1, entitlement), 12)),
        priority=draw(st.sampled_from([1, 50, 100, 100, 1000])),
        workload_class=draw(st.sampled_from(["realtime", "interactive", "batch"])),
        signals=both if draw(st.booleans()) else {"concurrency": {"per_replica": PER_REPLICA}},
        actuation=draw(st.sampled_from(["bounds", "bounds", "scale"])),
        schedules=draw(st.lists(_schedules(), max_size=2).map(tuple)) if draw(_rarely()) else (),
    )


def _schedules() -> st.SearchStrategy[Schedule]:
    """Windows that begin, end or last around NOW, 08:00 in UTC."""
    bounds = st.tuples(st.one_of(st.none(), st.integers(1, 8)), st.one_of(st.none(), st.integers(0, 8)))
    return st.builds(
        lambda begin, until, low_high: Schedule.model_validate(
            {"name": "s", "from": begin, "until": until, "timeZone": "UTC"}
            | {"minReplicas": low_high[0], "maxReplicas": low_high[1]}
        ),
        st.sampled_from(["07:00", "08:00", "08:01", "08:02"]),
        st.sampled_from(["08:01", "08:03", "12:00"]),
        bounds,
    )


RATIOS = [(least, most) for least in (0.0, 0.25, 0.5, 1.0) for most in (1.0, 1.5, 2.0, 4.0)]


@st.composite
def coupled_policies(draw: st.DrawFn) -> Policy:
    """Policies whose first two models are roles of one, by a ratio that the settings accept."""
    chosen = draw(policies(least=2))
    one, two = chosen.models[:2]
    floors = draw(st.sampled_from([(1, 1), (1, 1), (2, 1), (1, 2), (2, 2), (2, 3)]))
    found = [_coupled(chosen, one, two, floors, ratio) for ratio in RATIOS]
    return draw(st.sampled_from([policy for policy in found if not ratio_problems(policy)]))


def _coupled(policy: Policy, one: Model, two: Model, floors: tuple[int, int], ratio: tuple[float, float]) -> Policy:
    said = RoleRatio(to=two.id, least=ratio[0], most=ratio[1])
    roles = [
        model.model_copy(
            update={
                "min_replicas": floor,
                "entitlement": max(floor, model.entitlement),
                "max_replicas": max(floor, model.max_replicas),
                "ratio": said if model is one else None,
            }
        )
        for model, floor in ((one, floors[0]), (two, floors[1]))
    ]
    return policy.model_copy(update={"models": (*roles, *policy.models[2:])})


def ratio_problems(policy: Policy) -> list[str]:
    """What the settings say of the ratios of a policy."""
    draft = DraftPart((), parsed(policy))
    return [finding.what for check in (known_roles, bounds_of_ratios) for finding in check(draft)]


def parsed(policy: Policy) -> object:
    """The policy as its file is read: lists as tuples."""
    return _frozen(policy.to_mapping())


def _frozen(value: object) -> object:
    if isinstance(value, dict):
        return {key: _frozen(item) for key, item in value.items()}
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


@st.composite
def stories(draw: st.DrawFn, among: st.SearchStrategy[Policy] | None = None) -> Story:
    """A policy with a cluster: replicas where they fit, loads, outlooks of all, some or none, autoscalers, taints."""
    chosen = draw(policies() if among is None else among)
    held: dict[str, Replicas] = {
        model.id: {target.pool: draw(st.integers(0, 4)) for target in model.targets} for model in chosen.models
    }
    nodes = {pool.name: draw(st.integers(0, pool.gpu_limit // 8)) for pool in chosen.pools if pool.kind == "elastic"}
    story = Story(chosen, a_snapshot(chosen, held, nodes=nodes))
    for model in chosen.models:
        for target in model.targets:
            _owned(draw, story, model, target.pool)
        offer(story, model.id, draw(levels()))
    ahead = draw(st.sampled_from(["all", "some", "none"]))
    for model in chosen.models:
        if ahead == "all" or (ahead == "some" and draw(st.booleans())):
            story.shapes[model.id] = draw(shapes())
    feel(story)
    for view in story.snapshot.pools:
        tainted = tuple(replace(node, taints=(TAINT,)) if draw(_rarely()) else node for node in view.nodes)
        story.pool(view.name, nodes=tainted)
    return story


@st.composite
def shared_pools(draw: st.DrawFn) -> Story:
    """Two to four models of one-GPU replicas that all look ahead, on one fixed pool; all surplus may go at once."""
    gpus = draw(st.integers(4, 16))
    names = [f"m{n}" for n in range(draw(st.integers(2, 4)))]
    models = [a_model(name, draw(st.integers(0, 1)), priority=draw(st.sampled_from([50, 100, 300]))) for name in names]
    held: dict[str, Replicas] = {name: draw(st.integers(0, gpus // len(names))) for name in names}
    policy = a_policy(*models, pools=(a_pool(gpus=gpus),))
    story = Story(policy, a_snapshot(policy, held))
    for name in names:
        story.shapes[name] = draw(shapes())
        offer(story, name, draw(levels()))
        story.load(name, {"concurrency": story.levels[name] * PER_REPLICA}, 0.0)  # nothing that a limit would protect
    feel(story)
    return story


def _owned(draw: st.DrawFn, story: Story, model: Model, pool: str) -> None:
    if draw(_rarely()):
        story.target(model.id, pool, tolerations=(TOLERATION,))
    replicas = story.of(model.id, pool).replicas
    if model.actuation == "scale" or draw(st.booleans()):
        return
    owner = an_autoscaler(draw(st.integers(0, replicas)), replicas + draw(st.integers(0, 4)), name=f"{model.id}-{pool}")
    if draw(st.booleans()) and replicas > 0:
        owner = replace(owner, maximum=replicas, effective_maximum=replicas, originals=Originals(1, 10))
    story.target(model.id, pool, autoscaler=owner)


def _rarely() -> st.SearchStrategy[bool]:
    return st.sampled_from([False, False, False, False, True])


def shapes() -> st.SearchStrategy[Shape]:
    """How lateness falls with replicas: in convex curves and others, cautious or not."""
    return st.builds(Shape, st.sampled_from(sorted(SHAPES)), st.sampled_from([0.0, 0.0, 5.0]))


def levels() -> st.SearchStrategy[float]:
    """Replicas' worth of work a model is offered."""
    return st.sampled_from([0.0, 0.3, 1.0, 2.0, 3.5, 6.0, 10.0, 20.0])


def offer(story: Story, model: str, level: float, *, before: float | None = None) -> None:
    """From now on `model` is offered `level` replicas of work; `before`: what it was offered until now (a surge)."""
    steady = level if before is None else before
    work = Work(short=level, last_60s=(level + steady) / 2, long=steady, slow=steady)
    story.levels[model] = level
    story.load(model, {"concurrency": level * PER_REPLICA}, work)
    feel(story)


def feel(story: Story) -> None:
    """Utilisation follows from the work and the replicas that share it, outlooks from the work and what there is."""
    for model in story.policy.models:
        load = next(each for each in story.snapshot.loads if each.model == model.id)
        level = story.levels.get(model.id)
        if level is None:
            continue
        view = next(each for each in story.snapshot.models if each.id == model.id)
        ready = sum(1 for target in view.targets for pod in target.pods if pod.phase == "ready")
        use = min(1.0, level * 0.6 / ready) if ready else 0.0
        story.load(model.id, {"concurrency": level * PER_REPLICA, "utilisation": use}, load.work)
    story.snapshot = look(story.snapshot, story.policy, story.levels, story.shapes)


@st.composite
def overrides(draw: st.DrawFn, policy: Policy, at: float) -> Override:
    """Somebody decides something."""
    kind = draw(st.sampled_from(["pause", "freeze", "pin", "cap", "floor", "exclude", "standUp"]))
    subject = draw(st.sampled_from([model.id for model in policy.models]))
    value = draw(st.integers(0, 8))
    extra: dict[str, object] = {"created_at": at, "expires_at": at + draw(st.sampled_from([30.0, 600.0]))}
    if kind == "exclude":
        extra |= {"subject_kind": "pool", "model": draw(st.sampled_from([None, subject]))}
        subject = draw(st.sampled_from([pool.name for pool in policy.pools]))
    elif kind in {"pin", "cap"}:
        extra["allow_below_floor"] = draw(_rarely())
    return an_override(kind, subject, value if kind in {"pin", "cap", "floor"} else None, **extra)


def a_new_node(story: Story, pool: str, gpus: int) -> NodeView:
    """A node that has just joined `pool`."""
    name = f"{pool}-{story.snapshot.at - NOW:.0f}-{len(story.view(pool).nodes)}"
    behind = next((view.name for view in story.view(pool).node_pools), None)
    return a_node(name, gpus, labels={"pool": pool}, node_pool=behind, ready_changed_at=story.snapshot.at)


def free_places(story: Story, model: str) -> list[tuple[str, str]]:
    """(pool, node) with room for one more replica of `model`, by the cluster's own rules."""
    nodes, free = cluster.free_gpus(story.snapshot)
    view = next(each for each in story.snapshot.models if each.id == model)
    gpus = next(each for each in story.policy.models if each.id == model).gpus_per_replica
    pool_of = {node.name: pool.name for pool in story.snapshot.pools for node in pool.nodes}
    return [
        (target.pool, name)
        for target in view.targets
        for name, node in sorted(nodes.items())
        if pool_of[name] == target.pool and free[name] >= gpus and cluster.lands(target, node)
    ]

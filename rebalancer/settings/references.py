"""Names that must be unique, and names that must exist."""

from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from itertools import chain

from rebalancer.domain.gpu_shapes import sold_by
from rebalancer.domain.policy import GPU
from rebalancer.domain.target_kinds import BY_NAME, NO_TARGETS
from rebalancer.settings.allowed import any_of
from rebalancer.settings.document import Path
from rebalancer.settings.draft import DraftFinding, DraftPart, kind_of, pools_by_name


def unique_pool_names(policy: DraftPart) -> Iterator[DraftFinding]:
    """Every pool has a name of its own."""
    return unique("pool name", ((pool.at("name"), pool.text("name")) for pool in policy.parts("pools")))


def unique_model_names(policy: DraftPart) -> Iterator[DraftFinding]:
    """Every id and alias means one model: metric samples name models by either."""
    models = policy.parts("models")
    ids = ((model.at("id"), model.text("id")) for model in models)
    aliases = (alias for model in models for alias in model.texts("aliases"))
    return unique("model name", chain(ids, aliases))


def unique_producer_topics(policy: DraftPart) -> Iterator[DraftFinding]:
    """A topic is read once: two producers in one topic cannot be told apart."""
    named = ((producer.at("topic"), producer.text("topic")) for producer in policy.parts("producers"))
    return unique("producer topic", named, fix="give each producer a topic of its own")


def known_pools(policy: DraftPart) -> Iterator[DraftFinding]:
    """A target's pool is one of the policy's."""
    pools = tuple(pools_by_name(policy))
    for model in policy.parts("models"):
        for target in model.parts("targets"):
            name = target.text("pool")
            if name is not None and name not in pools:
                close = get_close_matches(name, pools, n=1)
                fix = f"did you mean {close[0]}?" if close else "add the pool or name another"
                yield DraftFinding(target.at("pool"), f"no pool is named {name}", " or ".join(pools), fix)


def known_teams(policy: DraftPart) -> Iterator[DraftFinding]:
    """A team is named once, and some model is of it."""
    named = tuple(dict.fromkeys(name for model in policy.parts("models") if (name := model.text("team"))))
    teams = policy.parts("teams")
    yield from unique("team name", ((team.at("name"), team.text("name")) for team in teams))
    for team in teams:
        name = team.text("name")
        if name is not None and name not in named:
            close = get_close_matches(name, named, n=1)
            fix = f"did you mean {close[0]}?" if close else "name it as `team` of a model, or leave it out"
            yield DraftFinding(team.at("name"), f"no model is of team {name}", " or ".join(named), fix)


def known_kinds(policy: DraftPart) -> Iterator[DraftFinding]:
    """A target is of a kind that is known, or says where the API serves it; one group a kind, and no NodePool."""
    groups: dict[str, str] = {}
    for target in (target for model in policy.parts("models") for target in model.parts("targets")):
        name, kind = target.text("kind"), kind_of(target)
        if name is None:
            continue
        if kind is None:
            close = get_close_matches(name, BY_NAME, n=1)
            fix = f"did you mean {close[0]}?" if close else "add its apiVersion, as in apps/v1"
            if name in {kind for _, kind in NO_TARGETS}:
                fix = "name a pool's NodePools as nodePools of the pool"
            yield DraftFinding(target.at("kind"), f"no kind {name} is known", any_of(sorted(BY_NAME)), fix)
        elif (kind.group, kind.kind) in NO_TARGETS:
            fix = "name a pool's NodePools as nodePools of the pool"
            yield DraftFinding(target.at("kind"), f"a {name} is no target: its scale counts nodes", fix=fix)
        elif groups.setdefault(name, kind.group) != kind.group:
            what = f"kind {name} is of {groups[name]} elsewhere in the policy"
            yield DraftFinding(target.at("apiVersion"), what, fix="one API group for each kind")
        elif target.given("victims") and kind.victims != target.text("victims"):
            what = f"victims {target.text('victims')}: of a {name} those go that are told by {kind.victims}"
            yield DraftFinding(target.at("victims"), what, kind.victims, "leave it out")


def one_target_per_pool(policy: DraftPart) -> Iterator[DraftFinding]:
    """A model has at most one target in a pool: the pool says where a replica lands."""
    for model in policy.parts("models"):
        places = ((target.at("pool"), target.text("pool")) for target in model.parts("targets"))
        yield from unique("target in pool", places, fix="one target per pool and model")


def one_model_per_workload(policy: DraftPart) -> Iterator[DraftFinding]:
    """A workload is the target of one model, in one pool."""
    used = []
    for model in policy.parts("models"):
        for target in model.parts("targets"):
            names = (model.text("namespace"), target.text("kind"), target.text("name"))
            if None not in names:
                used.append((target.at("name"), "/".join(str(name) for name in names)))
    return unique("workload", used, fix="every target is a workload of its own")


def one_pool_per_node_pool(policy: DraftPart) -> Iterator[DraftFinding]:
    """A NodePool or node group stands behind one pool: its nodes come for that pool's need."""
    for kind, key in (("NodePool", "nodePools"), ("node group", "nodeGroups")):
        yield from unique(kind, (entry for pool in policy.parts("pools") for entry in pool.texts(key)))


def warm_where_nodes_come(policy: DraftPart) -> Iterator[DraftFinding]:
    """GPUs are kept warm where nodes come and go: of a fixed number of nodes all idle GPUs are lent."""
    for pool in policy.parts("pools"):
        if pool.number("warmGpus") and not (*pool.texts("nodePools"), *pool.texts("nodeGroups")):
            what = "no node comes to this pool, so its idle GPUs are lent and none stay warm"
            yield DraftFinding(pool.at("warmGpus"), what, fix="name its nodePools or nodeGroups, or leave warmGpus out")


def no_preemption_by_claims(policy: DraftPart) -> Iterator[DraftFinding]:
    """Where claims are counted, nobody counts what a preempted pod's claim would set free."""
    key = "preemptiblePriorityClasses"
    for pool in policy.parts("pools"):
        if pool.texts(key) and pool.text("deviceClass"):
            what = "preemption is counted in devices that nodes list, and deviceClass counts claims"
            yield DraftFinding(pool.at(key), what, fix=f"leave {key} out: jobs with claims are told as holders")


def distinct_node_labels(policy: DraftPart) -> Iterator[DraftFinding]:
    """No pool takes all nodes of a later one: a node that matches two pools of one resource belongs to the first."""
    earlier: list[tuple[str | None, str, dict[str, str]]] = []
    for pool in policy.parts("pools"):
        labels, resource = pool.labels("nodeLabels"), pool.text("resource") or GPU
        for name, of, fewer in earlier:
            if fewer and of == resource and fewer.items() <= labels.items():
                what = f"every node with these labels belongs to pool {name} already"
                fix = "give both pools a label that tells them apart"
                yield DraftFinding(pool.at("nodeLabels"), what, fix=fix)
                break
        earlier.append((pool.text("name"), resource, labels))


def whole_devices(policy: DraftPart) -> Iterator[DraftFinding]:
    """A pool's resource counts devices, not GiB or cores of them."""
    for pool in policy.parts("pools"):
        seller = sold_by(pool.text("resource") or GPU)
        if seller is not None:
            what = f"{seller} sells parts of GPUs by this resource: one of it is no GPU"
            yield DraftFinding(pool.at("resource"), what, fix="leave its nodes out, or use MIG, time-slicing or MPS")


def unique(kind: str, named: Iterable[tuple[Path, str | None]], fix: str = "rename one") -> Iterator[DraftFinding]:
    """Names that are used a second time; `kind` says what they name."""
    seen: set[str] = set()
    for path, name in named:
        if name in seen:
            yield DraftFinding(path, f"{kind} {name} is used twice", fix=fix)
        elif name is not None:
            seen.add(name)

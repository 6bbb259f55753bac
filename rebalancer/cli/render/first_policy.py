"""`rebalancer init`: what was found, what it became, and what to type next."""

from shlex import quote

from rebalancer.api.text.words import columns, printable
from rebalancer.domain.policy import Policy
from rebalancer.domain.target_kinds import DEPLOYMENT
from rebalancer.domain.words import counted
from rebalancer.survey.first_policy.draft import ModelDraft, PolicyDraft, PoolDraft
from rebalancer.survey.first_policy.text import marked
from rebalancer.survey.live import NOT_INSTALLED

MOST_LEFT_OUT = 5
POOL_HEADER = ("POOL", "KIND", "GPUS", "RESOURCE", "NODES WITH")
MODEL_HEADER = ("MODEL", "POOLS", "GPUS", "FLOOR", "OWNS", "MOST", "WORKLOADS")


def render_first_policy(draft: PolicyDraft, text: str) -> str:
    """The finding, pools and models as tables, what was left out or could not be read, and what is to be decided."""
    lines = [f"Found {draft.seen}.", ""]
    lines += columns([POOL_HEADER, *map(_pool, draft.pools)], "<<><<", gap=2)
    lines += ["", *columns([MODEL_HEADER, *map(_model, draft.models)], "<<>>>><", gap=2), ""]
    lines += _some("Left out", draft.left_out)
    lines += _some("Not read", tuple(each for each in draft.unread if not each.endswith(NOT_INSTALLED)))
    guesses = counted(text.count("guess:") - 1, "guess", "guesses")
    lines.append(f"The policy has {guesses}, marked `guess:`, and {counted(marked(text), 'line')} marked `choose:`.")
    return "\n".join(printable(line) for line in lines)


def next_steps(file: str, policy: Policy, prometheus: str) -> str:
    """The commands that end in a plan on paper, of `policy` in `file`; `prometheus`: its address, or a word for it."""
    return "\n".join(
        (
            f"Wrote {printable(file)}. Next:",
            f"  rebalancer config check {quote(file)}",
            "See what it would do, without Kafka and with no way to write:",
            f"  rebalancer observe --prometheus {quote(prometheus)} --policy {quote(file)}",
            "Or install it:",
            "  helm install rebalancer charts/rebalancer --namespace rebalancer --create-namespace \\",
            "    --set image.repository=REGISTRY/rebalancer \\",
            *(f"    --set {quote(switch)} \\" for switch in _switches(policy)),
            f"    --set kafka.bootstrap=HOST:PORT --set-file policy={quote(file)}",
            "The service starts in shadow: it writes nothing, and `rebalancer plan` shows what it would do.",
        )
    )


def _switches(policy: Policy) -> list[str]:
    """The chart's values that bring the rights to read what the policy names."""
    kinds = {target.of for model in policy.models for target in model.targets if target.kind != DEPLOYMENT}
    named = ",".join(sorted(f"{kind.plural}.{kind.group}" for kind in kinds))
    wanted = {
        f"targetKinds={{{named}}}": bool(kinds),
        "dra=true": any(pool.device_class for pool in policy.pools),
        "clusterAutoscaler=true": any(pool.node_groups for pool in policy.pools),
    }
    return [switch for switch, is_wanted in wanted.items() if is_wanted]


def nothing_found(draft: PolicyDraft) -> str:
    """Why there is no policy to write: a policy has at least one model."""
    lines = [f"nothing to write a policy about: found {draft.seen}"]
    return "\n".join(
        printable(line) for line in [*lines, *_some("Left out", draft.left_out), *_some("Not read", draft.unread)]
    )


def _pool(pool: PoolDraft) -> tuple[str, ...]:
    labels = ",".join(f"{key}={value}" for key, value in pool.node_labels.value.items())
    return (pool.name.value, pool.kind.value, str(pool.gpu_limit.value), pool.resource.value, labels)


def _model(model: ModelDraft) -> tuple[str, ...]:
    numbers = (model.gpus_per_replica, model.min_replicas, model.entitlement, model.max_replicas)
    pools = ",".join(target.value["pool"] for target in model.targets)
    names = ",".join(f"{model.namespace.value}/{target.value['name']}" for target in model.targets)
    return (model.id.value, pools, *(str(each.value) for each in numbers), names)


def _some(title: str, sentences: tuple[str, ...]) -> list[str]:
    if not sentences:
        return []
    more = len(sentences) - MOST_LEFT_OUT
    shown = [f"  {each}" for each in sentences[:MOST_LEFT_OUT]]
    return [f"{title}:", *shown, *([f"  and {more} more: the end of the file has them all"] if more > 0 else []), ""]

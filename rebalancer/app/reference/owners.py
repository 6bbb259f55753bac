"""Who else writes: the page about controllers, second autoscalers and tools that own the numbers we would write."""

from rebalancer.act.rests import CHANGED_SECONDS, DENIED_SECONDS, TRIES
from rebalancer.app.reference.table import code, table
from rebalancer.domain.parents import APPLIERS, LEAVES, MAY, PARENTS, REVERTS, Parent

_INTRO = """\
# Who else writes

The rebalancer is a guest on objects that other people's controllers made. Who owns the numbers of a target is found
from the objects themselves, before the first write and in shadow, too: the controller in `ownerReferences`, the field
managers in `metadata.managedFields`, and what points at the target without owning it. `explain MODEL` says by what a
target is moved and who else has a claim; `status` names the refused ones, `doctor` and the console all of them.

What is written is one of two things: the bounds of the target's autoscaler, where it has one that is not paused, else
the replicas of the target by its `/scale`. With `actuation: metric` neither is: its ScaledObject
[asks us](../metric.md), and who else writes there meets its HPA.
"""

_PARENTS = """
## Controllers above a target

The controller of the object that would be written counts: of the HPA or ScaledObject where its bounds are written, else
of the target. A controller that writes the number back within seconds is refused by the guard `owner`. One that does so
under conditions which its child does not show is told with the way out, and so is one of a kind that is not in this
table: where it does write, the guard `foreign` stands down after two changes. The rows of KServe, NIM, AIBrix, Dynamo
and KEDA were read in those controllers' own sources, the others are as their documentation says; a new version may do
otherwise, and the guard `foreign` stays behind the table.

"""

_AUTOSCALERS = """
AIBrix's PodAutoscaler owns nothing where it writes replicas itself, and its field manager is called `manager` like many
others. So PodAutoscalers are read where the cluster has that API (`podautoscalers.autoscaling.aibrix.ai`, list and
watch); nothing else shows them before they write. llm-d's VariantAutoscaling is not read: it emits a metric, and the
HPA or ScaledObject that follows the metric is moved by its bounds like any other. From 0 to 1 it scales by itself,
where KEDA would. A RayCluster owns its pods and has no `/scale`: it is no target, and its pods count as others' GPUs.

## Autoscalers of one target

"""

_RIVALS = (
    (
        "two ScaledObjects, two HPAs, or an HPA beside KEDA's own",
        (
            "refused by the guard `owner` with all names: each sets its own number, whatever its bounds are. KEDA's"
            " webhook denies the second one, where that webhook is installed"
        ),
    ),
    (
        "a paused ScaledObject",
        (
            "refused by the guard `owner` for as long as it is paused, since KEDA keeps no HPA for it. With"
            " `actuation: scale` the replicas are written; `paused-replicas` then sets its own number again whenever"
            " the ScaledObject changes"
        ),
    ),
    (
        "a ScaledObject with `idleReplicaCount`",
        (
            "told: KEDA takes the target there while no trigger is active, below its floor if need be, whatever minimum"
            " is written. While it is there, bounds reach nobody: `unmet` says `idle`"
        ),
    ),
    (
        "a ScaledObject or an HPA whose own minimum is 0, of a model with floor 0",
        (
            "once nobody needs its last replica it is given the bounds 0 to 1: when that goes, and when it comes back,"
            " is for its triggers to say. Meanwhile its GPU is lent; woken, its pod may wait for a shift. A need that"
            " we see wakes a ScaledObject by its minimum; an HPA wakes by its own metric alone. Beside more than one"
            " replica the minimum is never 0, since KEDA would end all at once, and the maximum never is. An own"
            " minimum above 0, or an idleReplicaCount, below which KEDA takes no minimum, keeps one replica"
        ),
    ),
    (
        "an HPA whose target somebody else took to 0 replicas (before Kubernetes 1.37: of a minimum of 1 or more)",
        "Kubernetes has disabled it: `unmet` says `idle`, and to scale it to 1 by hand",
    ),
    (
        "an HPA with a minimum of 0 (`HPAScaleToZero`) that took its target to 0 replicas, from Kubernetes 1.37 on",
        "its own metric wakes it, and so does a minimum above 0 that we write (its condition `ScaledToZero` says so)",
    ),
    (
        "the same before Kubernetes 1.37",
        "its own metric decides when it wakes, and a minimum above 0 would disable it: `unmet` says `idle`",
    ),
)

_TOOLS = """
## Tools that apply manifests

A tracker alone says nothing: an Application may well leave the field alone. What counts is that the tool's manager
owns the number. Then it is told with the way out, and nothing is refused. Our first write takes the field over, and the
claim goes; a tool that writes it again is met by the guard `foreign`.

"""

_ENDS = """
The label `app.kubernetes.io/instance` is no mark of Argo CD, since most charts set it. `kubectl apply` is not told: it
writes when a person runs it.

## How each of them ends

Each of these stands within a minute, and nothing of ours is written to that target for the next five
(`tests/machine/test_beside_others.py`, in virtual time; most of them on real parts in
`tests/real/test_who_else_writes.py`).

"""

_CASES = (
    ("`kubectl scale` by hand, once", "it counts as what runs; the next plan writes what the model needs"),
    (
        "twice within 600 s",
        "the person's number stands: guard `foreign`, until the first change is 600 s old or `rebalancer stand-up`",
    ),
    ("GitOps applies its number every 5 s", "its number stands: guard `foreign`, after at most three writes of ours"),
    ("a known parent reverts its HPA", "nothing is ever written: guard `owner`"),
    ("a parent that nobody knows reverts its HPA", "guard `foreign`, after at most three writes of ours"),
    ("somebody pauses KEDA", "nothing is written until it is taken up again: guard `owner`"),
    ("a ScaledObject is deleted and made again", "it is taken over anew, and its own bounds are saved on it anew"),
    ("a ScaledObject is deleted", "the replicas themselves are written"),
    (
        "an admission webhook denies a write",
        f"after {TRIES} times that direction is asked for again every {DENIED_SECONDS:.0f} s: `webhook`",
    ),
    (
        "an admission webhook stores another number",
        f"that number counts; after {TRIES} times the direction rests {CHANGED_SECONDS:.0f} s: `webhook`",
    ),
)

_WORDS = {REVERTS: "refused", MAY: "told", LEAVES: "moved"}


def owners_page() -> str:
    """The page, its tables from the data that decides."""
    parents = table(
        ("controller", "what it does", "bounds of its autoscaler", "replicas of its workload", "the way out"),
        (_parent(row) for row in PARENTS),
    )
    appliers = table(
        ("tool", "field manager begins with", "named by", "writes it again", "the way out"),
        (
            (
                row.who,
                code(row.manager),
                ", ".join(map(code, row.name_in)),
                row.again,
                row.way_out.format(kind="KIND", fields="the fields", paths="/spec/FIELD"),
            )
            for row in APPLIERS
        ),
    )
    rivals, cases = table(("what is there", "what happens"), _RIVALS), table(("what happens", "where it ends"), _CASES)
    return f"{_INTRO}{_PARENTS}{parents}{_AUTOSCALERS}{rivals}{_TOOLS}{appliers}{_ENDS}{cases}"


def _parent(row: Parent) -> tuple[str, ...]:
    bounds, replicas = _WORDS[row.bounds], _WORDS[row.replicas]
    if row.consents:
        words = ", ".join(map(code, row.consents))
        bounds, replicas = (f"{each}; moved with {words}" for each in (bounds, replicas))
    if row.leaves:
        replicas = f"{replicas}; moved: {', '.join(row.leaves)}"
    return f"{row.kind} ({code(row.group)})", row.does, bounds, replicas, row.way_out

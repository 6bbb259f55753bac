"""What triggered a decision: what was new since the cycle before."""

from msgspec.structs import replace

from rebalancer.api.pages.decisions import decision_page
from rebalancer.api.pages.values.decisions import ModelBeside
from rebalancer.api.ports.page_data import RecordedCycle
from rebalancer.api.text.triggers import MOST, triggers
from rebalancer.domain.people import Override, WriteStop
from rebalancer.domain.plan import Change, Plan
from rebalancer.domain.snapshot import Snapshot
from tests.api.scenes import SNAPSHOT
from tests.builders import NOW, a_node, a_notice, a_target
from tests.cli.scene import PLAN, at

BEFORE = RecordedCycle(PLAN, SNAPSHOT, "9f2c41d07b", "51aa90ce12")
CAP = Override("ov-1", "serving", "u9", "1", "cap", "sdxl", "model", "why", "ann", at("03:00:00"), at("04:00:00"), 6)


def after(plan: Plan = PLAN, digest: str = BEFORE.policy_digest, **changed: object) -> RecordedCycle:
    return replace_cycle(plan, replace(SNAPSHOT, **changed), digest)


def replace_cycle(plan: Plan, snapshot: Snapshot, digest: str) -> RecordedCycle:
    return RecordedCycle(plan, snapshot, digest, BEFORE.code_digest)


def test_a_cycle_that_saw_nothing_new_has_no_trigger() -> None:
    assert triggers(BEFORE, after()) == ()


def test_what_people_clouds_and_the_policy_did_is_told_before_what_the_load_did() -> None:
    needs = replace(PLAN.models[0], demand=9)
    gone = a_notice("a100-1", deadline=at("03:20:00"))
    seen = after(
        replace(PLAN, models=(needs, *PLAN.models[1:])),
        "ffff",
        overrides=(*SNAPSHOT.overrides, CAP),
        notices=(*SNAPSHOT.notices, gone),
        write_stop=WriteStop("stop", "u", "1", "why", "ann", NOW),
        pools=(replace(SNAPSHOT.pools[0], nodes=(*SNAPSHOT.pools[0].nodes, a_node("a100-9"))), *SNAPSHOT.pools[1:]),
    )
    told = triggers(BEFORE, seen)
    assert told[:3] == (
        "another policy came into force (9f2c41d07b -> ffff)",
        "ann decided cap 6 of model sdxl",
        "ann stopped the writes",
    )
    assert told[3].startswith("a100-1 goes ")
    assert told[4] == "node a100-9 came to pool a100"
    assert told[5].startswith("llama-70b needs 9 instead of 7: ")


def test_what_ended_is_told_too() -> None:
    seen = RecordedCycle(PLAN, replace(SNAPSHOT, overrides=(), notices=()), BEFORE.policy_digest, "")
    told = triggers(BEFORE, seen)
    assert told[0].startswith("cap 6 of model sdxl by ")
    assert told[0].endswith(" ended")
    assert "the notice about spot-2 is over" in told


def test_replicas_that_became_ready_are_counted() -> None:
    loading = SNAPSHOT.models[0].targets[0]
    ready = replace(loading, pods=tuple(replace(pod, phase="ready") for pod in loading.pods))
    model = replace(SNAPSHOT.models[0], targets=(ready, *SNAPSHOT.models[0].targets[1:]))
    assert triggers(BEFORE, after(models=(model, *SNAPSHOT.models[1:]))) == ("1 replica of llama-70b became Ready",)


def test_gpus_that_became_free_and_guards_that_let_go_are_told() -> None:
    freed = replace(PLAN.pools[0], free=PLAN.pools[0].free + 2)
    seen = after(replace(PLAN, pools=(freed, *PLAN.pools[1:]), refusals=()))
    assert triggers(BEFORE, seen) == ("2 GPUs more of pool a100 are free", "guard step holds qwen-32b no more")


def test_of_many_the_rest_is_counted() -> None:
    nodes = tuple(a_node(f"n-{n}") for n in range(MOST + 3))
    told = triggers(BEFORE, after(pools=(replace(SNAPSHOT.pools[0], nodes=(*SNAPSHOT.pools[0].nodes, *nodes)),)))
    assert len(told) == MOST + 1
    assert told[-1].startswith("and ")


def test_a_decision_shows_every_model_before_and_after_it_who_moves_most_first() -> None:
    target = SNAPSHOT.models[3].targets[0]
    fewer = Change("1-sdxl-spot", "release", "sdxl", target, 6, 2, 0, "gives up 4 replicas")
    page = decision_page(replace_cycle(replace(PLAN, changes=(fewer,)), SNAPSHOT, ""))
    assert page.beside[0] == ModelBeside("sdxl", 6, 2, 2, "demand is 2")
    assert [(each.model, each.before, each.after) for each in page.beside[1:]] == [
        ("llama-70b", 7, 7),
        ("mixtral-8x7b", 2, 2),
        ("qwen-32b", 3, 3),
    ]
    assert page.triggers is None


def test_a_model_of_which_no_target_is_seen_has_no_number() -> None:
    missing = replace(a_target("sdxl", 0), replicas=None)
    models = (*SNAPSHOT.models[:3], replace(SNAPSHOT.models[3], targets=(missing,)))
    page = decision_page(replace_cycle(replace(PLAN, changes=()), replace(SNAPSHOT, models=models), ""))
    assert page.beside[-1] == ModelBeside("sdxl", None, None, 2, "demand is 2")

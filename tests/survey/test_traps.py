"""Each trap is found in a manifest that has it, and in none that has it not."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalancer.domain.parents import PARENTS
from rebalancer.domain.policy import Policy
from rebalancer.survey.case import Case
from rebalancer.survey.finding import FAIL, OK, SKIP, WARN, Finding
from rebalancer.survey.objects import Survey
from rebalancer.survey.traps.scaling import TOLD, WITHOUT_SCALE
from rebalancer.survey.traps.series import pods_by_metric
from rebalancer.survey.traps.table import PAGE, TRAPS, judged
from rebalancer.survey.traps.trap import Trap
from tests.builders import a_model, a_policy, a_pool
from tests.survey.fixtures import (
    AT_ONCE,
    FIXTURES,
    FOLLOWS,
    NEVER,
    OUR_TRIGGER,
    POLICY,
    TOGETHER,
    an_affinity,
)
from tests.survey.manifests import (
    Manifest,
    a_budget,
    a_deployment,
    a_gpu_node,
    a_manifest,
    a_node_pool,
    a_quota,
    a_rule,
    a_running_pod,
    a_scaled_object,
    a_service_monitor,
    a_trigger,
    an_hpa,
)


def found(trap: str, objects: list[Manifest], policy: Policy | None = None) -> list[Finding]:
    """What the doctor says about `trap` in objects."""
    return in_case(trap, Case(Survey(tuple(objects)), policy))


def said(trap: str, objects: list[Manifest], policy: Policy | None = None) -> list[str]:
    """Its sentences about what is not well."""
    return [each.said for each in found(trap, objects, policy) if each.state != OK]


def in_case(trap: str, case: Case) -> list[Finding]:
    return [each for each in judged(case) if each.trap == trap]


def test_every_trap_has_a_fixture_that_is_in_it_and_one_that_is_not() -> None:
    assert list(FIXTURES) == [trap.key for trap in TRAPS]


@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap.key)
def test_a_trap_is_found_in_what_has_it(trap: Trap) -> None:
    fixture = FIXTURES[trap.key]
    case = Case(Survey(tuple(fixture.bad)), fixture.policy, series=fixture.series)
    told = [each for each in in_case(trap.key, case) if each.state != OK]
    assert told
    for each in told:
        assert (each.state, each.docs) == (trap.state, f"{PAGE}#{trap.key}")
        assert each.said
        assert each.fix


@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap.key)
def test_a_trap_is_not_found_in_what_has_it_not(trap: Trap) -> None:
    fixture = FIXTURES[trap.key]
    case = Case(Survey(tuple(fixture.good)), fixture.policy, series=fixture.series)
    assert [each.said for each in in_case(trap.key, case) if each.state != OK] == []


@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap.key)
def test_each_of_several_in_a_trap_is_told(trap: Trap) -> None:
    fixture = FIXTURES[trap.key]
    if fixture.policy is None and fixture.series is None and trap.key not in TOGETHER:
        alone = [said(trap.key, [each]) for each in fixture.bad]
        assert all(alone), "every object of the fixture is in the trap by itself"


def test_gpus_by_claims_are_as_they_should_be_where_the_pool_counts_them_by_a_device_class() -> None:
    claims = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
    objects = [a_deployment(gpus=0, pod={"resourceClaims": claims}), a_gpu_node({"pool": "a100"}, 0)]
    by_claims, by_plugin = (
        a_policy(a_model(), pools=(a_pool(device_class=each),)) for each in ("gpu.nvidia.com", None)
    )
    for trap in ("claims", "policy-gpus", "no-gpus-offered"):
        assert said(trap, objects, by_plugin)
        assert said(trap, objects, by_claims) == []
    assert said("policy-gpus", [a_deployment(gpus=2)], by_claims), "by the class's extendedResourceName"


def test_the_gpus_of_a_pool_are_counted_by_the_name_that_the_policy_gives_them() -> None:
    policy = a_policy(a_model(), pools=(a_pool(resource="example.com/a100"),))
    node = a_gpu_node({"pool": "a100"}, 0)
    node["status"]["allocatable"]["example.com/a100"] = "8"
    for count, wrong in (
        ("1", []),
        ("2", ["its pods ask for 2 example.com/a100, and the policy has 1 for a pod of b"]),
    ):
        limits = {"resources": {"limits": {"example.com/a100": count}}}
        assert said("policy-gpus", [a_deployment(container=limits)], policy) == wrong
    assert said("no-gpus-offered", [node], policy) == []
    assert said("no-gpus-offered", [node])


def test_a_sentence_has_the_numbers_that_make_it_a_trap() -> None:
    assert said("pinning-fallback", FIXTURES["pinning-fallback"].bad) == [
        "fallback holds 3 of at most 8 replicas from failure 4 on, in a surge too"
    ]
    assert said("policy-gpus", [a_deployment(gpus=4)], POLICY) == [
        "its pods ask for 4 nvidia.com/gpu, and the policy has 1 for a pod of b"
    ]
    (memory,) = said("used-over-free", FIXTURES["used-over-free"].bad)
    assert memory == (
        "alert GpuMemoryHigh: FB_USED / FB_FREE is no share > 0.9 holds from 47% of the memory on; "
        "engines fill some 90 % at their start"
    )
    assert said("quota", FIXTURES["quota"].bad) == [
        "requests.nvidia.com/gpu 7 is below the 8 that the maxima in its namespace come to: pods will be refused"
    ]
    assert said("two-autoscalers", FIXTURES["two-autoscalers"].bad) == [
        "deployment/b has horizontalpodautoscaler/serving/of-b beside it: they undo each other",
        "deployment/b has scaledobject/serving/b beside it: they undo each other",
    ]


@pytest.mark.parametrize(("after", "state"), [("30s", WARN), ("0s", WARN), ("7m39s", WARN), ("7m40s", OK), ("1h", OK)])
def test_nodes_must_outlive_the_loading_of_a_replica(after: str, state: str) -> None:
    pool = a_node_pool(consolidateAfter=after)
    measured = in_case("consolidation", Case(Survey((pool,)), start_seconds=460.0))
    by_policy = found("consolidation", [pool], POLICY)
    assert [each.state for each in (*measured, *by_policy)] == [state, state]


def test_the_pools_own_nodes_are_known_by_name_too() -> None:
    plain = a_node_pool({"karpenter.k8s.aws/instance-family": ["m6i"]}, consolidateAfter="30s")
    assert said("consolidation", [plain]) == []
    (told,) = in_case("consolidation", Case(Survey((plain,)), node_pools=frozenset({"spot"})))
    assert told.said == (
        "consolidateAfter 30s < load time 5m0s (assumed; --policy tells): nodes go while replicas load on them"
    )


@pytest.mark.parametrize(
    ("budget", "replicas", "minimum", "blocks"),
    [
        ({"minAvailable": 2}, 2, None, True),
        ({"minAvailable": 2}, 3, None, False),
        ({"minAvailable": 2}, 1, 3, False),
        ({"minAvailable": 2}, 5, 2, True),
        ({"minAvailable": "100%"}, 5, None, True),
        ({"minAvailable": "51%"}, 2, None, True),
        ({"minAvailable": "50%"}, 2, None, False),
        ({"maxUnavailable": "0%"}, 5, None, True),
    ],
)
def test_a_budget_blocks_when_the_fewest_pods_are_all_needed(
    budget: Manifest,
    replicas: int,
    minimum: int | None,
    blocks: bool,  # noqa: FBT001 - what the table says
) -> None:
    scaler = [] if minimum is None else [a_scaled_object(minReplicaCount=minimum)]
    objects = [a_deployment(replicas=replicas), a_budget(**budget), *scaler]
    assert bool(said("blocking-budget", objects)) is blocks


@pytest.mark.parametrize(("floor", "blocks"), [(0, True), (1, True), (2, True), (3, False)])
def test_a_budget_blocks_when_the_policys_floor_needs_all_pods_however_many_there_are_now(
    floor: int,
    blocks: bool,  # noqa: FBT001 - what the table says
) -> None:
    policy = a_policy(a_model("b", min_replicas=floor, max_replicas=9), pools=(a_pool(),))
    objects = [a_deployment(replicas=5), a_scaled_object(minReplicaCount=5), a_budget(minAvailable=2)]
    assert bool(said("blocking-budget", objects, policy)) is blocks


@pytest.mark.parametrize(
    ("query", "wrong"),
    [
        ("DCGM_FI_DEV_FB_USED / DCGM_FI_DEV_FB_FREE > 0.9", True),
        ('DCGM_FI_DEV_FB_USED{pod!=""} / DCGM_FI_DEV_FB_FREE{pod!=""} * 100 > 90', True),
        ("sum by (pod) (DCGM_FI_DEV_FB_USED) / sum by (pod) (DCGM_FI_DEV_FB_FREE) > 0.9", True),
        ("DCGM_FI_DEV_FB_USED / on(gpu, pod) group_left(node) DCGM_FI_DEV_FB_FREE > 0.9", True),
        ("DCGM_FI_DEV_FB_USED / (DCGM_FI_DEV_FB_FREE + DCGM_FI_DEV_FB_USED) > 0.9", False),
        ('sum(DCGM_FI_DEV_FB_USED{a="b"}) / (sum(DCGM_FI_DEV_FB_FREE{a="b"}) + sum(DCGM_FI_DEV_FB_USED)) > 0.9', False),
        ("DCGM_FI_DEV_FB_USED / DCGM_FI_DEV_FB_TOTAL > 0.9", False),
    ],
)
def test_used_over_free_is_seen_however_it_is_written(query: str, wrong: bool) -> None:  # noqa: FBT001 - as above
    found = said("used-over-free", [a_rule(query), a_scaled_object(a_trigger(query=query))])
    assert len(found) == 2 * wrong
    assert all("47%" in each for each in found if ">" in query)


def test_models_are_found_behind_the_service_of_a_monitor() -> None:
    assert said("seldom-scraped", [a_deployment(), *a_service_monitor("90s")]) == [
        "scrapes models every 90s, too seldom for rates over 5 min, so latency is not seen"
    ]
    assert said("seldom-scraped", [a_deployment("c"), *a_service_monitor("90s")]) == []


def test_series_are_known_by_the_labels_of_any_scrape() -> None:
    exported = {"namespace": "monitoring", "pod": "dcgm-x1", "exported_namespace": "serving", "exported_pod": "b-1"}
    answer = [
        {"metric": {"__name__": "DCGM_FI_DEV_FB_USED", **exported}, "value": [0, "1"]},
        {"metric": {"__name__": "DCGM_FI_DEV_FB_USED", "gpu": "0"}, "value": [0, "1"]},
        {
            "metric": {"__name__": "tgi_queue_size", "k8s_namespace_name": "serving", "k8s_pod_name": "b-2"},
            "value": [0, ""],
        },
        {"metric": {"__name__": "gpu_usage", "pod_namespace": "serving", "pod_name": "b-3"}, "value": [0, "1"]},
    ]
    assert pods_by_metric(answer, ["DCGM_FI_DEV_FB_FREE"]) == {
        "DCGM_FI_DEV_FB_FREE": frozenset(),
        "DCGM_FI_DEV_FB_USED": frozenset({("monitoring", "dcgm-x1"), ("serving", "b-1")}),
        "tgi_queue_size": frozenset({("serving", "b-2")}),
        "gpu_usage": frozenset({("serving", "b-3")}),
    }


def test_series_of_no_pod_are_told_only_while_pods_run() -> None:
    nameless = {"DCGM_FI_DEV_FB_USED": frozenset[tuple[str, str]]()}
    assert in_case("series-of-no-pod", Case(Survey((a_deployment(),)), series=nameless)) == []
    (told,) = in_case("series-of-no-pod", Case(Survey((a_running_pod(),)), series=nameless))
    assert told.said == "1 pod with GPUs runs, and no series of dcgm names one of them; they name no pod"


def test_a_quota_is_held_against_what_the_policy_may_ever_use() -> None:
    assert said("quota", [a_deployment(), a_scaled_object(), a_quota(4)], POLICY) == []
    assert said("quota", [a_deployment(), a_scaled_object(), a_quota(3)], POLICY) == [
        "requests.nvidia.com/gpu 3 is below the 4 that the maxima in its namespace come to: pods will be refused"
    ]


@pytest.mark.parametrize(
    ("selector", "chosen"),
    [
        ({}, True),
        (None, False),
        ({"matchLabels": {"app": "b"}}, True),
        ({"matchLabels": {"app": "c"}}, False),
        ({"matchLabels": {"app": "b", "tier": "x"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["a", "b"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["b"]}]}, False),
        ({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}, True),
        ({"matchLabels": {"app": "b"}, "matchExpressions": [{"key": "tier", "operator": "Exists"}]}, False),
    ],
)
def test_a_budget_is_about_the_pods_that_its_selector_chooses(selector: Manifest | None, chosen: bool) -> None:  # noqa: FBT001 - as above
    objects = [a_deployment(), a_budget(maxUnavailable=0, selector=selector)]
    assert bool(said("blocking-budget", objects)) is chosen


def test_the_pool_of_the_policy_decides_what_a_selector_must_bind_and_what_is_spot() -> None:
    loose = a_deployment(pod={"nodeSelector": {"disk": "fast"}})
    assert said("unpinned", [loose]) == []
    assert said("unpinned", [loose], POLICY) == [
        "nothing binds its pods to pool a100: they may land on another pool's nodes"
    ]
    assert said("unpinned", [a_deployment(pod=an_affinity("a100"))], POLICY) == []
    assert said("unpinned", [a_deployment(pod=an_affinity("a100", "h100"))], POLICY) != []
    spot = a_deployment("b-spot", annotations=NEVER, pod={"nodeSelector": {"pool": "spot"}})
    assert said("never-disrupt-on-spot", [spot]) == []
    assert said("never-disrupt-on-spot", [spot], POLICY) != []


@pytest.mark.parametrize(
    ("spared", "told"), [("10m", False), ("5m", True), ("true", False), ("soon", True), (None, True)]
)
def test_a_node_may_go_early_where_pods_that_load_are_spared_by_their_own_annotation(
    spared: str | None, *, told: bool
) -> None:
    annotations = {} if spared is None else {"karpenter.sh/do-not-disrupt": spared}
    name = POLICY.pools[1].node_pools[0]
    quick = a_node_pool(consolidateAfter="30s") | {"metadata": {"name": name}}
    pods = a_deployment("b-spot", annotations=annotations, pod={"nodeSelector": {"pool": "spot"}})
    assert bool(said("consolidation", [quick, pods], POLICY)) is told


@pytest.mark.parametrize(
    ("types", "order"),
    [
        (["spot", "on-demand"], "on-demand and spot: spot comes first, and"),
        (["spot", "reserved"], "reserved and spot: spot comes once reservations are used up, and"),
    ],
)
def test_spot_comes_before_on_demand_and_after_what_is_reserved(types: list[str], order: str) -> None:
    (told,) = said("mixed-capacity", [a_node_pool({"karpenter.sh/capacity-type": types})])
    assert told == f"brings {order} floors may stand on what is taken back"


def test_the_hpa_that_another_autoscaler_made_is_no_second_one() -> None:
    aibrix = a_manifest("autoscaling.aibrix.ai/v1alpha1", "PodAutoscaler", "b", {"scaleTargetRef": {"name": "b"}})
    owner = {"apiVersion": aibrix["apiVersion"], "kind": "PodAutoscaler", "name": "b", "controller": True}
    assert said("two-autoscalers", [aibrix, an_hpa("b-hpa", ownerReferences=[owner])]) == []
    assert len(said("two-autoscalers", [aibrix, an_hpa("b-hpa")])) == 2
    by_others = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "b"}
    assert len(said("two-autoscalers", [aibrix, an_hpa("b-hpa", ownerReferences=[by_others])])) == 2


def test_a_minimum_below_the_policys_floor_is_told_with_both() -> None:
    assert said("unsaid-minimum", [a_scaled_object(minReplicaCount=0)], POLICY) == [
        "minReplicaCount 0 is below the policy's floor of 2: KEDA may go where the policy may not"
    ]


def test_gpus_are_counted_as_the_scheduler_does() -> None:
    step = {"name": "fetch", "resources": {"limits": {"nvidia.com/gpu": 3}}}
    sidecar = {"name": "log", "restartPolicy": "Always", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    assert said("policy-gpus", [a_deployment(pod={"initContainers": [step]})], POLICY)[0].startswith(
        "its pods ask for 3 "
    )
    assert said("policy-gpus", [a_deployment(pod={"initContainers": [sidecar]})], POLICY)[0].startswith(
        "its pods ask for 2 "
    )


def test_an_hpa_that_keda_is_told_to_take_over_is_no_rival() -> None:
    takes = {"scaledobject.keda.sh/transfer-hpa-ownership": "true"}
    told = {"horizontalPodAutoscalerConfig": {"name": "of-b"}}
    assert said("two-autoscalers", [a_scaled_object(annotations=takes, advanced=told), an_hpa("of-b")]) == []


def test_every_parent_that_is_told_has_a_row() -> None:
    assert set(TOLD) <= {(row.group, row.kind) for row in (*PARENTS, *WITHOUT_SCALE)}


def test_a_gpu_of_whatever_vendor_is_a_gpu_to_the_doctor_as_it_is_to_the_first_policy() -> None:
    other = {"name": "m", "resources": {"limits": {"vendor.example/gpu": "1"}}}
    assert said("unpinned", [a_deployment(gpus=0, pod={"nodeSelector": {}, "containers": [other]})]) != []


def test_what_has_no_gpus_is_left_out_and_named() -> None:
    web = [
        a_deployment(gpus=0, pod={"nodeSelector": {}}),
        a_scaled_object(a_trigger(query="avg(x)")),
        a_budget(maxUnavailable=0),
    ]
    findings = list(judged(Case(Survey(tuple(web)))))
    assert [each for each in findings if each.state in {WARN, FAIL}] == []
    assert {"kind/Deployment"} <= {each.about for each in findings if each.state == SKIP}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["", "x", "0s", "*", "9" * 20]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "name", "spec"]), inner, max_size=2)
    ),
    max_leaves=4,
)


def places(obj: object, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every path in a manifest, but that of its kind."""
    parts = obj.items() if isinstance(obj, dict) else enumerate(obj) if isinstance(obj, list) else ()
    return [path] * bool(path) + [each for key, part in parts if key != "kind" for each in places(part, (*path, key))]


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_no_object_however_odd_ends_the_look(data: st.DataObject) -> None:
    fixture = data.draw(st.sampled_from(sorted(FIXTURES)).map(FIXTURES.get))
    assert fixture is not None
    objects = json.loads(json.dumps(fixture.bad + fixture.good))
    *way, last = data.draw(st.sampled_from(places(objects)).filter(lambda path: len(path) > 1))
    within = objects
    for key in way:
        within = within[key]
    within[last] = data.draw(JSON)
    for each in judged(Case(Survey(tuple(objects)), POLICY)):
        assert each.about


@pytest.mark.parametrize(("behavior", "ways"), [(AT_ONCE, []), ({}, ["Up", "Down"])])
def test_a_tolerance_that_is_in_the_scaled_object_and_not_in_its_hpa_is_named_with_its_gate(
    behavior: Manifest, ways: list[str]
) -> None:
    owner = {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "name": "b", "uid": "1", "controller": True}
    made = an_hpa("keda-hpa-b", ownerReferences=[owner])
    made["spec"]["behavior"] = behavior
    large = a_policy(a_model("b", min_replicas=2, max_replicas=20, actuation="metric"), pools=(a_pool(),))
    scaled = a_scaled_object(OUR_TRIGGER, **{**FOLLOWS, "maxReplicaCount": 20})
    sentences = said("metric-followed-late", [a_deployment(), scaled, made], large)
    assert [way for way in ("Up", "Down") if any(f"no behavior.scale{way}" in each for each in sentences)] == ways
    assert all("HPAConfigurableTolerance" in sentence for sentence in sentences)

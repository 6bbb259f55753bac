"""Reading and writing single objects of the embedded API, with the real client."""

from kubernetes_asyncio import client

from rebalancer.sandbox.api import EmbeddedKubernetes, Obj, StatusError, Store, Target
from rebalancer.sandbox.api.resources import DEPLOYMENTS, OVERRIDES, PODS
from tests.sandbox.generated import Generated
from tests.sandbox.hand_clock import HandClock
from tests.sandbox.refusals import refusal
from tests.sandbox.shapes import deployment, override, pod, scaled_object

OVERRIDE = ("rebalancer.io", "v1alpha1", "chat", "overrides")
SCALED_OBJECT = ("keda.sh", "v1alpha1", "chat", "scaledobjects")
MERGE = "application/merge-patch+json"


async def test_a_created_object_gets_what_the_server_gives_and_no_status(custom: Generated, clock: HandClock) -> None:
    clock.advance(61)
    body = override("pin-llama") | {"status": {"phase": "InForce"}}
    made = await custom.create_namespaced_custom_object(*OVERRIDE, body)
    assert made["metadata"]["creationTimestamp"] == "2027-01-15T08:01:01Z"
    assert made["metadata"]["generation"] == 1
    assert made["metadata"]["uid"]
    assert "status" not in made


async def test_a_name_can_be_taken_only_once(custom: Generated) -> None:
    await custom.create_namespaced_custom_object(*OVERRIDE, override("pin-llama"))
    status = await refusal(custom.create_namespaced_custom_object(*OVERRIDE, override("pin-llama")))
    assert (status["code"], status["reason"]) == (409, "AlreadyExists")


async def test_a_generated_name_differs_each_time(core: Generated) -> None:
    body = pod("x") | {"metadata": {"generateName": "llama-"}}
    names = {(await core.create_namespaced_pod("chat", body)).metadata.name for _ in range(3)}
    assert len(names) == 3
    assert all(name.startswith("llama-") for name in names)


async def test_what_is_not_there_is_404(core: Generated, custom: Generated) -> None:
    status = await refusal(core.read_namespaced_pod("nobody", "chat"))
    assert (status["code"], status["reason"], status["details"]["name"]) == (404, "NotFound", "nobody")
    status = await refusal(custom.list_cluster_custom_object("nobody.io", "v1", "things"))
    assert status["code"] == 404


async def test_a_spec_change_raises_the_generation_a_status_change_does_not(custom: Generated, store: Store) -> None:
    store.put(scaled_object("llama", 1, 4))
    spec = {"spec": {"maxReplicaCount": 5}}
    changed = await custom.patch_namespaced_custom_object(*SCALED_OBJECT, "llama", spec, _content_type=MERGE)
    assert changed["metadata"]["generation"] == 2
    status = {"status": {"state": "applied"}}
    told = await custom.patch_namespaced_custom_object_status(*SCALED_OBJECT, "llama", status, _content_type=MERGE)
    assert told["metadata"]["generation"] == 2
    assert told["status"] == {"state": "applied"}


async def test_each_side_of_the_status_subresource_leaves_the_other_alone(custom: Generated, store: Store) -> None:
    store.put(scaled_object("llama", 1, 4) | {"status": {"state": "applied"}})
    both = {"spec": {"maxReplicaCount": 9}, "status": {"state": "expired"}}
    main = await custom.patch_namespaced_custom_object(*SCALED_OBJECT, "llama", both, _content_type=MERGE)
    assert (main["spec"]["maxReplicaCount"], main["status"]["state"]) == (9, "applied")
    both = {"spec": {"maxReplicaCount": 1}, "status": {"state": "expired"}}
    told = await custom.patch_namespaced_custom_object_status(*SCALED_OBJECT, "llama", both, _content_type=MERGE)
    assert (told["spec"]["maxReplicaCount"], told["status"]["state"]) == (9, "expired")


async def test_a_write_at_an_old_revision_is_a_conflict(custom: Generated, store: Store) -> None:
    old = store.put(scaled_object("llama", 1, 4))
    store.patch(store.table.of(old), "llama", {"spec": {"maxReplicaCount": 5}}, "chat")
    put = await refusal(custom.replace_namespaced_custom_object(*SCALED_OBJECT, "llama", old))
    assert (put["code"], put["reason"]) == (409, "Conflict")
    stale = {"metadata": {"resourceVersion": old["metadata"]["resourceVersion"]}, "spec": {"minReplicaCount": 2}}
    patch = custom.patch_namespaced_custom_object(*SCALED_OBJECT, "llama", stale, _content_type=MERGE)
    assert (await refusal(patch))["code"] == 409
    stranger = {"metadata": {"uid": "somebody-else"}, "spec": {"minReplicaCount": 2}}
    patch = custom.patch_namespaced_custom_object(*SCALED_OBJECT, "llama", stranger, _content_type=MERGE)
    assert (await refusal(patch))["code"] == 409


async def test_a_put_of_a_custom_resource_must_name_its_revision(custom: Generated, store: Store) -> None:
    store.put(override("pin-llama"))
    put = custom.replace_namespaced_custom_object(*OVERRIDE, "pin-llama", override("pin-llama"))
    assert (await refusal(put))["code"] == 422


async def test_min_above_max_is_invalid_and_an_unset_max_counts_as_100(custom: Generated, store: Store) -> None:
    store.put(scaled_object("llama", 1, 4))
    for bounds, code in (({"minReplicaCount": 5}, 422), ({"minReplicaCount": 101, "maxReplicaCount": None}, 422)):
        patch = custom.patch_namespaced_custom_object(*SCALED_OBJECT, "llama", {"spec": bounds}, _content_type=MERGE)
        assert (await refusal(patch))["code"] == code
    both = {"spec": {"minReplicaCount": 5, "maxReplicaCount": 5}}
    await custom.patch_namespaced_custom_object(*SCALED_OBJECT, "llama", both, _content_type=MERGE)
    assert store.list(store.table.of(scaled_object("llama", 1, 1)))[0]["spec"]["minReplicaCount"] == 5


async def test_a_write_that_changes_nothing_makes_no_revision(apps: Generated, store: Store) -> None:
    store.put(deployment("llama", 3))
    before = store.revision
    await apps.patch_namespaced_deployment("llama", "chat", {"spec": {"replicas": 3}})
    assert store.revision == before


async def test_a_strategic_patch_merges_conditions_by_type(core: Generated, store: Store) -> None:
    ready, scheduled = {"type": "Ready", "status": "False"}, {"type": "PodScheduled", "status": "True"}
    store.put(pod("llama-0") | {"status": {"phase": "Running", "conditions": [ready, scheduled]}})
    body = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    await core.patch_namespaced_pod_status("llama-0", "chat", body)
    stored = store.get(PODS, "llama-0", "chat")
    assert stored is not None
    assert stored["status"]["conditions"] == [ready | {"status": "True"}, scheduled]


async def test_a_json_patch_is_applied_whole_or_not_at_all(apps: Generated, store: Store) -> None:
    store.put(deployment("llama", 3))
    raise_to = [
        {"op": "test", "path": "/spec/replicas", "value": 3},
        {"op": "replace", "path": "/spec/replicas", "value": 4},
        {"op": "add", "path": "/metadata/annotations", "value": {"example.com/why": "surge"}},
    ]
    raised = await apps.patch_namespaced_deployment("llama", "chat", raise_to)
    assert (raised.spec.replicas, raised.metadata.annotations) == (4, {"example.com/why": "surge"})
    assert (await refusal(apps.patch_namespaced_deployment("llama", "chat", raise_to)))["code"] == 422
    lists = [
        {"op": "add", "path": "/spec/template/spec", "value": {"containers": [], "tolerations": [{"key": "a"}]}},
        {"op": "add", "path": "/spec/template/spec/tolerations/-", "value": {"key": "c"}},
        {"op": "add", "path": "/spec/template/spec/tolerations/1", "value": {"key": "b"}},
        {"op": "remove", "path": "/spec/template/spec/tolerations/0"},
        {"op": "remove", "path": "/metadata/annotations/example.com~1why"},
    ]
    await apps.patch_namespaced_deployment("llama", "chat", lists)
    stored = store.get(DEPLOYMENTS, "llama", "chat")
    assert stored is not None
    assert stored["spec"]["template"]["spec"]["tolerations"] == [{"key": "b"}, {"key": "c"}]
    assert stored["metadata"]["annotations"] == {}


async def test_a_patch_type_that_is_not_spoken_is_415(custom: Generated, store: Store) -> None:
    store.put(override("pin-llama"))
    merging_lists = "application/strategic-merge-patch+json"
    patch = custom.patch_namespaced_custom_object(*OVERRIDE, "pin-llama", {}, _content_type=merging_lists)
    assert (await refusal(patch))["code"] == 415
    patch = custom.patch_namespaced_custom_object(
        *OVERRIDE, "pin-llama", {}, _content_type="application/apply-patch+yaml"
    )
    assert (await refusal(patch))["code"] == 415


async def test_scale_is_read_and_written_and_moves_the_deployment(apps: Generated, store: Store) -> None:
    store.put(deployment("llama", 3))
    scale = await apps.read_namespaced_deployment_scale("llama", "chat")
    assert (scale.spec.replicas, scale.status.replicas, scale.status.selector) == (3, 3, "app=llama")
    scale.spec.replicas = 5
    written = await apps.replace_namespaced_deployment_scale("llama", "chat", scale)
    assert (written.spec.replicas, written.status.replicas) == (5, 3)
    stored = store.get(DEPLOYMENTS, "llama", "chat")
    assert stored is not None
    assert stored["spec"]["replicas"] == 5
    assert stored["metadata"]["resourceVersion"] == written.metadata.resource_version
    patched = await apps.patch_namespaced_deployment_scale("llama", "chat", {"spec": {"replicas": 2}})
    assert patched.spec.replicas == 2


async def test_a_scale_read_before_somebody_else_wrote_is_a_conflict(apps: Generated, store: Store) -> None:
    store.put(deployment("llama", 3))
    scale = await apps.read_namespaced_deployment_scale("llama", "chat")
    store.patch(DEPLOYMENTS, "llama", {"spec": {"replicas": 7}}, "chat")
    scale.spec.replicas = 5
    status = await refusal(apps.replace_namespaced_deployment_scale("llama", "chat", scale))
    assert (status["code"], status["reason"]) == (409, "Conflict")
    negative = apps.patch_namespaced_deployment_scale("llama", "chat", {"spec": {"replicas": -1}})
    assert (await refusal(negative))["code"] == 422


async def test_a_pod_on_a_node_stays_until_its_kubelet_lets_it_go(core: Generated, store: Store) -> None:
    store.put(pod("llama-0", node="gpu-1"))
    left = await core.delete_namespaced_pod("llama-0", "chat", grace_period_seconds=90)
    assert left.metadata.deletion_timestamp.isoformat() == "2027-01-15T08:01:30+00:00"
    assert left.metadata.deletion_grace_period_seconds == 90
    shorter = await core.delete_namespaced_pod("llama-0", "chat", grace_period_seconds=10)
    assert shorter.metadata.deletion_grace_period_seconds == 10
    longer = await core.delete_namespaced_pod("llama-0", "chat", grace_period_seconds=60)
    assert longer.metadata.deletion_grace_period_seconds == 10
    store.remove(PODS, "llama-0", "chat")
    assert (await refusal(core.read_namespaced_pod("llama-0", "chat")))["code"] == 404


async def test_a_pod_without_a_node_goes_at_once(core: Generated, store: Store) -> None:
    store.put(pod("pending"))
    await core.delete_namespaced_pod("pending", "chat")
    assert store.get(PODS, "pending", "chat") is None


async def test_a_finalizer_holds_a_deleted_object_until_it_is_taken_off(custom: Generated, store: Store) -> None:
    body = override("pin-llama")
    body["metadata"]["finalizers"] = ["rebalancer.io/restore"]
    store.put(body)
    left = await custom.delete_namespaced_custom_object(*OVERRIDE, "pin-llama")
    assert left["metadata"]["deletionTimestamp"] == "2027-01-15T08:00:00Z"
    off = {"metadata": {"finalizers": None}}
    await custom.patch_namespaced_custom_object(*OVERRIDE, "pin-llama", off, _content_type=MERGE)
    assert store.get(OVERRIDES, "pin-llama", "chat") is None


async def test_a_deletion_for_another_uid_is_a_conflict(core: Generated, store: Store) -> None:
    store.put(pod("llama-0", node="gpu-1"))
    options = client.V1DeleteOptions(preconditions=client.V1Preconditions(uid="another"))
    assert (await refusal(core.delete_namespaced_pod("llama-0", "chat", body=options)))["code"] == 409


async def test_an_eviction_deletes_with_grace_unless_it_is_refused(
    core: Generated, store: Store, kubernetes: EmbeddedKubernetes
) -> None:
    store.put(pod("llama-0", node="gpu-1"))
    body = client.V1Eviction(metadata=client.V1ObjectMeta(name="llama-0", namespace="chat"))
    kubernetes.verbs.refuse_eviction = lambda _pod: "needs 2 healthy pods and has 2"
    status = await refusal(core.create_namespaced_pod_eviction("llama-0", "chat", body))
    assert (status["code"], status["reason"]) == (429, "TooManyRequests")
    assert status["details"]["causes"][0]["message"] == "needs 2 healthy pods and has 2"
    kubernetes.verbs.refuse_eviction = lambda _pod: None
    await core.create_namespaced_pod_eviction("llama-0", "chat", body)
    stored = store.get(PODS, "llama-0", "chat")
    assert stored is not None
    assert stored["metadata"]["deletionGracePeriodSeconds"] == 30


async def test_an_eviction_of_a_pod_that_is_another_now_is_a_conflict(core: Generated, store: Store) -> None:
    store.put(pod("llama-0", node="gpu-1"))
    options = client.V1DeleteOptions(preconditions=client.V1Preconditions(uid="before"))
    body = client.V1Eviction(metadata=client.V1ObjectMeta(name="llama-0"), delete_options=options)
    assert (await refusal(core.create_namespaced_pod_eviction("llama-0", "chat", body)))["code"] == 409


async def test_admission_can_refuse_a_write(apps: Generated, store: Store, kubernetes: EmbeddedKubernetes) -> None:
    def admit(target: Target, old: Obj | None, new: Obj) -> None:
        if old is not None and target.resource == DEPLOYMENTS and new["spec"]["replicas"] < old["spec"]["replicas"]:
            raise StatusError(403, "nobody shrinks anything here")

    store.put(deployment("llama", 3))
    kubernetes.verbs.admit = admit
    shrink = apps.patch_namespaced_deployment_scale("llama", "chat", {"spec": {"replicas": 2}})
    assert (await refusal(shrink))["reason"] == "Forbidden"


async def test_the_body_must_be_the_object_that_the_path_names(apps: Generated, store: Store) -> None:
    store.put(deployment("llama", 3))
    for body in (deployment("other", 3), deployment("llama", 3, namespace="other"), scaled_object("llama", 1, 2)):
        assert (await refusal(apps.replace_namespaced_deployment("llama", "chat", body)))["code"] == 400


async def test_a_dry_run_is_refused_rather_than_done(apps: Generated, store: Store) -> None:
    store.put(deployment("llama", 3))
    body = {"spec": {"replicas": 0}}
    assert (await refusal(apps.patch_namespaced_deployment("llama", "chat", body, dry_run="All")))["code"] == 400


async def test_the_date_header_tells_the_time_handed_in(version: Generated, clock: HandClock) -> None:
    clock.advance(3)
    _, _, headers = await version.get_code_with_http_info()
    assert headers["Date"] == "Fri, 15 Jan 2027 08:00:03 GMT"

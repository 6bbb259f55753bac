"""A first policy says what the cluster shows, loads, and marks what it guessed."""

from copy import deepcopy

import pytest

from rebalancer.survey.case import Case
from rebalancer.survey.first_policy.drafting import first_policy
from rebalancer.survey.first_policy.recent import Use
from rebalancer.survey.objects import Survey
from rebalancer.survey.traps.growth import fixed_number_of_nodes
from tests.survey.cluster import PRODUCT, Json, engine, pod, policy, text, the_model, the_pool
from tests.testbed.objects import deployment, gpu_node, hpa, node_pool, scaled_object

A100 = {PRODUCT: "NVIDIA-A100"}
L40S = {PRODUCT: "NVIDIA-L40S"}


def trigger(query: str, threshold: str, **more: str) -> Json:
    return {"type": "prometheus", "metadata": {"query": query, "threshold": threshold}, **more}


class TestPools:
    def test_nodes_of_one_product_are_a_pool_of_all_their_gpus(self) -> None:
        nodes = [gpu_node("a", 8, labels=A100), gpu_node("b", 4, labels=A100), gpu_node("c", 4, labels=L40S)]
        found = policy([*nodes, engine("chat", node_labels=A100)])
        assert {(pool.name, pool.gpu_limit) for pool in found.pools} == {("a100", 12), ("l40s", 4)}
        assert the_pool(found, "a100").node_labels == A100
        assert the_model(found).targets[0].pool == "a100"

    def test_nodes_that_workloads_tell_apart_are_two_pools_by_the_label_they_select(self) -> None:
        nodes = [gpu_node(name, 8, labels={**A100, "team": name}) for name in ("blue", "red")]
        models = [engine(name, node_labels={"team": name}) for name in ("blue", "red")]
        found = policy([*nodes, *models])
        assert [pool.node_labels for pool in found.pools] == [{"team": "blue"}, {"team": "red"}]
        assert [model.targets[0].pool for model in found.models] == ["blue", "red"]

    @pytest.mark.parametrize("common", ["kubernetes.io/os", "karpenter.sh/capacity-type"])
    def test_a_label_that_any_node_may_have_names_no_pool_alone(self, common: str) -> None:
        node = gpu_node("a", 8, labels=A100)
        chat = engine("chat", node_labels={common: node["metadata"]["labels"][common]})
        assert policy([node, chat]).pools[0].node_labels == A100

    def test_a_taint_that_only_some_tolerate_makes_a_pool_and_the_node_pool_names_it(self) -> None:
        tainted = gpu_node("b", 8, labels={**A100, "karpenter.sh/nodepool": "inner"})
        tainted["spec"]["taints"] = [{"key": "inner", "effect": "NoSchedule"}]
        inner = engine("inner")
        inner["spec"]["template"]["spec"]["tolerations"] = [{"key": "inner", "operator": "Exists"}]
        outer = gpu_node("a", 8, labels={**A100, "karpenter.sh/nodepool": "outer"})
        found = policy([outer, tainted, inner, engine("chat"), pod("inner", 1, "b")])
        assert {pool.name: pool.node_pools for pool in found.pools} == {"outer": ("outer",), "inner": ("inner",)}
        assert the_model(found, "inner").targets[0].pool == "inner"

    def test_spot_nodes_beside_unlabelled_ones_come_first_as_a_node_belongs_to_the_first_pool(self) -> None:
        nodes = [gpu_node("a", 8, labels=A100), gpu_node("b", 8, labels={**A100, "cloud.google.com/gke-spot": "true"})]
        for node in nodes:
            del node["metadata"]["labels"]["karpenter.sh/capacity-type"]
        found = policy([*nodes, engine("chat"), pod("chat", 1, "a")])
        assert [(pool.kind, pool.capacity_type) for pool in found.pools] == [
            ("elastic", "spot"),
            ("primary", "on-demand"),
        ]
        assert found.pools[0].node_labels == {**A100, "cloud.google.com/gke-spot": "true"}
        assert found.pools[1].node_labels == A100

    def test_a_spot_pool_where_a_model_lives_alone_is_primary_as_a_floor_needs_one(self) -> None:
        spot = gpu_node("a", 8, labels=A100, capacity_type="spot")
        found = policy([spot, engine("chat", 2), scaled_object("chat", "ml", 1, 4, [])])
        assert [(pool.kind, pool.capacity_type) for pool in found.pools] == [("primary", "spot")]
        assert the_model(found).min_replicas == 1

    def test_nodes_that_nothing_tells_apart_want_a_label_of_their_own_with_the_command(self) -> None:
        nodes = [gpu_node(name, 8) for name in ("a", "b")]
        nodes[1]["spec"]["taints"] = [{"key": "x", "effect": "NoSchedule"}]
        objects = [*nodes, engine("chat")]
        assert {tuple(pool.node_labels) for pool in policy(objects).pools} == {("rebalancer.io/pool",)}
        assert "kubectl label node a rebalancer.io/pool=" in text(objects)

    def test_a_node_pool_bounds_its_pool_and_one_without_a_limit_is_told(self) -> None:
        nodes = [gpu_node(name, 8, labels={**A100, "karpenter.sh/nodepool": name}) for name in ("bound", "free")]
        objects = [*nodes, node_pool("bound", gpu_limit=32), node_pool("free"), engine("chat")]
        (pool,) = policy(objects).pools
        assert (pool.node_pools, pool.gpu_limit, pool.gpus_per_node) == (("bound", "free"), 40, 8)
        assert "NodePool free has no limit: choose:" in " ".join(text(objects).replace("#", "").split())

    def test_a_node_pool_of_gpus_without_a_node_is_a_pool_too(self) -> None:
        spot = node_pool("spot", labels={"pool": "spot"}, capacity_types=["spot"], gpu_limit=16)
        objects = [gpu_node("a", 8, labels=A100), spot, node_pool("cpu"), engine("chat", node_labels=A100)]
        found = policy(objects)
        assert len(found.pools) == 2
        pool = the_pool(found, "spot")
        assert (pool.kind, pool.gpu_limit, pool.node_pools) == ("elastic", 16, ("spot",))

    @pytest.mark.parametrize("nodes", [0, 1, 2])
    def test_a_static_node_pool_is_not_named_and_its_pool_has_the_gpus_of_its_number_of_nodes(self, nodes: int) -> None:
        labels = {**A100, "karpenter.sh/nodepool": "static"}
        static = node_pool("static", labels=A100 | {"karpenter.k8s.aws/instance-gpu-count": "8"})
        static["spec"]["replicas"] = 2
        there = [gpu_node(f"n{number}", 8, labels=labels) for number in range(nodes)]
        objects = [*there, static, engine("chat", node_labels=A100)]
        found = policy(objects)
        assert [(pool.node_pools, pool.gpu_limit) for pool in found.pools] == [((), 16)]
        assert "NodePool static has as many nodes as its spec.replicas says" in text(objects)
        looked_at = Case(Survey(tuple(objects)), policy=found)
        assert not any(verdict.problem for verdict in fixed_number_of_nodes(looked_at))

    def test_nodes_of_a_static_node_pool_whose_gpus_nobody_tells_hold_its_largest_pod(self) -> None:
        static = node_pool("static", instance_types=["p5.48xlarge"])
        static["spec"]["replicas"] = 4
        objects = [static, engine("chat", gpus=8, node_labels={"karpenter.sh/nodepool": "static"})]
        (pool,) = policy(objects).pools
        assert pool.gpu_limit == 32
        assert "spec.replicas 4, of 8 GPUs: guess: no node tells" in " ".join(text(objects).replace("#", "").split())

    def test_where_nodes_can_come_a_model_without_an_autoscaler_may_have_what_its_pool_may(self) -> None:
        node = gpu_node("a", 8, labels={**A100, "karpenter.sh/nodepool": "grows"})
        found = policy([node, node_pool("grows", gpu_limit=32), engine("chat", gpus=2)])
        assert (the_pool(found, "grows").gpu_limit, the_model(found).max_replicas) == (32, 16)

    def test_a_node_cut_into_slices_belongs_to_the_resource_that_is_asked_for(self) -> None:
        cut = gpu_node("a", 0, labels=A100)
        cut["status"]["allocatable"] |= {"nvidia.com/mig-1g.10gb": "4", "nvidia.com/mig-3g.20gb": "1"}
        small = engine("chat")
        small["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] = {"nvidia.com/mig-3g.20gb": "1"}
        (pool,) = policy([cut, small]).pools
        assert (pool.resource, pool.gpu_limit) == ("nvidia.com/mig-3g.20gb", 1)
        assert "its nodes have nvidia.com/mig-1g.10gb too" in text([cut, small])

    def test_without_any_node_the_pool_is_what_workloads_select(self) -> None:
        objects = [engine("chat", 3, node_labels={"gpu": "h100"}, gpus=2)]
        (pool,) = policy(objects).pools
        assert (pool.node_labels, pool.gpu_limit) == ({"gpu": "h100"}, 6)
        assert "# choose: the GPUs there will be" in text(objects)


class TestModels:
    NODES = (gpu_node("a", 8, labels=A100), gpu_node("b", 8, labels=A100))

    def test_floor_and_maximum_are_those_of_the_scaled_object_or_the_hpa(self) -> None:
        objects = [*self.NODES, engine("chat", 3), engine("code", 3)]
        found = policy([*objects, scaled_object("chat", "ml", 2, 5, []), hpa("code", "ml", 1, 7)])
        for name, bounds in (("chat", (2, 5)), ("code", (1, 7))):
            model = the_model(found, name)
            assert ((model.min_replicas, model.max_replicas), model.entitlement) == (bounds, 3)

    def test_whom_a_model_is_charged_to_is_read_from_labels_those_of_its_pods_first(self) -> None:
        chat, code = engine("chat"), engine("code")
        chat["metadata"].setdefault("labels", {}).update({"example.com/Cost-Centre": "cc-1", "team": "old"})
        chat["spec"]["template"]["metadata"]["labels"] |= {"team": "search"}
        code["spec"]["template"]["metadata"]["labels"] |= {"cost_center": "cc-7"}
        found = policy([*self.NODES, chat, code, engine("image")])
        assert [(model.team, model.cost_center) for model in found.models] == [
            ("search", "cc-1"),
            ("", "cc-7"),
            ("", ""),
        ]
        assert "# its label team" in text([*self.NODES, chat])

    def test_keda_s_defaults_count_where_a_scaled_object_says_nothing(self) -> None:
        silent = scaled_object("chat", "ml", 0, 0, [])
        del silent["spec"]["minReplicaCount"], silent["spec"]["maxReplicaCount"]
        model = the_model(policy([*self.NODES, engine("chat", 2), silent]))
        assert (model.min_replicas, model.max_replicas) == (0, 100)

    def test_without_an_autoscaler_the_replicas_of_today_are_the_floor_as_a_guess(self) -> None:
        objects = [*self.NODES, engine("chat", 2, gpus=2)]
        model = the_model(policy(objects))
        assert (model.min_replicas, model.max_replicas, model.gpus_per_replica) == (2, 8, 2)
        assert (
            "minReplicas: 2                    # guess: the 2 replicas it has today; choose: what must serve"
            in text(objects)
        )

    def test_last_week_s_median_is_the_entitlement_where_prometheus_has_it(self) -> None:
        objects = [*self.NODES, engine("chat", 8), scaled_object("chat", "ml", 1, 8, [])]
        week = {"deployment/ml/chat": Use(median=2.4, most=7, hours=160)}
        assert the_model(policy(objects, week)).entitlement == 3
        assert the_model(policy(objects, {})).entitlement == 8
        assert "(Prometheus has none)" in text(objects, {})

    def test_entitlements_that_do_not_fit_together_shrink_and_floors_do_not(self) -> None:
        autoscalers = [scaled_object("chat", "ml", 2, 30, []), scaled_object("code", "ml", 4, 30, [])]
        objects = [*self.NODES, engine("chat", 20), engine("code", 10), *autoscalers]
        found = policy(objects)
        own = {model.id: model.entitlement for model in found.models}
        assert sum(own.values()) == 16
        assert own["chat"] >= 2
        assert own["code"] >= 4
        assert "20 do not fit its pool beside the others'" in " ".join(text(objects).replace("#", "").split())

    def test_floors_beyond_the_gpus_there_are_raise_the_limit_and_are_told(self) -> None:
        objects = [*self.NODES, engine("chat", 2), scaled_object("chat", "ml", 20, 30, [])]
        found = policy(objects)
        assert found.pools[0].gpu_limit == 20
        assert "today's minimums together; 16 is what was found" in text(objects)

    def test_a_start_is_the_median_from_placed_to_ready(self) -> None:
        objects = [*self.NODES, engine("chat", 2), pod("chat", 1, "a"), pod("chat", 2, "b")]
        assert the_model(policy(objects)).load_seconds == 120
        assert "#loadSeconds" in text([*self.NODES, engine("chat")])

    def test_a_pod_that_was_placed_at_no_time_tells_no_start(self) -> None:
        odd = pod("chat", 1, "a")
        odd["status"]["conditions"][0]["lastTransitionTime"] = "{placed}"
        assert "#loadSeconds" in text([*self.NODES, engine("chat"), odd])

    def test_the_names_in_its_arguments_are_aliases_unless_two_models_have_them(self) -> None:
        objects = [*self.NODES, engine("chat"), engine("code", served="both"), engine("edit", served="both")]
        found = policy(objects)
        assert [model.aliases for model in found.models] == [("chat-v1",), (), ()]
        assert "both is the name of several models here" in text(objects)

    def test_one_name_in_two_namespaces_makes_two_ids(self) -> None:
        found = policy([*self.NODES, engine("chat"), engine("chat", served="other", namespace="lab")])
        assert [(model.id, model.namespace) for model in found.models] == [("lab-chat", "lab"), ("ml-chat", "ml")]

    def test_two_deployments_with_the_same_arguments_on_two_pools_are_one_model_as_a_guess(self) -> None:
        nodes = [
            gpu_node("a", 8, labels={"pool": "od"}),
            gpu_node("s", 8, labels={"pool": "spot"}, capacity_type="spot"),
        ]
        both = [
            engine("chat", 2, served="chat", node_labels={"pool": "od"}),
            engine("chat-spot", 1, served="chat", node_labels={"pool": "spot"}),
        ]
        autoscalers = [scaled_object("chat", "ml", 2, 4, []), scaled_object("chat-spot", "ml", 0, 3, [])]
        found = policy([*nodes, *both, *autoscalers])
        (model,) = found.models
        assert [(target.pool, target.name) for target in model.targets] == [("od", "chat"), ("spot", "chat-spot")]
        assert (model.min_replicas, model.max_replicas, model.entitlement) == (2, 7, 2)
        assert the_pool(found, "spot").kind == "elastic"
        assert "are one model: the same image and arguments" in text([*nodes, *both])

    @pytest.mark.parametrize("apart", ["role", "arguments"])
    def test_prefill_and_decode_are_no_twins(self, apart: str) -> None:
        nodes = [gpu_node("a", 8, labels=A100), gpu_node("b", 8, labels=L40S)]
        both = [engine("prefill", served="m", node_labels=A100), engine("decode", served="m", node_labels=L40S)]
        for each in both:
            if apart == "role":
                each["spec"]["template"]["metadata"]["labels"]["llm-d.ai/role"] = each["metadata"]["name"]
            else:
                each["spec"]["template"]["spec"]["containers"][0]["args"].append(each["metadata"]["name"])
        assert len(policy([*nodes, *both]).models) == 2

    def test_a_workload_is_at_home_where_most_of_its_pods_stand(self) -> None:
        nodes = [gpu_node("a", 8, labels=A100), gpu_node("b", 8, labels=L40S)]
        objects = [*nodes, engine("chat", 3), pod("chat", 1, "a"), pod("chat", 2, "b"), pod("chat", 3, "b")]
        assert the_model(policy(objects)).targets[0].pool == "l40s"
        assert "2 pods of it stand there, 1 in a100: choose:" in " ".join(text(objects).replace("#", "").split())

    def test_a_namespace_that_is_asked_for_leaves_the_others_out(self) -> None:
        objects = [*self.NODES, engine("chat"), engine("code", namespace="lab")]
        draft = first_policy(Survey(tuple(objects)), None, ("lab",))
        assert [model.id.value for model in draft.models] == ["code"]


class TestSignals:
    @pytest.mark.parametrize(
        ("query", "threshold", "signal"),
        [
            ("sum(vllm:num_requests_waiting)", "5", {"queue": {"high": 5}}),
            ("sum(vllm:num_requests_running + vllm:num_requests_waiting)", "16", {"concurrency": {"perReplica": 16}}),
            ("avg(vllm:gpu_cache_usage_perc)", "0.8", {"kvCache": {"high": 0.8, "low": 0.4}}),
            ("avg(DCGM_FI_DEV_GPU_UTIL)", "80", {"utilisation": True}),
            ("histogram_quantile(0.95, vllm:time_to_first_token_seconds_bucket)", "1.5", {"latency": True}),
        ],
    )
    def test_a_trigger_that_measures_what_a_signal_does_becomes_it(
        self, query: str, threshold: str, signal: Json
    ) -> None:
        objects = [gpu_node("a", 8), engine("chat"), scaled_object("chat", "ml", 1, 4, [trigger(query, threshold)])]
        model = the_model(policy(objects))
        found = model.signals.model_dump(by_alias=True, exclude_defaults=True)
        assert signal.items() <= found.items()
        assert "concurrency" in found, "what a replica carries is always learnt"
        assert (model.slo is not None and model.slo.latency_seconds == 1.5) == ("latency" in signal)

    @pytest.mark.parametrize("threshold", ["0.9", "0.001", "0.0005"])
    def test_the_low_watermark_is_half_of_the_high_one_however_low_that_is(self, threshold: str) -> None:
        scaled = scaled_object("chat", "ml", 1, 4, [trigger("avg(vllm:kv_cache_usage_perc)", threshold)])
        cache = the_model(policy([gpu_node("a", 8, labels=A100), engine("chat"), scaled])).signals.kv_cache
        assert cache is not None
        assert (cache.high, cache.low) == (float(threshold), float(threshold) / 2)

    def test_a_total_says_nothing_about_one_replica(self) -> None:
        total = trigger("sum(vllm:num_requests_running)", "100", metricType="Value")
        objects = [gpu_node("a", 8), engine("chat"), scaled_object("chat", "ml", 1, 4, [total])]
        concurrency = the_model(policy(objects)).signals.concurrency
        assert concurrency is not None
        assert concurrency.per_replica is None

    def test_work_in_a_broker_s_queue_is_batch_as_a_guess(self) -> None:
        lag = {"type": "kafka", "metadata": {"topic": "jobs", "lagThreshold": "5"}}
        objects = [gpu_node("a", 8), engine("chat"), scaled_object("chat", "ml", 0, 4, [lag])]
        assert the_model(policy(objects)).workload_class == "batch"

    def test_a_trigger_that_no_signal_is_like_and_a_second_autoscaler_are_told(self) -> None:
        cron = {"type": "cron", "metadata": {}}
        objects = [gpu_node("a", 8), engine("chat"), scaled_object("chat", "ml", 1, 4, [cron, trigger("up", "1")])]
        said = " ".join(text([*objects, hpa("chat", "ml", 1, 9)]).replace("#", "").split())
        assert "trigger 0 (cron) of scaledobject/ml/chat is a calendar: write it as `schedules`" in said
        assert "no signal measures what trigger 1 (prometheus) of scaledobject/ml/chat does" in said
        assert "scaledobject/ml/chat and horizontalpodautoscaler/ml/chat both scale it and fight" in said


class TestLeftOut:
    NODE = gpu_node("a", 8)

    def _left_out(self, *objects: Json) -> str:
        return "\n".join(first_policy(Survey((self.NODE, engine("chat"), *objects))).left_out)

    def test_pods_of_a_job_are_told_with_their_gpus(self) -> None:
        job = pod("train", 1, "a", gpus=4, kind="Job")
        assert "job/ml/train: 1 pod with 4 GPUs now; a Job runs to its end" in self._left_out(job)
        job["status"]["phase"] = "Succeeded"
        assert "train" not in self._left_out(job), "it holds nothing any more"

    def test_pods_and_autoscalers_of_a_rollout_are_told_as_what_the_policy_takes_by_hand(self) -> None:
        scaled = scaled_object("chat", "ml", 1, 4, [])
        scaled["spec"]["scaleTargetRef"] = {"kind": "Rollout", "name": "ro"}
        of_rollout = pod("ro", 1, "a")
        of_rollout["metadata"]["labels"] = {"rollouts-pod-template-hash": "abcde"}
        told = "\n".join(first_policy(Survey((self.NODE, engine("code"), of_rollout, scaled))).left_out)
        assert (
            "rollout/ml/ro: 1 pod with 1 GPU now; kind Rollout is not read: write it as a target of that kind" in told
        )
        assert "its target rollout/ml/ro is of a kind that is not read" in told
        assert "was not found" not in told

    def test_a_replica_set_of_its_own_is_told_as_what_the_policy_takes_by_hand(self) -> None:
        alone = engine("chat") | {"kind": "ReplicaSet"}
        (told,) = [line for line in self._left_out(alone).splitlines() if line.startswith("replicaset/ml/chat")]
        assert told.endswith("kind ReplicaSet is not read: write it as a target of that kind")

    def test_a_target_of_a_kind_that_could_not_be_read_is_not_called_missing(self) -> None:
        scaled = scaled_object("chat", "ml", 1, 4, [])
        for read, why in ((set(), "is of a kind that could not be read"), ({("apps", "Deployment")}, "was not found")):
            survey = Survey((self.NODE, scaled), listed=frozenset({("", "Node"), ("keda.sh", "ScaledObject"), *read}))
            assert f"its target deployment/ml/chat {why}" in "\n".join(first_policy(survey).left_out)

    def test_a_group_of_pods_is_a_replica_or_told_why_it_is_not(self) -> None:
        """The policy's schema decides which kinds it takes; pods that differ it never takes."""
        group = {"size": 2, "workerTemplate": engine("x", gpus=8)["spec"]["template"]}
        lws = {
            "apiVersion": "leaderworkerset.x-k8s.io/v1",
            "kind": "LeaderWorkerSet",
            "metadata": {"name": "big", "namespace": "ml"},
            "spec": {"replicas": 1, "leaderWorkerTemplate": group},
        }
        nodes = [gpu_node(name, 8) for name in "ab"]
        big = [
            (model.gpus_per_replica, model.pods_per_replica) for model in policy([*nodes, engine("chat"), lws]).models
        ]
        refused = "leaderworkerset/ml/big: the policy refuses it as a target: kind" in self._left_out(lws)
        assert ((16, 2) in big) != refused
        group["leaderTemplate"] = engine("x", gpus=4)["spec"]["template"]
        assert "leaderworkerset/ml/big: its leader asks for other GPUs than its workers" in self._left_out(lws)

    def test_claims_templates_of_operators_and_targets_that_are_not_there_are_told(self) -> None:
        claims = deployment("dra", "ml")
        claims["spec"]["template"]["spec"] = {"resourceClaims": [{"name": "gpu"}], "containers": [{}]}
        limits = {"limits": {"nvidia.com/gpu": 1}}
        service = {
            "apiVersion": "ray.io/v1",
            "kind": "RayService",
            "metadata": {"name": "r"},
            "spec": {"deep": [limits]},
        }
        said = self._left_out(claims, service, scaled_object("gone", "ml", 1, 2, []))
        assert "deployment/ml/dra: asks for devices by resourceClaims" in said
        assert "rayservice/r: asks for nvidia.com/gpu; kind RayService is not read" in said
        assert "scaledobject/ml/gone: its target deployment/ml/gone was not found" in said

    def test_what_no_node_can_run_is_told_and_takes_no_other_pool_s_nodes(self) -> None:
        node = gpu_node("a", 8, labels=A100)
        node["spec"]["taints"] = [{"key": "mine", "effect": "NoSchedule"}]
        tolerant = deepcopy(engine("chat"))
        tolerant["spec"]["template"]["spec"]["tolerations"] = [{"operator": "Exists"}]
        objects = [node, tolerant, engine("code", node_labels=A100)]
        assert [pool.name for pool in policy(objects).pools] == ["a100"]
        assert "deployment/ml/code: no node can run it: those of pool a100" in text(objects)

    def test_deployments_without_gpus_are_counted(self) -> None:
        plain = deployment("web", "ml")
        del plain["spec"]["template"]["spec"]["containers"][0]["resources"]
        assert "1 Deployments, StatefulSets or LeaderWorkerSets that ask for no GPU" in self._left_out(plain)

    def test_an_object_that_cannot_be_understood_costs_no_other(self) -> None:
        broken = engine("broken")
        broken["spec"]["replicas"] = "many"
        draft = first_policy(Survey((self.NODE, engine("chat"), broken, {"apiVersion": "v1", "kind": "Pod"})))
        assert [model.id.value for model in draft.models] == ["chat"]
        assert "deployment/ml/broken" in draft.unread[0] + draft.unread[1]
        assert len(draft.unread) == 2

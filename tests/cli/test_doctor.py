"""What the doctor finds, and what to do about it."""

import json
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from msgspec.structs import replace

from rebalancer.api.text.checks import of_snapshot, of_status
from rebalancer.cli.commands.doctor.table import rendered
from rebalancer.domain.pinned import Pinned
from rebalancer.domain.placement import Placement
from rebalancer.domain.plan import Refusal
from rebalancer.domain.readings import ModelLoad
from rebalancer.domain.snapshot import Snapshot
from rebalancer.domain.sync import Sync
from rebalancer.sandbox.api.resources import NODEPOOLS
from rebalancer.sandbox.api.server import EmbeddedKubernetes
from rebalancer.survey.finding import FAIL, OK, SKIP, WARN, Finding
from tests.builders import NOW, a_model_view, a_target, an_autoscaler
from tests.cli.night import Night
from tests.cli.running import rebalancer
from tests.cli.scene import SNAPSHOT, STATUS
from tests.house.repository import ROOT
from tests.settings.a_policy_text import GOOD, spoilt
from tests.survey.manifests import (
    Manifest,
    a_deployment,
    a_manifest,
    a_node_pool,
    a_running_pod,
    a_scaled_object,
    a_trigger,
)

Captured = pytest.CaptureFixture[str]


def test_gpus_that_differ_are_a_failure_with_both_numbers() -> None:
    plan = STATUS.plan
    assert plan is not None
    why = "deployment chat in pool a100: 1 GPU per pod in the policy, 2 in the template of chat"
    refusals = (Refusal("gpus", "chat", 4, 6, why), Refusal("step", "code", 4, 3, "1 of at most 1 lost"))
    before, after = (list(of_status(replace(STATUS, plan=replace(plan, refusals=each)))) for each in ((), refusals))
    (finding,) = [each for each in after if each not in before]
    assert (finding.state, finding.about, finding.said) == (FAIL, "model/chat", why)


def test_a_target_that_sleeps_is_a_warning() -> None:
    hpa = an_autoscaler(1, 6, kind="HorizontalPodAutoscaler")
    view = a_model_view("b", a_target("b", 0, autoscaler=hpa))
    (_, finding) = of_snapshot(Snapshot(cycle=1, at=NOW, models=(view,)))
    assert (finding.state, finding.about) == (WARN, "model/b")
    assert finding.said == "HorizontalPodAutoscaler b is disabled while b has 0 replicas; scale it to 1 by hand"


def test_rules_that_only_the_scheduler_can_judge_are_named() -> None:
    near = Placement(unseen=("must stand near pods with app=cache (zone)",))
    views = a_model_view("b", replace(a_target("b", 2), placement=near)), a_model_view("c", a_target("c", 2))
    (finding,) = [each for each in of_snapshot(Snapshot(cycle=1, at=NOW, models=views)) if each.state == WARN]
    assert finding.about == "model/b"
    assert "left to the scheduler: b must stand near pods with app=cache (zone)" in finding.said


def test_late_samples_are_a_warning_with_the_most_that_they_cost() -> None:
    views = a_model_view("b", a_target("b", 2), load_seconds=60.0), a_model_view("c", a_target("c", 2))
    loads = ModelLoad("b", lag_seconds=62.4), ModelLoad("c", lag_seconds=180.0), ModelLoad("d", lag_seconds=9.9)
    found = of_snapshot(Snapshot(cycle=1, at=NOW, models=views, loads=loads))
    late = [each for each in found if "late" in each.said]
    assert [(each.state, each.about) for each in late] == [(WARN, "model/b"), (WARN, "model/c")]
    assert late[0].said == (
        "its samples come 1m2s late: surges are answered so much later, which costs no more than if a start took 2m2s, "
        "not 1m0s"
    )
    assert late[1].said == (
        "its samples come 3m0s late: surges are answered so much later; beyond 3m0s no sample has a vote"
    )


def test_requests_on_pods_that_lead_no_group_are_a_warning() -> None:
    loads = ModelLoad("b", unheard_requests=60.0), ModelLoad("c")
    found = [each for each in of_snapshot(Snapshot(cycle=1, at=NOW, loads=loads)) if each.about.startswith("model/")]
    assert [(each.state, each.about) for each in found] == [(WARN, "model/b")]
    assert found[0].said == "60 requests run or wait on pods that lead no group, and count nowhere"


def test_findings_are_printed_as_drawn() -> None:
    def trapped(state: str, trap: str, said: str, fix: str, about: str = "scaledobject/serving/sdxl") -> Finding:
        return Finding(state, about, said, fix, trap, f"docs/reference/traps.md#{trap}", "k8s/sdxl.yaml")

    found = (
        Finding(WARN, "writes", "shadow: nothing is written", "writeMode: act, when trusted"),
        trapped(WARN, "unpinned", "no nodeSelector", "spec.a.nodeSelector", "leaderworkerset/serving/big"),
        trapped(WARN, "unpinned", "no nodeSelector", "spec.b.nodeSelector", "leaderworkerset/serving/big"),
        trapped(WARN, "paused", "nobody scales it", "kubectl annotate"),
        trapped(FAIL, "average-value", "trigger 0 divides an average", "metricType: Value"),
        Finding(OK, "scaledobject/serving/chat", "", "", "paused"),
        Finding(SKIP, "kind/Service", "no trap is known for them"),
        Finding(SKIP, "kind/Secret", "no trap is known for them"),
    )
    assert rendered(found).splitlines() == [
        "FAIL scaledobject/serving/sdxl in k8s/sdxl.yaml",
        "     FAIL average-value: trigger 0 divides an average",
        "          fix: metricType: Value",
        "     warn paused: nobody scales it",
        "          fix: kubectl annotate",
        "warn writes shadow: nothing is written",
        "     fix: writeMode: act, when trusted",
        "warn leaderworkerset/serving/big in k8s/sdxl.yaml",
        "     warn unpinned: no nodeSelector",
        "          fix: spec.a.nodeSelector",
        "          fix: spec.b.nodeSelector",
        "what each trap is: docs/reference/traps.md",
        "not looked at: Service, Secret: no trap is known for them",
        "6 checks: 1 ok, 4 warnings, 1 failed",
    ]


def test_what_others_wrote_cannot_move_the_cursor_or_add_a_line() -> None:
    escape = "a\x1b[2Jb\nFAIL c"
    trapped = Finding(WARN, escape, escape, escape, "paused", "docs/reference/traps.md#paused", escape)
    found = (trapped, Finding(FAIL, escape, escape, escape), Finding(OK, escape, escape), Finding(SKIP, escape, escape))
    out = rendered(found)
    assert "\x1b" not in out
    assert len(out.splitlines()) == 9
    assert [line for line in out.splitlines() if line.startswith("FAIL c")] == []


async def test_all_is_well_on_the_drawn_night_and_what_is_not_fails(
    people: None, night: Night, capsys: Captured
) -> None:
    assert await rebalancer("doctor") == 0
    assert "0 failed" in capsys.readouterr().out
    night.now = replace(STATUS, sync=Sync(missing=("scaledobjects",)), policy_problems=("policy.yaml:3: no pools",))
    assert await rebalancer("doctor") == 1
    out = capsys.readouterr().out
    assert "FAIL service not read yet: scaledobjects" in out
    assert "FAIL policy policy.yaml:3: no pools" in out
    assert "the rest of it is in force" not in out
    night.now = replace(STATUS, policy_problems=("policy.yaml:3: bad",), policy_refused=("models.new is left out",))
    assert await rebalancer("doctor") == 1
    assert "FAIL policy the rest of it is in force: models.new is left out" in capsys.readouterr().out


async def test_what_stays_pinned_is_a_warning_with_the_command_that_ends_it(
    people: None, night: Night, capsys: Captured
) -> None:
    pinned = Pinned("ScaledObject", "serving", "chat", "uid", "rebalancer/rebalancer", "held")
    night.now = replace(STATUS, write_mode="shadow", pinned=(pinned,))
    assert await rebalancer("doctor") == 0
    lines = capsys.readouterr().out.splitlines()
    said = lines.index(
        "warn pinned bounds or limits of ours are still on 1 object (scaledobject/serving/chat): KEDA cannot move past "
        "them"
    )
    assert lines[said + 1] == "     fix: run rebalancer hand-back"


async def test_a_service_that_is_away_is_a_finding_among_others(people: None, capsys: Captured) -> None:
    assert await rebalancer("doctor", "--server", "http://127.0.0.1:1") == 1
    out = capsys.readouterr().out
    assert out.startswith("FAIL api no answer")
    assert "1 failed" in out


async def test_crds_and_rights_that_lack_are_found(
    people: None, kubernetes: EmbeddedKubernetes, capsys: Captured
) -> None:
    kubernetes.faults.fail_next(1, 404, method="GET", path_part="/apis/rebalancer.io/v1alpha1")
    kubernetes.faults.fail_next(1, 403, method="POST", path_part="/selfsubjectaccessreviews")
    assert await rebalancer("doctor") == 1
    out = capsys.readouterr().out
    assert "FAIL crd/overrides.rebalancer.io not installed" in out
    assert "writestops.rebalancer.io not installed" not in out
    assert "warn you/create overrides unknown" in out


async def test_that_a_person_may_not_list_a_kind_does_not_say_that_it_is_installed(
    people: None, kubernetes: EmbeddedKubernetes, capsys: Captured
) -> None:
    kubernetes.faults.fail_next(9, 403, method="GET", path_part="/overrides")
    kubernetes.faults.fail_next(1, 404, method="GET", path_part="/apis/rebalancer.io/v1alpha1")
    assert await rebalancer("doctor") == 1
    assert "FAIL crd/overrides.rebalancer.io not installed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("namespaces", "said"),
    [({None}, ""), ({"serving"}, ""), (set(), "not in serving"), ({"elsewhere"}, "not in serving")],
)
async def test_a_right_in_the_namespaces_of_the_models_is_enough_to_make_overrides(
    people: None, kubernetes: EmbeddedKubernetes, namespaces: set[str | None], said: str, capsys: Captured
) -> None:
    kubernetes.allow = lambda _user, wanted: not {None, wanted.get("namespace")}.isdisjoint(namespaces)
    await rebalancer("doctor", "-o", "json")
    (told,) = [each for each in json.loads(capsys.readouterr().out) if each["about"] == "you/create overrides"]
    assert told["said"] == said


async def test_only_pools_of_the_policy_are_examined(
    people: None, kubernetes: EmbeddedKubernetes, capsys: Captured
) -> None:
    plain = {"metadata": {"name": "spot"}, "spec": {"disruption": {"consolidateAfter": "30s"}}}
    kubernetes.store.put({"apiVersion": NODEPOOLS.api_version, "kind": NODEPOOLS.kind, **plain})
    assert await rebalancer("doctor") == 0
    assert "nodepool/spot" not in capsys.readouterr().out


async def test_traps_of_a_live_cluster_are_found_by_what_the_person_may_list(
    people: None, kubernetes: EmbeddedKubernetes, capsys: Captured
) -> None:
    for each in (a_deployment(), a_scaled_object(a_trigger(query="avg(x)"))):
        kubernetes.store.put(each)
    kubernetes.faults.fail_next(1, 403, method="GET", path_part="/poddisruptionbudgets")
    kubernetes.faults.fail_next(99, 500, method="GET", path_part="/inferenceservices")
    assert await rebalancer("doctor") == 1
    out = capsys.readouterr().out
    assert "FAIL scaledobject/serving/b\n     FAIL average-value: trigger 0" in out
    assert "not looked at: poddisruptionbudgets.policy: you may not list them" in out
    assert "not looked at: inferenceservices.serving.kserve.io: cannot be read now: list /apis/serving.kserve.io" in out
    assert "rayservices.ray.io" in out
    assert "not installed in this cluster" in out


async def test_what_was_found_before_the_api_server_fails_is_told_too(
    people: None, kubernetes: EmbeddedKubernetes, capsys: Captured
) -> None:
    kubernetes.faults.fail_next(99, 500, method="GET", path_part="/api/v1/nodes")
    assert await rebalancer("doctor", "-o", "json") == 1
    states = {each["about"]: each["state"] for each in json.loads(capsys.readouterr().out)}
    assert (states["crd/overrides.rebalancer.io"], states["cluster"]) == (OK, FAIL)


async def test_the_service_says_how_long_a_start_takes(
    people: None, kubernetes: EmbeddedKubernetes, capsys: Captured
) -> None:
    start = max(model.load_seconds or 0.0 for model in SNAPSHOT.models)
    kubernetes.store.put(a_node_pool(consolidateAfter="60s"))
    assert await rebalancer("doctor") == 0
    assert (
        f"consolidateAfter 60s < load time {int(start // 60)}m{int(start % 60)}s (measured)" in capsys.readouterr().out
    )


def in_files(folder: Path, *objects: Manifest) -> str:
    for number, each in enumerate(objects):
        (folder / f"{number}.json").write_text(json.dumps(each))
    return str(folder)


async def test_a_folder_is_judged_without_a_cluster_and_fails_by_its_exit_code(
    tmp_path: Path, capsys: Captured
) -> None:
    (tmp_path / "k8s").mkdir()
    folder = in_files(tmp_path / "k8s", a_deployment(pod={"nodeSelector": {}}))
    assert await rebalancer("doctor", "--manifests", folder) == 0, "a warning is no failure"
    assert f"warn deployment/serving/b in {folder}/0.json" in capsys.readouterr().out
    (tmp_path / "k8s" / "broken.yaml").write_text("kind: {Node\n")
    in_files(tmp_path / "k8s", a_scaled_object(a_trigger(query="avg(x)")))
    assert await rebalancer("doctor", "--manifests", folder, "-o", "json") == 1
    found = json.loads(capsys.readouterr().out)
    assert {tuple(each) for each in found} == {("state", "about", "said", "fix", "trap", "docs", "file")}
    (failed,) = [each for each in found if each["state"] == "FAIL"]
    assert failed == {
        "state": "FAIL",
        "about": "scaledobject/serving/b",
        "said": "trigger 0 divides avg() by the replicas: metricType AverageValue",
        "fix": "spec.triggers[0].metricType: Value",
        "trap": "average-value",
        "docs": "docs/reference/traps.md#average-value",
        "file": f"{folder}/0.json",
    }
    assert [each["about"] for each in found if each["said"].startswith("not read")] == [f"{folder}/broken.yaml"]


async def test_a_policy_beside_the_folder_is_compared(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "k8s").mkdir()
    policy = Path("config/policy.yaml")
    folder = in_files(tmp_path / "k8s", a_deployment())
    assert await rebalancer("doctor", "--manifests", folder, "--policy", str(ROOT / policy)) == 0
    assert "absent-target: the policy names it for" in capsys.readouterr().out
    (tmp_path / "policy.yaml").write_text("kind: Policy\n")
    assert await rebalancer("doctor", "--manifests", folder, "--policy", str(tmp_path / "policy.yaml")) == 1
    assert "rebalancer config check" in capsys.readouterr().err
    assert await rebalancer("doctor", "--manifests", str(tmp_path / "gone")) == 2
    assert "there is no such file or folder" in capsys.readouterr().err


async def test_files_that_are_for_no_cluster_are_not_judged_as_objects(tmp_path: Path, capsys: Captured) -> None:
    folder = in_files(tmp_path, a_deployment())
    (tmp_path / "kustomization.yaml").write_text("apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n")
    (tmp_path / "policy.yaml").write_text(GOOD)
    assert await rebalancer("doctor", "--manifests", folder) == 0
    assert "not looked at: Kustomization, Policy: no GPUs in them" in capsys.readouterr().out
    (tmp_path / "nameless.yaml").write_text("apiVersion: v1\nkind: Service\nmetadata: {labels: {app: b}}\n")
    assert await rebalancer("doctor", "--manifests", folder) == 1


async def test_targets_are_looked_for_among_their_own_kinds_and_not_called_absent_where_these_cannot_be_read(
    people: None, kubernetes: EmbeddedKubernetes, tmp_path: Path, capsys: Captured
) -> None:
    kubernetes.store.put(a_manifest("apps/v1", "ReplicaSet", "here", a_deployment()["spec"], namespace="media"))
    file = tmp_path / "policy.yaml"
    for target, absent in (
        ("here, kind: ReplicaSet", []),
        ("gone, kind: ReplicaSet", ["replicaset/media/gone"]),
        ("gone, kind: Rollout", ["rollout/media/gone"]),  # a kind that the cluster does not have
        ("gone, kind: Job, apiVersion: batch/v1", []),  # which serves no scale
    ):
        file.write_text(spoilt(("name: sdxl}", f"name: {target}}}")))
        await rebalancer("doctor", "--policy", str(file), "-o", "json")
        found = [each for each in json.loads(capsys.readouterr().out) if each["trap"] == "absent-target"]
        assert [each["about"] for each in found if each["said"] and "deployment" not in each["about"]] == absent


def a_prometheus(series: dict[str, dict[str, str]], asked: list[str]) -> web.Application:
    """One that has these metrics, each with one series of these labels."""

    async def names(_: web.Request) -> web.Response:
        return web.json_response({"status": "success", "data": [*series, "up"]})

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.query["query"])
        metrics = [{"__name__": name} | labels for name, labels in series.items()]
        result = [{"metric": each, "value": [0, "1"]} for each in metrics]
        return web.json_response({"status": "success", "data": {"resultType": "vector", "result": result}})

    prometheus = web.Application()
    prometheus.router.add_get("/api/v1/label/__name__/values", names)
    prometheus.router.add_get("/api/v1/query", answer)
    return prometheus


async def test_prometheus_is_asked_what_it_tells_of_the_pods_that_run(
    people: None, kubernetes: EmbeddedKubernetes, capsys: Captured
) -> None:
    asked: list[str] = []
    exporter = {"namespace": "monitoring", "pod": "dcgm-x1"}
    kubernetes.store.put(a_deployment())
    kubernetes.store.put(a_running_pod())
    async with TestServer(a_prometheus({"DCGM_FI_DEV_FB_USED": exporter, "gpu_usage": {}}, asked)) as server:
        assert await rebalancer("doctor", "--prometheus", f"http://127.0.0.1:{server.port}") == 0
    out = capsys.readouterr().out
    assert "exported_pod" in asked[0]
    assert "k8s_pod_name" in asked[0]
    assert "sglang" not in asked[0]
    assert "warn series/DCGM_FI_DEV_FB_USED" in out
    assert "1 pod with GPUs runs, and no series of dcgm names one of them; they name monitoring/dcgm-x1" in out
    assert "warn series/gpu_usage" in out
    assert "no series that a map knows names one of its 1 pod: nothing is read of it" in out
    assert "series in Prometheus" not in out


async def test_what_is_read_of_a_model_and_what_each_missing_reading_costs_is_told(
    people: None, kubernetes: EmbeddedKubernetes, capsys: Captured
) -> None:
    kubernetes.store.put(a_deployment())
    kubernetes.store.put(pod := a_running_pod())
    named = {"namespace": pod["metadata"]["namespace"], "pod": pod["metadata"]["name"]}
    has = {"sglang:num_running_reqs": named, "sglang:num_queue_reqs": named, "DCGM_FI_DEV_GPU_UTIL": named}
    async with TestServer(a_prometheus(has, [])) as server:
        url = f"http://127.0.0.1:{server.port}"
        assert await rebalancer("doctor", "--prometheus", url) == 0
        out = capsys.readouterr().out
        assert await rebalancer("doctor", "--prometheus", url, "-o", "json") == 0
    about = "deployment/serving/b"
    assert f"ok   {about} read by sglang and dcgm: running, waiting, gpuUtilisation" in out
    assert f"ok   {about} no arrivals counter: demand is taken from requests in flight" in out
    assert "no count of requests running" not in out
    findings = [each for each in json.loads(capsys.readouterr().out) if each["about"] == about and each["said"]]
    assert {each["docs"] for each in findings if not each["trap"]} == {"docs/metrics.md"}
    assert "metrics.maps of the policy, where another metric has requestsFinished" in {each["fix"] for each in findings}


async def test_a_prometheus_that_cannot_be_asked_ends_the_command(people: None, capsys: Captured) -> None:
    assert await rebalancer("doctor", "--prometheus", "ftp://x") == 2
    assert await rebalancer("doctor", "--prometheus", "http://127.0.0.1:1") == 4
    assert "leave it out to look at objects alone" in capsys.readouterr().err

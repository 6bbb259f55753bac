"""What public projects ship gets a documented result from the doctor: no exception, no silence."""

from pathlib import Path

import pytest

from rebalancer.cli.commands.doctor.traps import in_folder
from rebalancer.survey.finding import FAIL, SKIP, WARN
from tests.beside import folder

UNREAD = "unread"  # no object in it: an excerpt without a kind, or a chart's own test

EXPECTED = {  # file -> the traps that it is in; a file that is not here need only get a result
    "cron-trigger.yaml": "",
    "dynamo-dgdsa-ttft.yaml": "average-value dead-activation dead-field dead-timing vanished-is-zero",
    "external-push-spec.yaml": "unsaid-minimum",
    "external-push-trigger.yaml": "unsaid-minimum",
    "kafka-lag.yaml": "unsaid-minimum",
    "keda-e2e-fallback-current-replicas-if-higher.yaml": "",
    "keda-e2e-fallback-static.yaml": "",  # it holds the maximum
    "keda-e2e-idle-replicas.yaml": "",
    "keda-e2e-object-paused-later-by-annotation.yaml": "",
    "keda-repo-sample.yaml": "",
    "llm-d-wva-external-desired-replicas.yaml": "bare-series unsaid-minimum vanished-is-zero",
    "paused-annotations-excerpt.yaml": UNREAD,
    "production-stack-chart-keda-tests.yaml": UNREAD,
    "production-stack-tutorial-vllm-queue.yaml": "bare-series dead-field dead-timing vanished-is-zero",
    "prometheus-trigger.yaml": "unsaid-minimum vanished-is-zero",
    "restore-to-original-replica-count.yaml": "dead-timing",
    "scaling-modifiers-formula.yaml": "unsaid-minimum",
    "spec-all-fields-placeholders.yaml": "paused pinning-fallback unfilled",
    "aibrix-heterogeneous-l20-deployment.yaml": "",  # bound by nodeAffinity
    "aibrix-podautoscaler-kpa.yaml": "parent",
    "aibrix-quickstart-deployment.yaml": "unpinned",
    "aibrix-stormservice-vllm-1p1d.yaml": "unpinned",
    "dynamo-operator-golden-dgd-components-input.yaml": "parent",
    "dynamo-operator-golden-dgd-components-output.yaml": "",
    "dynamo-vllm-agg.yaml": "parent unpinned",
    "dynamo-vllm-disagg-multinode.yaml": "parent unpinned",
    "dynamo-vllm-disagg-planner.yaml": "parent unpinned",
    "fma-inject-launcher-replicaset.yaml": "",
    "fma-requester-replicaset.yaml": "",
    "gaie-vllm-gpu-deployment-three-replicas.yaml": "unpinned",
    "kserve-isvc-huggingface-fluid.yaml": "parent",
    "kserve-llmisvc-managed-dra.yaml": "parent",
    "kserve-llmisvc-pd-qwen2-7b.yaml": "parent unpinned",
    "kserve-llmisvc-single-node-qwen2-7b.yaml": "parent unpinned",
    "llm-d-modelservice-rendered-dra-claims.yaml": "claims unpinned",
    "llm-d-modelservice-rendered-gaudi.yaml": "unpinned",
    "llm-d-modelservice-rendered-heterogeneous-pd.yaml": "claims unpinned",
    "llm-d-modelservice-rendered-pd.yaml": "unpinned",
    "llm-d-wva-hpa-on-desired-replicas.yaml": "",
    "llm-d-wva-variantautoscaling-with-cost.yaml": "",
    "lws-hpa-horizontal-pod-autoscaler.yaml": "",
    "lws-vllm-multinode-16gpu.yaml": "unpinned",
    "nim-deploy-kserve-llama3-70b-4xgpu.yaml": "parent",
    "nim-operator-nimservice-autoscaling.yaml": "parent",
    "production-stack-disaggregated-prefill-decode-deployment.yaml": "",  # it asks for no GPU
    "production-stack-helm-test-expectations.yaml": UNREAD,
    "production-stack-hpa-on-custom-metric.yaml": "",
    "ray-service-high-throughput-llm.yaml": "parent",
    "ray-service-llm-serve.yaml": "parent unpinned",
}


@pytest.mark.parametrize("kind", ["scaledobjects", "workloads"])
def test_every_file_has_its_documented_result(kind: str) -> None:
    told = {file.name: outcome(file) for file in sorted((folder("artefacts", "REBALANCER_ARTEFACTS") / kind).iterdir())}
    for name, (traps, judged) in told.items():
        print(f"{kind}/{name}: {traps or 'in no trap'}; {judged} checks and kinds named")  # noqa: T201  the outcome, for who asks with -s
        assert traps or judged, f"{name} was passed over in silence"
    assert {name: traps for name, (traps, _) in told.items() if name in EXPECTED} == {
        name: EXPECTED[name] for name in told if name in EXPECTED
    }


def test_a_whole_folder_is_judged_at_once_and_spoils_no_file() -> None:
    artefacts = folder("artefacts", "REBALANCER_ARTEFACTS")
    findings = in_folder(artefacts / "workloads", None)
    named = {Path(each.file).name for each in findings if each.file}
    unread = {Path(each.about).name for each in findings if each.said.startswith("not read")}
    skipped = {"llm-d-wva-variantautoscaling-with-cost.yaml", "fma-requester-replicaset.yaml"}
    files = {file.name for file in (artefacts / "workloads").iterdir()}
    assert unread == {name for name in files if EXPECTED.get(name) == UNREAD}
    assert {name for name in files if EXPECTED.get(name)} <= named | unread
    assert not skipped & named, "these have kinds that are named instead"


def outcome(file: Path) -> tuple[str, int]:
    """The traps that a file is in, and how many checks it passed or kinds were named as not looked at."""
    findings = in_folder(file, None)
    traps = {each.trap or UNREAD for each in findings if each.state in {WARN, FAIL}}
    passed = sum(each.state not in {WARN, FAIL} for each in findings)
    series = sum(each.state == SKIP and each.about.startswith("series") for each in findings)
    return " ".join(sorted(traps)), passed - series

"""Every file of `../shared/artefacts/nodes` does what its SOURCES.md says, and the table is printed.

Files as their projects ship them. Where a file has labels alone, or its page is cut, the test adds what a Node must
have besides (name, Ready, allocatable by the labels' own counts); where a claim is asked for and not yet given, the
test allocates it as the comments of `dra-extended-resource-gpu-full.yaml` show. Read the table with `pytest -s`.
"""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from rebalancer.domain.arithmetic import unknown_gpus
from rebalancer.domain.cluster import Node, NodeCondition, Pod
from rebalancer.domain.devices import ClaimTemplate, DeviceClass
from rebalancer.domain.gpu_shapes import Isolation, Offer, offer
from rebalancer.state import ClusterState
from tests.beside import folder
from tests.builders import NOW, a_model, a_policy, a_pool
from tests.ingest.devices import CLASS, a_claim, a_device, a_device_class, a_slice, read, with_devices
from tests.state.objects import GPU, a_cluster_node, a_ready_pod, a_state

SHARED = "nvidia.com/gpu.shared"
EVERYWHERE = {"pool": "a100"}


class Row:
    """What SOURCES.md says of a file, in some words of it; how the file is read; and what has to come out."""

    def __init__(self, stated: str, reads: Callable[[str], str], *said: str) -> None:
        self.stated, self.reads, self.said = stated, reads, said


def manifests(text: str) -> list[dict[str, Any]]:
    return [one for one in yaml.safe_load_all(text) if one]


def of_kind(text: str, kind: str) -> list[Any]:
    return [read(one) for one in manifests(text) if one["kind"] == kind]


def node_page(text: str) -> Node:
    """A node from an excerpt of `kubectl describe node`."""
    labels = dict(re.findall(r"(nvidia\.com/\S+)=(\S+)", text))
    allocatable = dict(re.findall(r"(nvidia\.com/\S+):\s+(\d+)", text[text.index("Allocatable") :]))
    return a_cluster_node(
        labels=labels | EVERYWHERE, allocatable={name: int(count) for name, count in allocatable.items()}
    )


def told(found: Offer) -> str:
    memory = "" if found.memory_gib is None else f" of {found.memory_gib:g} GiB"
    return f"{found.devices}{memory}" + (f", {found.refused}" if found.refused else "")


def offered(node: Node, resource: str = GPU, **wanted: str) -> str:
    isolation: Isolation = "soft" if "soft" in wanted else "hard"
    labels = {name: value for name, value in wanted.items() if name != "soft"}
    return told(offer(resource, isolation, labels, node.labels, node.allocatable, node.registered))


def describe_node(text: str) -> str:
    node = node_page(text)
    resource = SHARED if node.allocatable.get(SHARED) else GPU
    return f"{offered(node)} | soft: {offered(node, resource, soft='')}"


def labels_of(text: str) -> Node:
    labels = {str(name): str(value) for name, value in json.loads(text).items()}
    counts = {name.removesuffix(".count"): int(value) for name, value in labels.items() if name.endswith(".count")}
    mixed = {name: count for name, count in counts.items() if "/mig-" in name}
    return a_cluster_node(labels=labels, allocatable={GPU: 0} | mixed if mixed else counts_of_gpus(counts))


def counts_of_gpus(counts: dict[str, int]) -> dict[str, int]:
    return {GPU: counts["nvidia.com/gpu"]}


def mixed_labels(text: str) -> str:
    node = labels_of(text)
    shapes = sorted(name for name in node.allocatable if "/mig-" in name)
    return "; ".join(f"{name.rpartition('-')[2]}: {offered(node, name)}" for name in shapes) + f" | {offered(node)}"


def single_labels(text: str) -> str:
    return offered(labels_of(text))


def excerpt(text: str) -> str:
    labels = dict(re.findall(r'(nvidia\.com/\S+): "?([^"\n]*)"?', text))
    return offered(a_cluster_node(labels=labels, allocatable={}))


def label_table(text: str) -> str:
    """The examples of the two tables as labels of two nodes."""
    cells = [
        [cell.strip().replace("\\", "") for cell in line.split("|")[1:-1]] for line in text.splitlines() if "|" in line
    ]
    rows = [(cells[0].split()[0], cells[3]) for cells in cells if len(cells) == 4 and cells[0].startswith("nvidia")]
    end = [name for name, _ in rows].index("nvidia.com/mig.strategy", 1)
    single, mixed = dict(rows[:end]), {name.replace("MIG_TYPE", "mig-2g.10gb"): value for name, value in rows[end:]}
    slices = a_cluster_node(labels=single, allocatable={GPU: int(single["nvidia.com/gpu.count"])})
    shapes = a_cluster_node(labels=mixed, allocatable={GPU: 0, "nvidia.com/mig-2g.10gb": 2})
    named = {"nvidia.com/gpu.product": single["nvidia.com/gpu.product"]}
    return f"{offered(slices)} | named: {offered(slices, **named)} | mixed: {offered(shapes, 'nvidia.com/mig-2g.10gb')}"


def hami_pod(text: str) -> str:
    (pod,) = of_kind(text, "Pod")
    return f"asks for {pod.gpus}"


def hami_annotations(text: str) -> str:
    annotations = dict(line.split(": ", 1) for line in text.splitlines())
    manifest = {
        "kind": "Node",
        "metadata": {"name": "n1", "annotations": annotations},
        "status": {"allocatable": {GPU: "20"}},
    }
    node = read(manifest)
    assert isinstance(node, Node)
    return offered(node)


def whole_node(text: str) -> str:
    (node,) = of_kind(text, "Node")
    return f"{offered(node)}, {'Ready' if node.ready else 'not Ready'}"


BY_CLASS = a_policy(a_model("b"), pools=(a_pool(device_class=CLASS, node_labels={"type": "kwok"}),))
BY_NAME = a_policy(a_model("b"), pools=(a_pool(node_labels={"type": "kwok"}),))


def stock(state: ClusterState) -> str:
    (pool,) = state.peek(NOW).pools
    memory = {node.memory_gib for node in pool.nodes}
    gpus, others = sum(node.gpus for node in pool.nodes), sum(node.foreign_gpus for node in pool.nodes)
    return f"{gpus} GPUs{f' of {memory.pop():g} GiB' if None not in memory else ''}, {others} held"


def beside(name: str) -> dict[str, Any]:
    """The one object of another of the files."""
    (found,) = manifests((nodes() / name).read_text())
    return found


def slice_only_node(text: str) -> str:
    (node,) = manifests(text)
    parts = (a_device_class(), beside("resourceslice-v1-nvidia-h100-x2-kwok.yaml"))
    by_class = with_devices(BY_CLASS, node, *parts)
    ready = "Ready" if by_class.peek(NOW).pools[0].nodes[0].ready else "not Ready"
    return f"{stock(by_class)}, {ready} | without deviceClass: {stock(a_state(BY_NAME, read(node)))}"


def slices(text: str) -> str:
    node = beside("node-dra-only-no-allocatable-kwok.yaml")
    classes = manifests((nodes() / "dra-driver-golden-deviceclasses.yaml").read_text())
    return stock(with_devices(BY_CLASS, node, *classes, *manifests(text)))


def classes(text: str) -> str:
    found: list[DeviceClass] = of_kind(text, "DeviceClass")
    unread = [one.name for one in found if one.unread]
    wants = {one.name: dict(one.wants) for one in found}[CLASS]
    return f"{len(found)} classes, {len(unread)} not understood; {CLASS}: {wants}"


def claimed(*allocated: tuple[tuple[str, ...], tuple[str, ...]]) -> Callable[[str], str]:
    """A node with two GPUs, of which claims (devices, pods) hold some: what the file's pods hold, and how many ask."""

    def says(text: str) -> str:
        claims = [a_claim(f"c{n}", devices, pods, "kwok-node-0") for n, (devices, pods) in enumerate(allocated)]
        node = beside("node-dra-only-no-allocatable-kwok.yaml")
        two = a_slice(a_device("gpu-0"), a_device("gpu-1"), node="kwok-node-0")
        pods: list[Pod] = of_kind(text, "Pod")
        templates: list[ClaimTemplate] = of_kind(text, "ResourceClaimTemplate")
        asks = [one.asks for one in templates] or [pod.gpus for pod in pods if pod.gpus] or "by a claim's name"
        state = with_devices(BY_CLASS, node, a_device_class(), two, *claims)
        return f"{stock(state)} by {len(pods)} pods; a pod asks for {asks}"

    return says


def extended(text: str) -> str:
    """By claims it counts; without them pods that run and nodes that list nothing leave the budget unknown."""
    by_claims = claimed((("gpu-0",), ("gpu-full-pod",)))(text)
    node = a_cluster_node(allocatable={})
    return f"{by_claims} | without deviceClass: {stock_of(a_state(a_policy(a_model('b')), node, a_ready_pod()))}"


def stock_of(state: ClusterState) -> str:
    (pool,) = state.peek(NOW).pools
    return unknown_gpus(a_pool(), pool) or "known"


def notices(condition: str, status: str, reason: str) -> str:
    node = a_cluster_node(conditions=(NodeCondition(condition, status, reason, NOW - 60.0),))
    found = a_state(None, node).peek(NOW).notices
    return "; ".join(f"{one.kind} in {one.deadline - NOW:+.0f} s ({one.confidence})" for one in found) or "none"


def eks_issues(text: str) -> str:
    condition = "AcceleratedHardwareReady"
    assert condition in text
    reason = "NvidiaDoubleBitError"
    return f"{reason in text}, False: {notices(condition, 'False', reason)}; True: {notices(condition, 'True', '')}"


def npd(text: str) -> str:
    types = [one["type"] for one in json.loads(text)["conditions"]]
    return "; ".join(f"{one} True: {notices(one, 'True', '')}, False: {notices(one, 'False', '')}" for one in types)


HELD_BY_NAME = "without deviceClass: 1 nodes of pool a100 offer no nvidia.com/gpu while pods run there"
PER_POD = "a pod asks for [{'gpu.nvidia.com': 1}]"

EXPECTED = {
    "dra-driver-golden-deviceclasses.yaml": Row(
        "CEL selectors",
        classes,
        "5 classes, 0 not understood",
        "{'driver': 'gpu.nvidia.com', 'gpu.nvidia.com/type': 'gpu'}",
    ),
    "dra-extended-resource-gpu-full.yaml": Row(
        "0 is *unknown*", extended, "2 GPUs of 80 GiB, 1 held by 1 pods", "[{'nvidia.com/gpu': 1}]", HELD_BY_NAME
    ),
    "dra-v1-one-claim-per-pod.yaml": Row(
        "gpus per pod from the claim",
        claimed((("gpu-0",), ("pod1",)), (("gpu-1",), ("pod2",))),
        "2 held by 2 pods",
        PER_POD,
    ),
    "dra-v1-shared-claim-two-containers.yaml": Row(
        "one GPU, not two", claimed((("gpu-0",), ("pod",))), "1 held by 1 pods", PER_POD
    ),
    "dra-v1-shared-claim-two-pods.yaml": Row(
        "one GPU, not two", claimed((("gpu-0",), ("pod1", "pod2"))), "1 held by 2 pods"
    ),
    "eks-node-monitoring-health-issues.adoc.txt": Row(
        "are to be replaced", eks_issues, "True, False: fault in +540 s (likely); True: none"
    ),
    "gfd-labels-a100-node-excerpt.txt": Row("no allocatable", excerpt, "0 of 38.61 GiB"),
    "gfd-labels-mig-single-and-mixed-table.txt": Row(
        "slices are no whole GPUs",
        label_table,
        "0 of 5 GiB, offers 56 MIG slices 1g.5gb by the name of whole GPUs",
        "named: 56 of 5 GiB",
        "mixed: 2 of 10 GiB",
    ),
    # The file asks for a MIG slice, not for `nvidia.com/gpu` and `nvidia.com/gpumem` as SOURCES.md has it: no card.
    "hami-example-mig-pod.yaml": Row("one share, not one card", hami_pod, "asks for {'nvidia.com/mig-3g.20gb': 1}"),
    "hami-node-register-annotations.txt": Row(
        "2 cards, not 20",
        hami_annotations,
        "0, offers 20 shares of 2 GPUs by HAMi: how much of a GPU one of them holds",
    ),
    "node-describe-time-slicing-not-renamed.txt": Row(
        "16 shares of 4 cards", describe_node, "0, offers 16 shares of 4 GPUs: a share is no GPU", "| soft: 16"
    ),
    "node-describe-time-slicing-renamed-gpu-zero.txt": Row(
        "say 'this node offers", describe_node, "0, offers 16 nvidia.com/gpu.shared and no nvidia.com/gpu", "| soft: 16"
    ),
    "node-dra-only-no-allocatable-kwok.yaml": Row(
        "node not Ready yet",
        slice_only_node,
        "2 GPUs of 80 GiB, 0 held, not Ready | without deviceClass: 0 GPUs, 0 held",
    ),
    "node-labels-mig-mixed-captured.json": Row(
        "slices of several sizes",
        mixed_labels,
        "1g.10gb: 2 of 9.75 GiB; 2g.20gb: 1 of 19.62 GiB; 3g.40gb: 1 of 39.38 GiB | 0 of 79.65 GiB",
    ),
    # The captured node is configured `all-disabled`, and its product has no `-MIG-`: it is one whole GPU. The outcome
    # that SOURCES.md states is that of the label table above.
    "node-labels-mig-single-captured.json": Row("must not match it silently", single_labels, "1 of 79.65 GiB"),
    "node-virtual-gpu-kwok-example.yaml": Row("a whole Node with GPU fields", whole_node, "8, Ready"),
    "npd-kernel-monitor-conditions.json": Row(
        "status True is *bad*",
        npd,
        "KernelDeadlock True: fault in -60 s (likely), False: none",
        "XfsShutdown True: fault in -60 s (likely), False: none",
        "CperHardwareErrorFatal True: fault in -60 s (likely), False: none",
    ),
    "resourceslice-v1-nvidia-h100-x2-kwok.yaml": Row(
        "capacity comes from the slice", slices, "2 GPUs of 80 GiB, 0 held"
    ),
}


def nodes() -> Path:
    return folder("artefacts", "REBALANCER_ARTEFACTS") / "nodes"


def files() -> Iterator[Path]:
    yield from sorted(nodes().iterdir())


def test_every_file_does_what_its_sources_say() -> None:
    stated = (nodes().parent / "SOURCES.md").read_text()
    rows, wrong = [], []
    for path in files():
        row = EXPECTED[path.name]
        (line,) = [line for line in stated.splitlines() if line.startswith(f"| `{path.name}`")]
        assert row.stated in line.split(" | ")[-1], path.name
        found = row.reads(path.read_text())
        rows.append(f"{path.name:50} {row.stated:32} {found}")
        if not all(one in found for one in row.said):
            wrong.append((path.name, found))
    print("\n" + "\n".join(rows))  # noqa: T201  the table
    assert wrong == []
    assert {path.name for path in files()} == EXPECTED.keys()

"""Under which names a first policy expects a model's metrics, by what its containers run."""

import pytest

from tests.survey.cluster import Json, engine, policy
from tests.testbed.objects import gpu_node


def aliases_of(workload: Json) -> tuple[str, ...]:
    (model,) = policy([*(gpu_node(name, 8) for name in "ab"), workload]).models
    return model.aliases


def running(*arguments: str) -> Json:
    chat = engine("chat")
    (container,) = chat["spec"]["template"]["spec"]["containers"]
    container |= {"command": list(arguments[:-1]), "args": [arguments[-1]]}
    return chat


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("vllm serve org/m --served-model-name 'talk' \"gpt-4o\" --port 8000", ("talk", "gpt-4o")),
        ("vllm serve org/m \\\n  --served-model-name talk gpt-4o \\\n  --port 8000", ("talk", "gpt-4o")),
        ("vllm serve org/m --served-model-name talk 2>&1 | tee /log", ("talk",)),
        ("vllm serve org/m --served-model-name talk; sleep 5", ("talk",)),
        ("set -e\nvllm serve org/m --served-model-name talk\nsleep 5", ("talk",)),
        ("export A=1 && exec /opt/bin/vllm serve org/m --port 8000", ("org/m",)),
        ("echo don't; vllm serve org/m --port 8000", ("org/m",)),
        ("vllm serve org/m --served-model-name $(NAME) ${OTHER}", ()),
        ("lmdeploy serve api_server org/m", ()),
    ],
)
def test_the_words_of_a_shell_line_are_what_the_shell_makes_of_them(line: str, names: tuple[str, ...]) -> None:
    assert aliases_of(running("/bin/sh", "-c", line)) == names


def test_what_an_image_of_vllm_is_told_to_serve_is_its_name() -> None:
    assert aliases_of(running("serve", "org/m")) == ("org/m",)


def test_the_leader_of_a_group_names_the_model() -> None:
    leader, worker = (engine("x", gpus=8)["spec"]["template"] for _ in range(2))
    for template, line in ((leader, "ray.sh leader; vllm serve org/big --port 80"), (worker, "ray.sh worker")):
        template["spec"]["containers"][0] |= {"command": ["sh", "-c", line], "args": []}
    group = {"size": 2, "leaderTemplate": leader, "workerTemplate": worker}
    api = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet"}
    spec = {"replicas": 1, "leaderWorkerTemplate": group}
    assert aliases_of({**api, "metadata": {"name": "big", "namespace": "ml"}, "spec": spec}) == ("org/big",)

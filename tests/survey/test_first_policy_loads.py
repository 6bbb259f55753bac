"""What `rebalancer init` writes loads, whatever it was shown."""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from rebalancer.domain.policy import Model, Pool
from rebalancer.settings.problems import check_text
from rebalancer.survey.first_policy.draft import ModelDraft, PoolDraft
from rebalancer.survey.first_policy.drafting import first_policy
from rebalancer.survey.first_policy.text import WIDTH, scalar, text_of
from rebalancer.survey.manifests import survey_of
from rebalancer.survey.objects import Survey
from tests.beside import folder
from tests.survey.cluster import PRODUCT, Json, engine, pod
from tests.testbed.objects import gpu_node, hpa, node_pool, scaled_object

FOLDERS = ("workloads", "scaledobjects", "nodes")


def problems(survey: Survey) -> tuple[object, ...]:
    """What is wrong with the first policy; nothing also where there is no model, and so no policy."""
    draft = first_policy(survey)
    others = [obj for obj in survey.objects if obj["kind"] not in {"Node", "Pod"}]  # those without GPUs
    assert draft.models or draft.left_out or draft.unread or not others, "silence"
    return check_text(text_of(draft), "policy.yaml")[1] if draft.models else ()


def _together(surveys: list[Survey]) -> Survey:
    return Survey(sum((each.objects for each in surveys), ()), sum((each.unread for each in surveys), ()))


@pytest.mark.parametrize("names", [FOLDERS, ("workloads",), ("scaledobjects", "nodes"), ("workloads", "scaledobjects")])
def test_folders_of_real_artefacts_give_a_policy_that_loads(names: tuple[str, ...]) -> None:
    artefacts = folder("artefacts", "REBALANCER_ARTEFACTS")
    survey = _together([survey_of(artefacts / name) for name in names])
    draft = first_policy(survey)
    assert bool(draft.models) == ("workloads" in names)
    assert problems(survey) == ()


def test_each_real_artefact_alone_gives_a_policy_that_loads_or_a_reason() -> None:
    artefacts = folder("artefacts", "REBALANCER_ARTEFACTS")
    found = {file.name: problems(survey_of(file)) for file in _files(artefacts)}
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


def _files(artefacts: Path) -> Iterator[Path]:
    for name in FOLDERS:
        yield from sorted(file for file in (artefacts / name).iterdir() if file.suffix in {".yaml", ".json"})


NAMES = st.sampled_from(["chat", "code", "a.b", "x" * 70])
LABELS = st.dictionaries(
    st.sampled_from([PRODUCT, "pool", "karpenter.sh/nodepool", "team"]), st.sampled_from(["a", "b", "true", "A b"])
)


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Json, ...]:
    """Up to four nodes, four workloads with whatever scales them, and pods on the nodes."""
    objects: list[Json] = []
    for number in range(draw(st.integers(0, 4))):
        capacity = draw(st.sampled_from(["on-demand", "spot", "reserved", "else"]))
        node = gpu_node(f"n{number}", draw(st.integers(0, 8)), labels=draw(LABELS), capacity_type=capacity)
        if draw(st.booleans()):
            node["spec"]["taints"] = [{"key": "own", "effect": "NoSchedule"}]
        objects.append(node)
    for name in draw(st.lists(NAMES, max_size=3, unique=True)):
        namespace = draw(st.sampled_from(["ml", "lab"]))
        replicas, gpus = draw(st.integers(0, 30)), draw(st.integers(0, 8))
        served = draw(st.sampled_from(["", "one", "$NAME"]))
        objects.append(engine(name, replicas, served=served, namespace=namespace, gpus=gpus, node_labels=draw(LABELS)))
        bounds = draw(st.integers(0, 40)), draw(st.integers(0, 40))
        if draw(st.booleans()):
            objects.append(scaled_object(name, namespace, *bounds, draw(st.lists(TRIGGERS, max_size=2))))
        if draw(st.booleans()):
            objects.append(hpa(name, namespace, *bounds))
        objects += [pod(name, n, f"n{n}", namespace=namespace, gpus=gpus) for n in range(draw(st.integers(0, 3)))]
    if draw(st.booleans()):
        objects.append(node_pool("a", labels=draw(LABELS), gpu_limit=draw(st.none() | st.integers(0, 64))))
    return tuple(objects)


TRIGGERS = st.builds(
    lambda query, threshold, kind: {
        "type": "prometheus",
        "metricType": kind,
        "metadata": {"query": query, "threshold": threshold},
    },
    st.sampled_from(
        ["sum(vllm:num_requests_waiting)", "avg(kv_cache_usage_perc)", "ttft", "running_concurrency", "up"]
    ),
    st.sampled_from(["0", "0.0005", "5", "1e9", "-3", "", "99999999"]),
    st.sampled_from(["Value", "AverageValue"]),
)


@given(clusters())
@settings(max_examples=60, deadline=None)
def test_any_small_cluster_gives_a_policy_that_loads(objects: tuple[Json, ...]) -> None:
    draft = first_policy(Survey(objects))
    if draft.models:
        found, wrong = check_text(text_of(draft), "policy.yaml")
        assert found is not None, f"{wrong}\n{text_of(draft)}"
        assert all(len(line) <= WIDTH or "#" not in line for line in text_of(draft).splitlines())


JUNK: st.SearchStrategy[Any] = st.sampled_from(
    [None, -1, 3.5, "x", "A b", [], {}, [None], [{}], {"x": []}, 10**12, True]
)


def _places(part: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:  # noqa: ANN401  any JSON
    """The path of every value within an object."""
    inner = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
    for key, value in inner:
        yield (*path, key)
        yield from _places(value, (*path, key))


@given(clusters(), st.data())
@settings(max_examples=100, deadline=None)
def test_no_object_however_broken_is_an_exception(objects: tuple[Json, ...], data: st.DataObject) -> None:
    broken = deepcopy(objects)
    for obj in broken:
        *above, last = data.draw(st.sampled_from(list(_places(obj))))
        part: Any = obj
        for key in above:
            part = part[key]
        if above or last != "kind":  # what has no kind is no object
            part[last] = data.draw(JUNK)
    draft = first_policy(Survey(broken))
    if draft.models:
        found, wrong = check_text(text_of(draft), "policy.yaml")
        assert found is not None, f"{wrong}\n{text_of(draft)}"


VALUES: st.SearchStrategy[Any] = st.recursive(
    st.text() | st.integers() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(VALUES)
@settings(max_examples=30, deadline=None)
def test_a_value_is_read_back_as_it_was(value: Any) -> None:  # noqa: ANN401  any JSON
    assert YAML(typ="safe", pure=True).load(f"key: {scalar(value)}\n") == {"key": value}


def test_a_name_with_a_line_in_it_ends_no_comment() -> None:
    sly = engine("chat")
    sly["metadata"]["ownerReferences"] = [
        {"kind": "X\nmodels: []\n#", "name": "y\u2028\x1b[31m\x00z", "controller": True}
    ]
    found, wrong = check_text(text_of(first_policy(Survey((gpu_node("a", 8), sly)))), "policy.yaml")
    assert found is not None, wrong
    assert [model.id for model in found.models] == ["chat"]


@pytest.mark.parametrize(("draft", "schema"), [(PoolDraft, Pool), (ModelDraft, Model)])
def test_keys_stand_in_the_policy_s_order(
    draft: type[PoolDraft] | type[ModelDraft], schema: type[Pool] | type[Model]
) -> None:
    said = [field.name for field in fields(draft) if field.name != "notes"]
    assert said == [name for name in schema.model_fields if name in said]

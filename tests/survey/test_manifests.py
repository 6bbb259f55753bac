"""A folder of manifests is read as people keep them."""

from pathlib import Path

import pytest

from rebalancer.survey.manifests import survey_of
from rebalancer.survey.objects import address


def test_lists_are_taken_apart_and_a_broken_file_costs_no_other(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("kind: Node\nmetadata: {name: n1}\n---\n# nothing\n---\nno object\n")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "b.json").write_text(
        '{"kind": "List", "items": [{"apiVersion": "apps/v1", "kind": "Deployment",'
        ' "metadata": {"namespace": "ml", "name": "chat"}}]}'
    )
    (tmp_path / "c.yml").write_text("kind: {Node\n")
    (tmp_path / "notes.txt").write_text("kind: Node\n")

    survey = survey_of(tmp_path)

    assert [address(each) for each in survey.objects] == ["node/n1", "deployment/ml/chat"]
    assert [address(each) for each in survey.of("Deployment", "apps")] == ["deployment/ml/chat"]
    assert list(survey.of("Deployment", "extensions")) == []
    assert len(survey.unread) == 1
    assert "c.yml" in survey.unread[0]
    assert [survey.file_of(each) for each in survey.objects] == [
        str(tmp_path / "a.yaml"),
        str(tmp_path / "deep" / "b.json"),
    ]


def test_a_file_without_an_object_is_said(tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text("replicas: 3\n")
    assert survey_of(tmp_path).unread == (
        f"{tmp_path / 'values.yaml'}: holds no Kubernetes object: nothing in it has a kind",
    )


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no such file or folder"):
        survey_of(tmp_path / "gone")


BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 60))
LISTS = "a0: &a0 {kind: List, items: []}\n" + "".join(
    f"a{n}: &a{n} {{kind: List, items: [*a{n - 1}, *a{n - 1}]}}\n" for n in range(1, 60)
)
MERGES = "a0: &a0 {k: v}\n" + "".join(
    f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 6)}], k{n}: v}}\n" for n in range(1, 60)
)


@pytest.mark.parametrize(
    "text",
    [
        f"{BOMB}kind: Deployment\nmetadata: {{name: b, annotations: *a59}}\n",
        f"{LISTS}kind: List\nitems: [*a59]\n",
        f"{MERGES}kind: Deployment\nmetadata: {{name: b, annotations: {{<<: *a59}}}}\n",
        "kind: List\nitems: &loop [*loop]\n",
        "kind: Deployment\nmetadata: &loop {name: b, annotations: *loop}\n",
        f"kind: List\nitems: {3000 * '['}{3000 * ']'}\n",
    ],
    ids=["values", "lists", "merge keys", "loop", "loop of a mapping", "deep"],
)
def test_a_file_that_grows_without_end_by_its_aliases_is_not_read_and_costs_no_other(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.yaml").write_text(text)
    (tmp_path / "b.yaml").write_text("base: &base {name: n1}\nkind: Node\nmetadata: *base\n")
    survey = survey_of(tmp_path)
    assert [address(each) for each in survey.objects] == ["node/n1"]
    (why,) = survey.unread
    assert why.startswith(f"{tmp_path / 'a.yaml'}: ")


def test_merge_keys_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        "base: &base {name: n1, labels: &labels {pool: a}}\nkind: Node\n"
        "metadata: {<<: *base, labels: {<<: [*labels, *labels], zone: b}}\n"
    )
    (node,) = survey_of(tmp_path).objects
    assert node["metadata"] == {"name": "n1", "labels": {"pool": "a", "zone": "b"}}

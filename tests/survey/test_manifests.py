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

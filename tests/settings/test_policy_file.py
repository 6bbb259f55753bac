"""The service follows its policy file, and a bad file changes nothing but what it says about it."""

import os
from pathlib import Path

import pytest

from rebalancer.domain.codec import digest
from rebalancer.settings.policy_file import MAX_BYTES, PolicyFile
from rebalancer.settings.problems import check_text
from tests.settings.a_policy_text import GOOD, spoilt

NOW = 1_800_000_000.0
OTHER = spoilt(("gpuLimit: 16", "gpuLimit: 24"))
BAD = spoilt(("gpuLimit: 16", "gpuLimit: -1"))


def limit(file: PolicyFile) -> int:
    assert file.current is not None
    return file.current.pools[0].gpu_limit


def mount(folder: Path, text: str, revision: str) -> None:
    """Put `text` there as kubelet does: a new folder, then `..data` flipped to it by rename."""
    (folder / revision).mkdir(parents=True)
    (folder / revision / "policy.yaml").write_text(text)
    (folder / "..data_tmp").symlink_to(revision)
    (folder / "..data_tmp").rename(folder / "..data")
    if not (folder / "policy.yaml").is_symlink():
        (folder / "policy.yaml").symlink_to("..data/policy.yaml")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "policy.yaml").write_text(GOOD)
    return tmp_path / "policy.yaml"


@pytest.fixture
def file(path: Path) -> PolicyFile:
    file = PolicyFile(path)
    assert file.changed(NOW)
    return file


def test_the_first_look_puts_the_policy_in_force(file: PolicyFile) -> None:
    assert file.current is not None
    assert (limit(file), file.loaded_at, file.problems, file.trouble) == (16, NOW, (), None)
    assert file.digest == digest(file.current.to_mapping())
    assert not file.changed(NOW + 2)


def test_a_flip_of_the_configmap_symlink_is_taken_at_the_next_look(tmp_path: Path) -> None:
    mount(tmp_path, GOOD, "..2026_1")
    file = PolicyFile(tmp_path / "policy.yaml")
    file.changed(NOW)
    mount(tmp_path, OTHER, "..2026_2")
    assert file.changed(NOW + 2)
    assert (limit(file), file.loaded_at) == (24, NOW + 2)


def test_a_flip_to_the_same_content_changes_nothing(tmp_path: Path) -> None:
    mount(tmp_path, GOOD, "..2026_1")
    file = PolicyFile(tmp_path / "policy.yaml")
    file.changed(NOW)
    mount(tmp_path, GOOD, "..2026_2")
    assert not file.changed(NOW + 2)
    assert file.loaded_at == NOW


def test_a_file_written_in_place_is_taken_once_two_looks_agree(file: PolicyFile, path: Path) -> None:
    path.write_text(OTHER)
    assert not file.changed(NOW + 2)
    assert limit(file) == 16
    assert file.changed(NOW + 4)
    assert (limit(file), file.loaded_at) == (24, NOW + 4)


def test_a_half_written_file_is_never_in_force_though_its_first_half_is_a_policy(file: PolicyFile, path: Path) -> None:
    half = OTHER[: OTHER.index("  - id: sdxl")]
    path.write_text(half)
    assert not file.changed(NOW + 2)
    path.write_text(OTHER)
    file.changed(NOW + 4)
    assert limit(file) == 16
    assert file.changed(NOW + 6)
    assert file.current is not None
    assert len(file.current.models) == 2


def test_a_bad_file_keeps_the_last_good_policy_and_says_so_once(tmp_path: Path) -> None:
    mount(tmp_path, GOOD, "..1")
    file = PolicyFile(tmp_path / "policy.yaml")
    file.changed(NOW)
    mount(tmp_path, BAD, "..2")
    assert file.changed(NOW + 2)
    assert (limit(file), file.loaded_at) == (16, NOW)
    assert [problem.path for problem in file.problems] == ["pools.a100.gpuLimit"]
    assert file.trouble is not None
    said = f"policy {file.digest} is in force, but pools.a100 keeps its last good form: "
    assert file.trouble.startswith(f"{said}gpuLimit is out of range at {file.path}:7")
    assert not file.changed(NOW + 4)


def test_a_file_that_is_no_yaml_keeps_the_last_good_policy_whole(tmp_path: Path) -> None:
    mount(tmp_path, GOOD, "..1")
    file = PolicyFile(tmp_path / "policy.yaml")
    file.changed(NOW)
    mount(tmp_path, "models: [", "..2")
    assert file.changed(NOW + 2)
    assert (limit(file), file.refused) == (16, ())
    assert file.trouble is not None
    assert file.trouble.startswith(f"policy {file.digest} stays in force: not YAML")


def test_a_start_goes_on_from_the_policy_of_before_and_takes_over_what_is_right(tmp_path: Path) -> None:
    last, _ = check_text(GOOD, "policy.yaml")
    assert last is not None
    (tmp_path / "policy.yaml").write_text(BAD.replace("gpuLimit: 8", "gpuLimit: 10"))
    file = PolicyFile(tmp_path / "policy.yaml")
    file.changed(NOW)
    assert file.digest == ""
    file.go_on_from(last, NOW)
    assert file.current is not None
    assert [pool.gpu_limit for pool in file.current.pools] == [16, 10]
    assert [str(each) for each in file.refused] == ["pools.a100 keeps its last good form"]


def test_a_start_without_the_file_puts_nothing_in_force(tmp_path: Path) -> None:
    last, _ = check_text(GOOD, "policy.yaml")
    assert last is not None
    file = PolicyFile(tmp_path / "none.yaml")
    file.changed(NOW)
    file.go_on_from(last, NOW)
    assert file.current is None


def test_going_back_to_the_good_content_clears_the_problems(tmp_path: Path) -> None:
    mount(tmp_path, GOOD, "..1")
    file = PolicyFile(tmp_path / "policy.yaml")
    file.changed(NOW)
    mount(tmp_path, BAD, "..2")
    file.changed(NOW + 2)
    mount(tmp_path, GOOD, "..3")
    assert file.changed(NOW + 4)
    assert (file.problems, file.loaded_at) == ((), NOW)


def test_a_comment_alone_is_no_new_policy(tmp_path: Path) -> None:
    mount(tmp_path, GOOD, "..1")
    file = PolicyFile(tmp_path / "policy.yaml")
    file.changed(NOW)
    mount(tmp_path, f"# reviewed\n{GOOD}", "..2")
    assert not file.changed(NOW + 2)


def test_a_file_that_goes_away_keeps_the_policy_and_one_that_comes_back_is_taken(file: PolicyFile, path: Path) -> None:
    path.unlink()
    assert file.changed(NOW + 2)
    assert limit(file) == 16
    assert "cannot be read (No such file" in str(file.problems[0])
    path.write_text(OTHER)
    file.changed(NOW + 4)
    assert limit(file) == 16
    assert file.changed(NOW + 6)
    assert (limit(file), file.problems) == (24, ())


def test_without_any_file_there_is_no_policy_and_a_reason(tmp_path: Path) -> None:
    file = PolicyFile(tmp_path / "none.yaml")
    assert file.changed(NOW)
    assert file.current is None
    assert file.trouble is not None
    assert file.trouble.startswith("no policy is in force: cannot be read (No such file")


@pytest.mark.parametrize("content", [b"\xff\xfe", b"#" * (MAX_BYTES + 1)])
def test_what_is_no_text_or_too_long_is_a_problem(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    file = PolicyFile(path)
    file.changed(NOW)
    assert file.current is None
    assert "cannot be read" in file.problems[0].what


def fleet(models: range) -> str:
    head = GOOD[: GOOD.index("teams:")] + "models:\n"
    return head + "".join(
        f"  - {{id: m{n}, namespace: s, targets: [{{pool: spot, name: m{n}}}], gpusPerReplica: 1, minReplicas: 0,"
        " maxReplicas: 4, entitlement: 0, signals: {utilisation: true}}\n"
        for n in models
    )


@pytest.mark.parametrize(
    ("kept", "stays"),
    [(range(5, 10), range(5, 10)), (range(6, 10), range(10)), (range(10, 30), range(10))],
)
def test_a_reload_that_removes_more_than_half_of_the_models_is_refused(
    tmp_path: Path, kept: range, stays: range
) -> None:
    mount(tmp_path, fleet(range(10)), "..1")
    file = PolicyFile(tmp_path / "policy.yaml")
    file.changed(NOW)
    mount(tmp_path, fleet(kept), "..2")
    file.changed(NOW + 2)
    assert file.current is not None
    assert [model.id for model in file.current.models] == [f"m{n}" for n in stays]
    advice = ["REBALANCER_ALLOW_EMPTY_POLICY=true" in str(problem) for problem in file.problems]
    assert advice == ([] if stays == kept else [True])


def test_models_under_other_ids_for_the_same_workloads_are_renamed_and_not_removed(tmp_path: Path) -> None:
    mount(tmp_path, fleet(range(2)), "..1")
    file = PolicyFile(tmp_path / "policy.yaml")
    file.changed(NOW)
    mount(tmp_path, fleet(range(2)).replace("id: m", "id: new-m"), "..2")
    file.changed(NOW + 2)
    assert file.current is not None
    assert [model.id for model in file.current.models] == ["new-m0", "new-m1"]
    assert file.problems == ()


def test_the_only_model_cannot_be_removed_in_steps_and_nobody_is_told_to(tmp_path: Path) -> None:
    mount(tmp_path, fleet(range(1)), "..1")
    file = PolicyFile(tmp_path / "policy.yaml")
    file.changed(NOW)
    mount(tmp_path, fleet(range(1, 2)), "..2")
    file.changed(NOW + 2)
    (problem,) = file.problems
    assert (problem.what, problem.allowed) == ("this reload would remove 1 of 1 model (m0)", "")
    assert problem.fix == "start the service with REBALANCER_ALLOW_EMPTY_POLICY=true"


def test_a_person_may_allow_it(tmp_path: Path) -> None:
    mount(tmp_path, fleet(range(10)), "..1")
    file = PolicyFile(tmp_path / "policy.yaml", allow_empty_policy=True)
    file.changed(NOW)
    mount(tmp_path, fleet(range(1)), "..2")
    assert file.changed(NOW + 2)
    assert (file.problems, file.current is not None and len(file.current.models)) == ((), 1)


@pytest.mark.parametrize(("allowed", "models"), [(False, 10), (True, 1)])
def test_a_start_drops_no_more_models_than_a_reload_may(tmp_path: Path, *, allowed: bool, models: int) -> None:
    last, _ = check_text(fleet(range(10)), "policy.yaml")
    assert last is not None
    (tmp_path / "policy.yaml").write_text(fleet(range(1)))
    file = PolicyFile(tmp_path / "policy.yaml", allow_empty_policy=allowed)
    file.changed(NOW)
    file.go_on_from(last, NOW)
    assert file.current is not None
    assert (len(file.current.models), file.problems == ()) == (models, allowed)


def test_a_folder_in_its_place_is_a_problem(tmp_path: Path) -> None:
    file = PolicyFile(tmp_path)
    file.changed(NOW)
    assert os.strerror(21) in str(file.problems[0])

"""How tests find recorded traffic, and whatever else lies beside the checkout."""

from pathlib import Path

import pytest

from tests.beside import folder

VARIABLE = "REBALANCER_THINGS"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv(VARIABLE, raising=False)
    return tmp_path / "checkout"


def found(root: Path) -> Path:
    """The folder; a skip here would hide that it was not found."""
    try:
        return folder("things", VARIABLE, root)
    except pytest.skip.Exception as why:
        pytest.fail(f"skipped: {why}")


def test_what_lies_beside_the_checkout_is_found_without_being_named(root: Path) -> None:
    beside = root.parent / "shared" / "things"
    beside.mkdir(parents=True)

    assert found(root) == beside


def test_the_variable_goes_before_what_lies_beside(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root.parent / "shared" / "things").mkdir(parents=True)
    other = root.parent / "other"
    other.mkdir()
    monkeypatch.setenv(VARIABLE, str(other))

    assert found(root) == other


def test_where_there_is_neither_the_test_skips_and_says_how_to_name_one(root: Path) -> None:
    with pytest.raises(pytest.skip.Exception, match=r"no things: set REBALANCER_THINGS, or .* \.\./shared/things"):
        folder("things", VARIABLE, root)


def test_a_variable_that_names_no_folder_fails_the_test_instead_of_skipping_it(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "/no/such")

    with pytest.raises(pytest.fail.Exception, match="REBALANCER_THINGS is '/no/such'"):
        folder("things", VARIABLE, root)

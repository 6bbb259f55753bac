"""The page of a line: each file that was played in full has its row anew, and nothing else is touched."""

import pytest

from tests.house.repository import ROOT
from tests.testbed import page


@pytest.fixture
def played(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # seconds of every start
    pytester.makeconftest(
        "from tests.testbed import page\nfrom pathlib import Path\npage._FOLDER = Path(__file__).parent / 'pages'\n"
        "def pytest_configure(config):\n    page.pytest_configure(config)\n"
    )
    pytester.makepyfile(
        test_one="import pytest\ndef test_passes():\n    pass\ndef test_skips():\n    pytest.skip('not here')\n"
        "@pytest.fixture\ndef broken():\n    yield\n    raise OSError\ndef test_ends_badly(broken):\n    pass\n",
        test_two="def test_passes():\n    pass\n",
    )
    return pytester


def rows(pytester: pytest.Pytester, *arguments: str) -> dict[str, list[str]]:
    pytester.runpytest_subprocess("-p", "no:cacheprovider", *arguments)
    (file,) = (pytester.path / "pages").iterdir()
    lines = [line for line in file.read_text().splitlines() if line.startswith("| `")]
    return {line.split("`")[1]: [cell.strip() for cell in line.split("|")[2:5]] for line in lines}


def test_each_file_has_what_passed_was_skipped_and_failed_by_name(played: pytest.Pytester) -> None:
    assert rows(played) == {"test_one.py": ["1", "1", "`test_ends_badly`"], "test_two.py": ["1", "0", "0"]}


def test_a_row_is_made_anew_by_its_whole_file_alone(played: pytest.Pytester) -> None:
    before = rows(played)
    played.makepyfile(test_two="def test_passes():\n    pass\ndef test_fails():\n    assert False\n")
    assert rows(played, "-k", "fails") == before
    assert rows(played, "test_two.py::test_fails") == before
    assert rows(played, "test_one.py") == before
    assert rows(played, "test_two.py") == before | {"test_two.py": ["1", "0", "`test_fails`"]}


def test_a_run_that_ends_early_writes_no_row_of_the_file_it_left(played: pytest.Pytester) -> None:
    played.makepyfile(test_two="def test_fails():\n    assert False\ndef test_passes():\n    pass\n")
    assert rows(played, "--maxfail=2") == {"test_one.py": ["1", "1", "`test_ends_badly`"]}


def test_the_versions_of_a_page_are_those_that_are_pinned() -> None:
    assert "KEDA 2.2" in page.page({})
    assert "Karpenter 1.1" in page.page({})

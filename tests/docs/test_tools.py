"""What the pages tell helm and kubectl to do is something these programs know how to do."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.docs.blocks import blocks
from tests.house.repository import ROOT
from tests.testbed.build import Missing, build

EXAMPLE = next(block for block in blocks("yaml") if block.page == "policy.md")
VALUES = next(block for block in blocks("yaml") if block.text.startswith("# values.yaml"))


def lines_of(program: str) -> list[list[str]]:
    """Command lines of `program` on the pages and in the two READMEs, in words."""
    readmes = "".join((ROOT / name / "README.md").read_text() for name in (".", "charts/rebalancer"))
    text = "\n".join([*(block.text for block in blocks("bash")), readmes]).replace("\\\n", " ")
    return [shlex.split(line) for line in text.splitlines() if line.startswith(f"{program} ")]


@pytest.fixture(scope="module")
def helm() -> str:
    try:
        return build("helm").program("helm")
    except Missing as missing:
        pytest.skip(f"helm cannot be built: {missing.reason}")


def rendered(helm: str, folder: Path, *words: str) -> list[str]:
    """Kinds of the objects that `helm template` makes in a folder with the chart and the example's policy."""
    (folder / "policy.yaml").write_text(EXAMPLE.text)
    (folder / "values.yaml").write_text(VALUES.text)
    for name in ("charts", "docs"):
        (folder / name).symlink_to(ROOT / name)
    done = subprocess.run([helm, "template", *words], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [each["kind"] for each in yaml.safe_load_all(done.stdout) if each]


@pytest.mark.real
@pytest.mark.timeout(300)
def test_each_helm_install_of_the_pages_renders(helm: str, tmp_path: Path) -> None:
    installs = [words for words in lines_of("helm") if words[1] == "install"]
    # Of the installation, of a first policy, of a first look, of six Deployments, and of the READMEs.
    assert len(installs) == 6
    for number, words in enumerate(installs):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert "Deployment" in rendered(helm, folder, *words[2:])


def test_each_helm_install_of_the_pages_names_a_registry_for_none_has_the_image() -> None:
    installs = [words for words in lines_of("helm") if words[1] == "install"]
    assert [words for words in installs if "image.repository=registry.example.com/rebalancer" not in words] == []


@pytest.mark.real
@pytest.mark.timeout(300)
def test_the_values_of_the_page_render_the_rights_they_name(helm: str, tmp_path: Path) -> None:
    kinds = rendered(helm, tmp_path, "rebalancer", "charts/rebalancer", "--values", "values.yaml")
    assert {"Role", "RoleBinding", "ValidatingAdmissionPolicy"} <= set(kinds)


def test_every_option_of_kubectl_on_the_pages_exists() -> None:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is not on the PATH")
    common = said(kubectl, "options")
    all_verbs = {"annotate", "apply", "create", "delete", "exec", "get", "rollout", "status"}
    for line in lines_of("kubectl"):
        words = line[: line.index("--")] if "--" in line else line  # what comes behind is no option of kubectl
        verbs = [word for word in words[1:] if word in all_verbs]
        assert verbs, words
        known = said(kubectl, *verbs, "--help") + common
        unknown = [word for word in words if re.fullmatch(r"--[a-z-]+", word) and f"{word}=" not in known]
        assert unknown == [], words
    assert len(lines_of("kubectl")) > 2


def said(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout

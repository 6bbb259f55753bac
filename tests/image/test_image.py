"""The image, built from docker/Dockerfile and started: not as root, on a read-only root, without a shell."""

import asyncio
import json
import os
import re
import stat
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

import rebalancer
from rebalancer.loop.clock import ScaledClock
from rebalancer.sandbox.demo_cluster import POLICY_FILE, build, demo_policy
from rebalancer.sandbox.sandbox import Sandbox
from tests.house.repository import ROOT
from tests.image.images import Image
from tests.testbed.place import answers
from tests.testbed.process import Process, Reaper, free_port

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

UNWANTED = ("sh", "bash", "dash", "busybox", "pip", "pip3", "gcc", "cc", "ld", "apt", "apt-get", "dpkg", "perl")


@pytest.fixture(autouse=True)
def processes_may_block(may_block: None) -> None:
    """The client library's login reads files in a thread with a loop of its own."""


@pytest.fixture
def writable(tmp_path: Path, image: Image) -> Path:
    """A folder that the image's user may write, as a volume with fsGroup is."""
    user = int(image.config["User"].split(":")[0])
    os.chown(tmp_path, user, user)
    return tmp_path


def said(image: Image, writable: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(image.command(writable, *arguments), capture_output=True, text=True, timeout=60, check=False)


def test_its_size_is_told(image: Image, capsys: pytest.CaptureFixture[str]) -> None:
    ours = sum(path.lstat().st_size for path in (image.root / "app").rglob("*") if path.is_file()) / 2**20
    with capsys.disabled():
        print(f"\nimage: {image.size_mib:.0f} MiB of files, {ours:.0f} of them /app")
    assert ours < 300


def test_its_user_is_not_root_and_nothing_in_it_makes_one_root(image: Image) -> None:
    assert image.config["User"] == "65532:65532"
    risky = stat.S_ISUID | stat.S_ISGID
    raised = [path for path in image.root.rglob("*") if not path.is_symlink() and path.lstat().st_mode & risky]
    assert raised == []


def test_there_is_no_shell_no_installer_and_no_compiler_in_it(image: Image) -> None:
    folders = [image.root / name for name in ("app/bin", "usr/bin", "usr/sbin", "usr/local/bin")]
    assert [name for name in UNWANTED if any((folder / name).exists() for folder in folders)] == []
    assert not list(image.root.rglob("pip-*")) + list(image.root.rglob("hatchling*"))
    assert [path.name for path in (image.root / "app/bin").iterdir()] == ["rebalancer"]


def test_the_user_may_change_nothing_of_what_runs(image: Image) -> None:
    def open_to_all(path: Path) -> bool:
        mode = path.lstat()
        return not path.is_symlink() and bool(mode.st_mode & stat.S_IWOTH or mode.st_uid == 65532)

    assert [path for path in (image.root / "app").rglob("*") if open_to_all(path)] == []


def test_the_command_line_answers(image: Image, writable: Path) -> None:
    help_text = said(image, writable, "--help")
    assert help_text.returncode == 0, help_text.stderr
    assert "explain" in help_text.stdout
    checked = said(image, writable, "config", "check", policy_in(writable))
    assert checked.returncode == 0, checked.stderr


def test_its_packages_are_those_of_the_lock_and_this_version(image: Image) -> None:
    installed = {path.name for path in (image.root / "app").glob("*.dist-info")}
    assert f"rebalancer-{rebalancer.__version__}.dist-info" in installed
    assert len(installed) > 30
    assert not any(name.startswith(("pytest", "mypy", "ruff", "mkdocs")) for name in installed)


def test_its_bill_of_materials_names_every_package_at_the_version_of_the_lock(image: Image) -> None:
    bill = json.loads((image.root / "app/sbom.cdx.json").read_text())
    assert (bill["bomFormat"], bill["metadata"]["component"]["version"]) == ("CycloneDX", rebalancer.__version__)
    named = {(part["name"], part["version"]) for part in bill["components"]}
    pinned = re.findall(r"^([a-z0-9][\w.-]*)==(\S+)", (ROOT / "requirements/base.txt").read_text(), re.MULTILINE)
    assert named <= {(re.sub(r"[._]", "-", name), version) for name, version in pinned}
    assert len(named) + 1 == len(list((image.root / "app").glob("*.dist-info")))


def test_a_missing_setting_is_named_and_ends_it(image: Image, writable: Path) -> None:
    ended = said(image, writable, "run")
    assert ended.returncode != 0
    assert "REBALANCER_KAFKA_BOOTSTRAP is not set" in ended.stderr
    assert "Traceback" not in ended.stderr


async def test_the_service_starts_from_it_and_becomes_ready(image: Image, writable: Path) -> None:
    clock = ScaledClock(1.0)
    async with Sandbox(clock, build(demo_policy(), clock.now()).world) as sandbox:
        sandbox.kubernetes.write_kubeconfig(writable / "kubeconfig", "rebalancer")
        (writable / "kubeconfig").chmod(0o444)
        probe = free_port()
        settings = {
            "KAFKA_BOOTSTRAP": sandbox.bootstrap,
            "KAFKA_SECURITY_PROTOCOL": "PLAINTEXT",
            "KUBECONFIG": str(writable / "kubeconfig"),
            "POLICY_PATH": policy_in(writable),
            "JOURNAL_DIR": str(writable / "journal"),
            "API_PORT": str(free_port()),
            "PROBE_PORT": str(probe),
        }
        with ExitStack() as ends:
            reaper = Reaper()
            ends.callback(reaper.close)
            service = Process(
                image.command(writable, environment={f"REBALANCER_{name}": text for name, text in settings.items()}),
                log=writable / "service.log",
                healthy=lambda: answers(probe, "/readyz"),
                reaper=reaper,
                stop_seconds=20.0,
            )
            ends.callback(service.kill)
            await asyncio.to_thread(service.start)
            assert await asyncio.to_thread(answers, probe, "/livez")
            assert user_of(service.pid) == 65532
            await asyncio.to_thread(service.stop)
            assert service.returncode == 0, service.log_tail()
            assert list((writable / "journal").iterdir())


def policy_in(folder: Path) -> str:
    path = folder / "policy.yaml"
    path.write_text(POLICY_FILE.read_text())
    return str(path)


def user_of(pid: int | None) -> int:
    """The user id that the process runs as."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("Uid:")).split()[2])

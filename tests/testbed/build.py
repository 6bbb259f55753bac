"""Builds the real programs once, from their package registries, into a cache keyed by their pins.

A piece is a folder under `pieces/`: a Go module that holds nothing but a `tool` block, or a Maven
project that holds nothing but dependencies. What it yields lies in `<cache>/<piece>-<key>/`: `bin/`
(or `lib/` for Java) and `manifests/`, copies of the Kubernetes objects that came with the modules.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from tests.testbed.line import chosen_line

_PIECES = Path(__file__).parent / "pieces"
# Go's build cache grows to 7 GB; it goes after a cold build that leaves less room than this.
_ROOMY_DISK_BYTES = 25 * 2**30


# In C where the wheel has it: 30,000 lines of CRDs take a second instead of ten.
_YAML = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Missing(Exception):
    """The machine lacks something that the testbed needs; the message says what, and what to do."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class BuildFailed(Exception):
    """A piece did not build; the message ends with the output of its compiler."""


@dataclass(frozen=True)
class Recipe:
    """How one piece is built beyond its pins.

    `linker` are Go linker flags; `manifests` names folders of YAML files inside downloaded modules:
    our name -> (module, folder or file).
    """

    linker: tuple[str, ...] = ()
    manifests: Mapping[str, tuple[str, str]] = field(default_factory=dict)


_VERSION = "k8s.io/component-base/version"
_KEDA = "github.com/kedacore/keda/v2"
_KARPENTER = "sigs.k8s.io/karpenter"
_KWOK = "sigs.k8s.io/kwok"
_PROMETHEUS_OPERATOR = "github.com/prometheus-operator/prometheus-operator"

_LINE = chosen_line()

RECIPES: dict[str, Recipe] = {
    "kafka": Recipe(),
    # Without these clients see v0.0.0, and choose their behaviour by it.
    "kubernetes": Recipe(
        linker=(
            f"-X {_VERSION}.gitVersion=v{_LINE.kubernetes}",
            f"-X {_VERSION}.gitMajor=1",
            f"-X {_VERSION}.gitMinor={_LINE.minor}",
        ),
    ),
    "kwok": Recipe(
        manifests={
            "crds": (_KWOK, "kustomize/crd/bases/kwok.x-k8s.io_stages.yaml"),
            "node-initialize": (_KWOK, "kustomize/stage/node/fast"),
            "node-heartbeat": (_KWOK, "kustomize/stage/node/heartbeat-with-lease"),
            "pods": (_KWOK, "kustomize/stage/pod/general"),
        },
    ),
    "karpenter": Recipe(
        manifests={
            "crds": (_KARPENTER, "pkg/apis/crds"),
            "kwok-crds": (_KARPENTER, "kwok/apis/crds"),
        },
    ),
    "keda": Recipe(
        manifests={
            "crds": (_KEDA, "config/crd/bases"),
            "webhooks": (_KEDA, "config/webhooks/validation_webhooks.yaml"),
        },
    ),
    # Without a cluster it takes charts to be for this Kubernetes; unset that is 1.20.
    "helm": Recipe(
        linker=tuple(
            f"-X helm.sh/helm/v3/{place}.k8sVersion{part}={number}"
            for place in ("pkg/chartutil", "pkg/lint/rules")
            for part, number in (("Major", 1), ("Minor", 34))
        ),
    ),
    # Its CRDs: ServiceMonitor and PrometheusRule. The operator itself runs nowhere here.
    "prometheus-operator": Recipe(
        manifests={
            "servicemonitors": (
                _PROMETHEUS_OPERATOR,
                "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",
            ),
            "prometheusrules": (
                _PROMETHEUS_OPERATOR,
                "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
            ),
        },
    ),
    # What a compose file may say.
    "compose-spec": Recipe(
        manifests={"schema": ("github.com/compose-spec/compose-go/v2", "schema/compose-spec.json")},
    ),
}


@dataclass(frozen=True)
class Built:
    """Where a built piece lies."""

    folder: Path

    def program(self, name: str) -> str:
        return str(self.folder / "bin" / name)

    @property
    def jars(self) -> Path:
        return self.folder / "lib"

    def manifests(self, *names: str) -> list[dict[str, Any]]:
        """The objects of these entries of the recipe, in order of their files."""
        files = [file for name in names for file in sorted((self.folder / "manifests" / name).glob("*.yaml"))]
        return [obj for file in files for obj in yaml.load_all(file.read_text(), Loader=_YAML) if obj]


def build(piece: str) -> Built:
    """The built piece, from the cache if it is there.

    A second run that wants the same waits for the first; what is built, or of another line, waits for nobody.

    Raises `Missing` when the machine has no toolchain for it, `BuildFailed` when it does not compile.
    """
    toolchain = _maven_toolchain() if _is_java(piece) else _go_toolchain(piece)
    cache = cache_folder()
    home = cache / f"{piece}-{_key(piece, toolchain)}"
    if not home.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with _locked(cache / f"{home.name}.lock"):
            if not home.exists():
                _build_cold(piece, home)
    return Built(home)


def cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "rebalancer-testbed"


def pinned_version(piece: str) -> str:
    """Which version of the module that a recipe takes manifests of is pinned on this line, without its v."""
    module, _ = next(iter(RECIPES[piece].manifests.values()))
    words = (_pins(piece) / "go.mod").read_text().split()
    return next(after.removeprefix("v") for word, after in pairwise(words) if word == module and after[0] == "v")


def _pins(piece: str) -> Path:
    """Its folder: one for each line where the lines differ, else one for both."""
    of_line = _PIECES / _LINE.name / piece
    return of_line if of_line.exists() else _PIECES / piece


def _is_java(piece: str) -> bool:
    return (_pins(piece) / "pom.xml").exists()


def _key(piece: str, toolchain: str) -> str:
    digest = hashlib.sha256(f"{toolchain}\n{RECIPES[piece]}\n".encode())
    for file in sorted(_pins(piece).iterdir()):
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _build_cold(piece: str, home: Path) -> None:
    """Build beside `home` and rename: a build that was interrupted leaves nothing that looks finished."""
    _say(f"building {piece} (once, minutes for Go)")
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix=f".{piece}-", dir=home.parent, ignore_cleanup_errors=True) as scratch:
        work = Path(scratch) / "out"
        work.mkdir()
        if _is_java(piece):
            _build_java(piece, work)
        else:
            _build_go(piece, work)
        work.rename(home)
    _say(f"built {piece} in {time.monotonic() - started:.0f} s")
    if not _is_java(piece) and shutil.disk_usage(home).free < _ROOMY_DISK_BYTES:
        shutil.rmtree(_go_cache(), ignore_errors=True)


def _build_go(piece: str, work: Path) -> None:
    recipe = RECIPES[piece]
    flags = " ".join(("-s", "-w", *recipe.linker))
    if _has_programs(piece):
        (work / "bin").mkdir()
        _run(piece, "go", "build", "-trimpath", "-ldflags", flags, "-o", f"{work / 'bin'}/", "tool")
    for module in sorted({module for module, _ in recipe.manifests.values()}):
        _run(piece, "go", "mod", "download", module)
    for name, (module, path) in recipe.manifests.items():
        source = Path(_run(piece, "go", "list", "-m", "-f", "{{.Dir}}", module).strip()) / path
        target = work / "manifests" / name
        target.mkdir(parents=True)
        for file in source.glob("*.yaml") if source.is_dir() else [source]:
            if file.name != "kustomization.yaml":
                # Modules are read-only files; the copy need not be.
                (target / file.name).write_bytes(file.read_bytes())


def _has_programs(piece: str) -> bool:
    """A module without a `tool` is wanted for its manifests alone."""
    return any(line.startswith("tool ") for line in (_pins(piece) / "go.mod").read_text().splitlines())


def _build_java(piece: str, work: Path) -> None:
    _run(
        piece, "mvn", "--batch-mode", "--quiet", "dependency:copy-dependencies",
        f"-DoutputDirectory={work / 'lib'}",
    )  # fmt: skip


def _go_toolchain(piece: str) -> str:
    if shutil.which("go") is None:
        raise Missing("`go` is not on the PATH; install Go 1.26.6 or newer")
    try:
        # Fails when this Go is older than the module wants and may not fetch a newer one.
        _run(piece, "go", "list", "-m")
        return _run(piece, "go", "version")
    except BuildFailed as error:
        raise Missing(f"the installed Go cannot build {piece}: {error}") from error


def _maven_toolchain() -> str:
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            raise Missing(f"`{program}` is not on the PATH; install a JDK (17 or newer) and Maven")
    return "java"  # jars do not depend on who fetched them


def _go_cache() -> Path:
    """A build cache of our own, so that deleting it costs nobody else anything."""
    return cache_folder() / "go-build"


def _run(piece: str, *command: str) -> str:
    environment = os.environ | {
        "CGO_ENABLED": "0",
        "GOCACHE": str(_go_cache()),
        "GOFLAGS": "-mod=readonly",
        # A module that names a newer toolchain than the installed one is built by that, from the module proxy.
        "GOTOOLCHAIN": "auto",
        "GOWORK": "off",
    }
    done = subprocess.run(command, cwd=_pins(piece), env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BuildFailed(f"{' '.join(command)}\n{(done.stderr + done.stdout)[-4000:]}")
    return done.stdout


@contextlib.contextmanager
def _locked(file: Path) -> Iterator[None]:
    with file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _say(line: str) -> None:
    print(f"testbed: {line}", file=sys.stderr, flush=True)

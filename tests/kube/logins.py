"""What tests of logins share: a clock that moves by sleeping or by hand, and a kubeconfig."""

from pathlib import Path

from ruamel.yaml import YAML


class HandClock:
    """Time that only sleeping moves, and the test."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> float:
        return self.seconds

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds


def a_kubeconfig(folder: Path, server: str, **user: object) -> Path:
    """Two contexts: `here` (current) as asked for, `elsewhere` with a token of its own."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [
            {"name": "u", "user": user},
            {"name": "other", "user": {"token": "other-token"}},
        ],
        "contexts": [
            {"name": "here", "context": {"cluster": "c", "user": "u"}},
            {"name": "elsewhere", "context": {"cluster": "c", "user": "other"}},
        ],
    }
    path = folder / "kubeconfig"
    YAML().dump(config, path)
    return path

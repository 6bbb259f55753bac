"""A rendered pod without a container runtime: its files as the kubelet lays them, its environment with their places."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.chart.helm import Json


@dataclass(frozen=True)
class Pod:
    """A pod's template with a folder for its mounts. `sources`: what Secrets and ConfigMaps hold, by name and key."""

    template: Json
    folder: Path
    sources: Mapping[str, Mapping[str, str]]

    @property
    def container(self) -> Json:
        (only,) = self.template["spec"]["containers"]
        return only  # type: ignore[no-any-return]  # as YAML is

    def mount(self) -> None:
        """Lay every volume's files, or lay them anew after `sources` changed."""
        volumes = {each["name"]: each for each in self.template["spec"]["volumes"]}
        for mount in self.container["volumeMounts"]:
            flip(self._place(mount["mountPath"]), dict(self._files(volumes[mount["name"]])))

    def environment(self) -> dict[str, str]:
        """The container's variables, with our folder before every path that is a mount's."""
        return {each["name"]: self._moved(each["value"]) for each in self.container["env"] if "value" in each}

    def _place(self, path: str) -> Path:
        return self.folder / path.lstrip("/")

    def _moved(self, value: str) -> str:
        paths = [mount["mountPath"] for mount in self.container["volumeMounts"]]
        inside = any(value == path or value.startswith(f"{path}/") for path in paths)
        return str(self._place(value)) if inside else value

    def _files(self, volume: Json) -> list[tuple[str, str]]:
        files: list[tuple[str, str]] = []
        for source in volume.get("projected", {}).get("sources", [volume]):
            if "secret" in source or "configMap" in source:
                kind = source.get("secret") or source["configMap"]
                held = self.sources[kind.get("secretName") or kind["name"]]
                keys = kind.get("items") or [{"key": key, "path": key} for key in held]
                files += [(each["path"], held[each["key"]]) for each in keys]
            if "serviceAccountToken" in source:
                token = source["serviceAccountToken"]
                files.append((token["path"], self.sources["tokens"][token.get("audience", "")]))
        return files


def flip(folder: Path, files: Mapping[str, str]) -> None:
    """Put files into a folder as the kubelet does: a new folder beside, and one link that is turned over to it."""
    folder.mkdir(parents=True, exist_ok=True)
    if not files:
        return
    fresh = folder / f"..{secrets.token_hex(4)}"
    fresh.mkdir()
    for name, text in files.items():
        (fresh / name).write_text(text)
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(Path("..data") / name)
    turned = folder / "..data_tmp"
    turned.symlink_to(fresh.name)
    turned.rename(folder / "..data")

"""The definitions of our own two kinds: what kubectl explains and prints of them, and what is refused.

The chart's `crds/` are written from them (`make generate`).
"""

from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Final

from ruamel.yaml import YAML

from rebalancer.sandbox.api.resources import OVERRIDES, WRITESTOPS, Obj, ServedResource

_FOLDER: Final = files("rebalancer.sandbox") / "crds"
_DEFINED: Final = (OVERRIDES, WRITESTOPS)


def texts() -> Mapping[str, str]:
    """The file of each definition, by its name."""
    return {name: (_FOLDER / name).read_text() for name in (f"{each.plural}.yaml" for each in _DEFINED)}


def _version(text: str) -> Obj:
    """The one version of a definition."""
    version: Obj = YAML(typ="safe").load(text)["spec"]["versions"][0]
    return version


_VERSIONS: Final = {each: _version(texts()[f"{each.plural}.yaml"]) for each in _DEFINED}


def schema(resource: ServedResource) -> Obj | None:
    """What its objects must look like; None for what others define."""
    return _VERSIONS[resource]["schema"]["openAPIV3Schema"] if resource in _VERSIONS else None


def columns(resource: ServedResource) -> Iterator[Obj]:
    """The columns that its definition chooses for `kubectl get`."""
    yield from _VERSIONS[resource]["additionalPrinterColumns"] if resource in _VERSIONS else ()

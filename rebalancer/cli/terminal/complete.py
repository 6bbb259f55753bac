"""What the shell's completion asks the service: names, at once or not at all."""

from collections.abc import Callable, Iterable
from typing import Any

SECONDS = 1.0


def models(incomplete: str) -> list[str]:
    """Ids of models that begin so."""
    return _beginning(incomplete, "/v1/plan", lambda body: [each["model"] for each in body["models"]])


def overrides(incomplete: str) -> list[str]:
    """Names of overrides that begin so."""
    return _beginning(incomplete, "/v1/overrides", lambda body: [each["name"] for each in body["overrides"]])


def subjects(incomplete: str) -> list[str]:
    """What an override can be about: models, nodes and pools that begin so."""
    return _beginning(incomplete, "/v1/snapshot", _subjects)


def _subjects(body: dict[str, list[dict[str, str]]]) -> list[str]:
    names = [each["id"] for each in body["models"]]
    return [*names, *(f"{kind}/{each['name']}" for kind in ("node", "pool") for each in body.get(f"{kind}s", []))]


def _beginning(incomplete: str, path: str, names: Callable[[Any], Iterable[str]]) -> list[str]:
    """A shell waits for this: any failure is an empty answer, and nothing is printed."""
    import asyncio
    import json
    import os

    from rebalancer.cli.remote.client import open_api
    from rebalancer.cli.remote.where import SERVICE_NAMESPACE, Where

    async def ask() -> bytes:
        async with asyncio.timeout(SECONDS), open_api(where) as api:
            return await api.get(path)

    namespace = os.environ.get("REBALANCER_SERVICE_NAMESPACE") or SERVICE_NAMESPACE
    where = Where(os.environ.get("REBALANCER_SERVER") or None, namespace=namespace)
    try:
        return sorted(name for name in names(json.loads(asyncio.run(ask()))) if name.startswith(incomplete))
    except Exception:  # noqa: BLE001  a traceback in the middle of a half-typed line helps nobody
        return []

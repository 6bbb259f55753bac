"""Signed Kafka records become Override objects, and the keys that sign them come from a folder of files."""

import asyncio
import re
from collections.abc import Callable
from pathlib import Path

import structlog

from rebalancer.app.drafts import ASKED, Misshapen, OverrideDraft, name_of, usual_seconds
from rebalancer.domain.policy import Policy
from rebalancer.ingest.override_queue import TryAgain
from rebalancer.ingest.signed import LEAST_KEY_BYTES, Signatures, SignedOverride
from rebalancer.kube.client import KubeClient
from rebalancer.kube.errors import Ambiguous, Conflict, Forbidden, Invalid, KubeError, NotFound
from rebalancer.kube.resources import OVERRIDES, Ref
from rebalancer.obs.clock import Clock

ACTOR = "kafka:"
KEYS_LOOK_SECONDS = 10.0

_KEYID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")

log = structlog.get_logger()


def read_keys(folder: Path) -> dict[str, bytes]:
    """Secrets by key id: each file's name and bytes, without a last line break. Raises OSError.

    What is no key is told and left out: names that are none (a mounted Secret has `..data`), secrets that are short.
    """
    keys = {}
    for path in sorted(folder.iterdir()):
        if not _KEYID.fullmatch(path.name) or not path.is_file():
            continue
        secret = path.read_bytes().rstrip(b"\r\n")
        if len(secret) < LEAST_KEY_BYTES:
            log.error("signing key is ignored", key=path.name, why=f"{len(secret)} bytes, at least {LEAST_KEY_BYTES}")
        else:
            keys[path.name] = secret
    return keys


async def look_for_keys(folder: Path, signatures: Signatures) -> None:
    """Take the folder's keys; one that cannot be read leaves those there are."""
    try:
        signatures.keys = await asyncio.to_thread(read_keys, folder)
    except OSError as error:
        log.warning("signing keys cannot be read", folder=str(folder), error=str(error))


async def follow_keys(folder: Path, signatures: Signatures, clock: Clock) -> None:
    """Keys come and go with their files, for ever."""
    while True:
        await clock.sleep(KEYS_LOOK_SECONDS)
        await look_for_keys(folder, signatures)


class SignedOverrideWriter:
    """Implements `ingest.override_queue.OverrideWriter`."""

    def __init__(self, kube: KubeClient, policy: Callable[[], Policy], own_namespace: str) -> None:
        self._kube = kube
        self._policy = policy
        self._own_namespace = own_namespace

    async def write(self, signed: SignedOverride) -> str | None:
        """Make the object; one that is there already under the event's name is the same override, or none of ours."""
        draft = self._draft(signed)
        try:
            draft.check(self._policy(), self._own_namespace)
            await self._kube.create(OVERRIDES, draft.manifest())
        except Misshapen as error:
            return f"{error.where}: {error}"
        except Conflict:
            return await self._conflict(draft)
        except Ambiguous as error:
            raise TryAgain(str(error)) from error
        except Forbidden as error:
            if "dmission" in str(error):
                return str(error)
            raise TryAgain(str(error)) from error
        except (Invalid, NotFound) as error:
            return str(error)
        except KubeError as error:
            raise TryAgain(str(error)) from error
        log.info("override", name=draft.name, namespace=draft.namespace, actor=draft.actor)
        return None

    def _draft(self, signed: SignedOverride) -> OverrideDraft:
        policy = self._policy()
        model = next((each for each in policy.models if each.id == signed.model), None)
        return OverrideDraft(
            name=name_of("kafka", signed.keyid, signed.id),
            namespace=signed.namespace or (model.namespace if model is not None else self._own_namespace),
            actor=f"{ACTOR}{signed.keyid}",
            kind=signed.kind,
            reason=signed.reason,
            created_at=signed.at,
            seconds=signed.seconds or usual_seconds(signed.kind, policy),
            model=signed.model,
            node=signed.node,
            pool=signed.pool,
            value=signed.value,
            allow_below_floor=signed.allow_below_floor,
        )

    async def _conflict(self, draft: OverrideDraft) -> str | None:
        try:
            stored = await self._kube.get(Ref(OVERRIDES, draft.namespace, draft.name))
        except KubeError as error:
            raise TryAgain(str(error)) from error
        same = stored["metadata"].get("annotations", {}).get(ASKED) == draft.digest
        return None if same else f"another override is named {draft.name} already"

"""The values that an object had before our first write: saved on it in one annotation, as JSON.

`{"min": .., "max": .., "by": ..}` on an autoscaler, `{"limits": .., "budgets": .., "by": ..}` on a NodePool; null means
that the key was absent. Limits are saved with our first write of them, not with a mere hold. `by` names the
installation that wrote: two of them in one cluster leave each other's objects alone. Where it is missing an older
version wrote; the installation whose policy names the target takes that over.
"""

from typing import Any, Final

import msgspec

from rebalancer.act.driver import Refused
from rebalancer.kube.resources import Object
from rebalancer.leader.lease import EPOCH

ANNOTATION = "rebalancer.io/originals"
BY: Final = "by"


def saved_on(obj: Object, installation: str) -> Object | None:
    """The values that `installation`, or an unnamed one, saved on `obj`; None when nothing was saved.

    Raises Refused when the annotation cannot be read (to write then would lose what it stood for), and when another
    installation wrote it.
    """
    text = (obj["metadata"].get("annotations") or {}).get(ANNOTATION)
    if text is None:
        return None
    try:
        saved = msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError as error:
        why = f"annotation {ANNOTATION} is not a JSON object ({error}); set it right, or remove it to save anew"
        raise Refused("originals", why) from error
    if owner_of(saved) not in {"", installation}:
        raise Refused(
            "installation",
            f"{obj['metadata']['name']} is held by installation {owner_of(saved)}, we are {installation}",
        )
    return saved


def owner_of(saved: Object) -> str:
    """The installation that saved it, "" where none is named."""
    return str(saved.get(BY) or "")


def annotated(originals: Object | None, installation: str = "") -> Object:
    """The metadata of a merge patch that saves `originals` in our name, or removes them (None) with the epoch.

    Keys keep their order. An installation without a name puts none there.
    """
    if originals is None:
        return {"annotations": {ANNOTATION: None, EPOCH: None}}
    if installation:
        originals = {**originals, BY: installation}
    return {"annotations": {ANNOTATION: msgspec.json.encode(originals).decode()}}


def named(obj: Object, installation: str) -> Object | None:
    """The merge patch that puts our name to what is saved on `obj`; None where it is there, or nothing is saved.

    Raises Refused as `saved_on` does.
    """
    saved = saved_on(obj, installation)
    if saved is None or owner_of(saved) == installation:
        return None
    return {"metadata": annotated(saved, installation)}

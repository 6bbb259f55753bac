"""What an object was before our first write to it: saved on it in one annotation, as JSON.

`{"min": .., "max": ..}` on an autoscaler, `{"limits": .., "budgets": ..}` on a NodePool; null = the key was absent.
"""

from typing import Any

import msgspec

from rebalancer.act.driver import Refused
from rebalancer.kube.resources import Object

ANNOTATION = "rebalancer.io/originals"


def saved_on(obj: Object) -> Object | None:
    """What was saved on `obj`, None when nothing was.

    Raises Refused when the annotation cannot be read: to write then would lose what it stood for.
    """
    text = (obj["metadata"].get("annotations") or {}).get(ANNOTATION)
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError as error:
        why = f"annotation {ANNOTATION} is not a JSON object ({error}); set it right, or remove it to save anew"
        raise Refused("originals", why) from error


def annotated(originals: Object | None) -> Object:
    """The metadata of a merge patch that saves `originals`, or removes them (None). Keys keep their order."""
    text = None if originals is None else msgspec.json.encode(originals).decode()
    return {"annotations": {ANNOTATION: text}}

"""The generated Kubernetes clients as tests use them."""

from collections.abc import Callable, Coroutine
from typing import Any, Protocol


class Generated(Protocol):
    """Any method: the stubs know neither `_content_type` nor bodies that are plain dicts."""

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]: ...

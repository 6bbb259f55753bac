"""The composition root: the only room that knows every other. `Service` is the whole service in one object."""

from rebalancer.app.service import Service

__all__ = ["Service"]

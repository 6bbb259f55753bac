"""Callers and their permissions: the values, and the two authorities that can say who and what."""

from typing import Final, Protocol

from aiohttp import web
from msgspec import Struct

from rebalancer.api.http.responses import ApiError
from rebalancer.api.http.route import RoutePermission
from rebalancer.domain.people import LOCAL

GROUP: Final = "rebalancer.io"


class Principal(Struct, frozen=True):
    """An authenticated user, as the API server knows it.

    user: its name; `local` where no login is needed.
    groups: names of the groups it is in.
    uid: its UID, "" where the API server gives none.
    extra: what else an access review is to know of it, as pairs of a key and its values, sorted by key.
    """

    user: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


PRINCIPAL: Final = web.RequestKey("principal", Principal)


class Authority(Protocol):
    """Says who a token's bearer is, and what a principal may do. Raises ApiError 503 when it cannot tell."""

    trusting: bool
    """Whether callers need no token: then every caller is `local`."""

    def knows(self, token: str) -> bool:
        """Whether `who` answers without asking anybody."""
        ...

    async def who(self, token: str) -> Principal | None:
        """The token's bearer; None when the token is not good here."""
        ...

    async def may(self, principal: Principal, permission: RoutePermission, namespace: str = "") -> bool:
        """Whether the principal may; `namespace` empty: in the whole cluster."""
        ...


class Trusting:
    """Everybody who reaches the port is `local` and may do everything: for one's own machine, on loopback."""

    trusting = True

    def knows(self, token: str) -> bool:  # noqa: ARG002  any token, or none
        """Yes."""
        return True

    async def who(self, token: str) -> Principal | None:  # noqa: ARG002  any token, or none
        """The one user there is."""
        return Principal(LOCAL)

    async def may(self, principal: Principal, permission: RoutePermission, namespace: str = "") -> bool:  # noqa: ARG002  whoever it is
        """Yes."""
        return True


def forbidden(principal: Principal, permission: RoutePermission, namespace: str = "") -> ApiError:
    """The answer to somebody who may not."""
    what = f"{permission.verb} {permission.resource}.{GROUP}"
    where = f" in namespace {namespace}" if namespace else ""
    option = f" --namespace {namespace}" if namespace else ""
    return ApiError(
        403,
        f"{principal.user} may not {what}{where}",
        f"ask for that right; it is there when `kubectl auth can-i {what}{option} --as {principal.user}` says yes",
    )

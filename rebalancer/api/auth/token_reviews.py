"""The API server as the authority: TokenReview with our audience, SubjectAccessReview for each verb.

It fails closed: while the API server is away nobody gets in but those whose token it approved less than a minute ago.
"""

import hashlib
import secrets
from typing import Final, Protocol

from rebalancer.api.auth.authority import GROUP, Principal
from rebalancer.api.auth.ttl_cache import TtlCache
from rebalancer.api.http.responses import ApiError
from rebalancer.api.http.route import RoutePermission
from rebalancer.kube.errors import Forbidden, KubeError
from rebalancer.kube.resources import ACCESSREVIEWS, TOKENREVIEWS, Object, Resource
from rebalancer.obs.clock import Clock

AUDIENCE: Final = "rebalancer"
TOKEN_SECONDS: Final = 60.0
REFUSED_SECONDS: Final = 10.0
ACCESS_SECONDS: Final = 10.0  # a right that was taken away ends within this
MOST: Final = 4096
RETRY_SECONDS: Final = 5
TOKEN_CHARACTERS: Final = 8192


class Reviewer(Protocol):
    """The part of the Kubernetes client that is needed here."""

    async def review(self, resource: Resource, spec: Object) -> Object:
        """The review's status. Raises KubeError."""
        ...


class Reviews:
    """`kube` is None until there is a way to the API server: until then nobody gets in."""

    trusting = False

    def __init__(self, clock: Clock, audience: str = AUDIENCE) -> None:
        self.kube: Reviewer | None = None
        self._audience = audience
        self._key = secrets.token_bytes(32)
        self._bearers: TtlCache[bytes, Principal | None] = TtlCache(clock, MOST)
        self._rights: TtlCache[tuple[Principal, str, str, str], bool] = TtlCache(clock, MOST)

    def knows(self, token: str) -> bool:
        """Whether its bearer is at hand."""
        return self._bearers.has(self._hash(token))

    async def who(self, token: str) -> Principal | None:
        """The token's bearer, None when the API server does not accept it for our audience."""
        if not token or len(token) > TOKEN_CHARACTERS:
            return None
        return await self._bearers.get(self._hash(token), lambda: self._bearer(token))

    async def may(self, principal: Principal, permission: RoutePermission, namespace: str = "") -> bool:
        """Whether RBAC, or whoever else authorises there, allows it."""
        key = (principal, permission.verb, permission.resource, namespace)
        return await self._rights.get(key, lambda: self._right(principal, permission, namespace))

    def _hash(self, token: str) -> bytes:
        """Tokens are found by a hash under a key of this process: neither memory nor timing tells of them."""
        return hashlib.blake2b(token.encode(), key=self._key).digest()

    async def _bearer(self, token: str) -> tuple[Principal | None, float]:
        status = await self._review(TOKENREVIEWS, {"token": token, "audiences": [self._audience]})
        # An authenticator that knows nothing of audiences names none: its tokens were made for the API server.
        if status.get("authenticated") is not True or self._audience not in status.get("audiences", ()):
            return None, REFUSED_SECONDS
        user = status.get("user", {})
        extra = tuple((key, tuple(values)) for key, values in sorted(user.get("extra", {}).items()))
        groups = tuple(user.get("groups", ()))
        return Principal(user.get("username", ""), groups, user.get("uid", ""), extra), TOKEN_SECONDS

    async def _right(self, principal: Principal, permission: RoutePermission, namespace: str) -> tuple[bool, float]:
        wanted = {"group": GROUP, "resource": permission.resource, "verb": permission.verb, "namespace": namespace}
        status = await self._review(
            ACCESSREVIEWS,
            {
                "user": principal.user,
                "groups": list(principal.groups),
                "uid": principal.uid,
                "extra": {key: list(values) for key, values in principal.extra},
                "resourceAttributes": wanted,
            },
        )
        return status.get("allowed") is True, ACCESS_SECONDS

    async def _review(self, resource: Resource, spec: Object) -> Object:
        if self.kube is None:
            raise _away("the service is coming up", "try again in a moment")
        try:
            return await self.kube.review(resource, spec)
        except Forbidden as error:
            raise _away(
                f"the service may not create {resource}", "its account needs that right: the chart grants it"
            ) from error
        except KubeError as error:
            raise _away("the API server gives no answer", "nobody gets in without it; try again") from error


def _away(why: str, fix: str) -> ApiError:
    return ApiError(503, f"who you are cannot be checked: {why}", fix, retry_after_seconds=RETRY_SECONDS)

"""What the API server answers without keeping anything: who calls, whose token it is, what somebody may do; tokens."""

from collections.abc import Callable
from datetime import UTC, datetime

from rebalancer.sandbox.api.resources import Obj

SELF_PATH = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
TOKENS_PATH = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS_PATH = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
SELF_ACCESS_PATH = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
TOKEN_DEPTH = 7  # api/v1/namespaces/NS/serviceaccounts/NAME/token
LEAST_SECONDS = 3600

Allow = Callable[[str, Obj], bool]  # (user, resourceAttributes): whether RBAC would allow it


def reviewed(  # noqa: PLR0913  one answer, and all that it depends on
    path: str, body: Obj, user: str, now: float, token_prefix: str, allow: Allow
) -> Obj | None:
    """The answer to a POST at `path`, None when it is no review. Tokens are `token_prefix` and the account's name.

    They are good for every audience.
    """
    spec: Obj = body.get("spec", {})
    if path == SELF_PATH:
        head = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview", "metadata": {}}
        return {**head, **body, "status": {"userInfo": {"username": user}}}
    if path == TOKENS_PATH:
        return {**body, "status": _bearer(spec, token_prefix)}
    if path == ACCESS_PATH:
        return {**body, "status": {"allowed": allow(spec["user"], spec["resourceAttributes"])}}
    if path == SELF_ACCESS_PATH:
        return {**body, "status": {"allowed": allow(user, spec["resourceAttributes"])}}
    parts = path.strip("/").split("/")
    if len(parts) != TOKEN_DEPTH or (parts[2], parts[4], parts[6]) != ("namespaces", "serviceaccounts", "token"):
        return None
    seconds = int(spec.get("expirationSeconds") or LEAST_SECONDS)
    expires = datetime.fromtimestamp(now + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    token = f"{token_prefix}system:serviceaccount:{parts[3]}:{parts[5]}"
    return {**body, "status": {"token": token, "expirationTimestamp": expires}}


def _bearer(spec: Obj, token_prefix: str) -> Obj:
    token: str = spec.get("token", "")
    if not token.startswith(token_prefix):
        return {"authenticated": False, "error": "invalid bearer token"}
    user = {"username": token.removeprefix(token_prefix), "groups": ["system:authenticated"]}
    return {"authenticated": True, "user": user, "audiences": spec.get("audiences", [])}

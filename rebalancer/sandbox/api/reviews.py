"""What the API server answers without keeping anything: who the caller is, and tokens of service accounts."""

from datetime import UTC, datetime

from rebalancer.sandbox.api.resources import Obj

SELF_PATH = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
TOKEN_DEPTH = 7  # api/v1/namespaces/NS/serviceaccounts/NAME/token
LEAST_SECONDS = 3600


def reviewed(path: str, body: Obj, user: str, now: float, token_prefix: str) -> Obj | None:
    """The answer to a POST at `path`, None when it is no review. Tokens are `token_prefix` and the account's name."""
    if path == SELF_PATH:
        return {**body, "status": {"userInfo": {"username": user}}}
    parts = path.strip("/").split("/")
    if len(parts) != TOKEN_DEPTH or (parts[2], parts[4], parts[6]) != ("namespaces", "serviceaccounts", "token"):
        return None
    seconds = int(body.get("spec", {}).get("expirationSeconds") or LEAST_SECONDS)
    expires = datetime.fromtimestamp(now + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    token = f"{token_prefix}system:serviceaccount:{parts[3]}:{parts[5]}"
    return {**body, "status": {"token": token, "expirationTimestamp": expires}}

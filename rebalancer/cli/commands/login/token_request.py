"""A token for the service's API, requested in the person's name."""

from rebalancer.api.http.json_codec import instant_of
from rebalancer.cli.failure import Failed
from rebalancer.cli.remote.client import place_of
from rebalancer.cli.remote.cluster import open_cluster
from rebalancer.cli.remote.tokens import Token
from rebalancer.cli.remote.where import Where
from rebalancer.kube.access import find_access
from rebalancer.kube.errors import Forbidden, KubeError, NotFound
from rebalancer.kube.resources import SERVICEACCOUNTS, Ref

AUDIENCE = "rebalancer"


async def request_token(where: Where, account: str, seconds: int) -> Token:
    """A token of service account `account` that only the rebalancer accepts. Raises Failed."""
    ref = Ref(SERVICEACCOUNTS, where.namespace, account)
    async with open_cluster(where) as cluster:
        try:
            answer = await cluster.kube.create_token(ref, AUDIENCE, seconds)
        except NotFound as error:
            fix = "--service-namespace and --release say where the chart is installed"
            raise Failed(f"no service account {account} in namespace {where.namespace}; {fix}") from error
        except Forbidden as error:
            right = f"create serviceaccounts/token of {account} in namespace {where.namespace}"
            raise Failed(f"you may not {right}; ask whoever runs the cluster for this right") from error
        status = answer["status"]
        place = place_of(cluster.access.server, where)
        return Token(place, account, str(status["token"]), instant_of(status["expirationTimestamp"]))


async def place(where: Where) -> str:
    """Under which name the token is kept. Raises Failed."""
    if where.address is not None:
        return where.address
    try:
        return place_of((await find_access(where.kubeconfig, where.context)).server, where)
    except KubeError as error:
        raise Failed(str(error)) from error

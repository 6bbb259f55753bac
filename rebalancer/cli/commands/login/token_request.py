"""A token for the service's API, requested in the person's name."""

from collections.abc import Sequence

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
CHART, LONGEST = "rebalancer", 40  # of `rebalancer.fullname` in the chart


def accounts_of(release: str, role: str) -> tuple[str, ...]:
    """What the chart may have called the release's account: its own name stands behind one that does not have it."""
    names = (release,) if CHART in release else (release, f"{release}-{CHART}")
    return tuple(f"{name[:LONGEST].removesuffix('-')}-{role}" for name in names)


async def request_token(where: Where, accounts: Sequence[str], seconds: int) -> Token:
    """A token that only the rebalancer accepts, of the first of these accounts for which there is one. Raises Failed.

    Who may ask for the second one's tokens is mostly forbidden the first one's, there or not.
    """
    refusals: list[NotFound | Forbidden] = []
    async with open_cluster(where) as cluster:
        for account in accounts:
            try:
                answer = await cluster.kube.create_token(
                    Ref(SERVICEACCOUNTS, where.namespace, account), AUDIENCE, seconds
                )
            except (NotFound, Forbidden) as error:
                refusals.append(error)
            else:
                status = answer["status"]
                place = place_of(cluster.access.server, where)
                return Token(place, account, str(status["token"]), instant_of(status["expirationTimestamp"]))
    either = f"{' or '.join(accounts)} in namespace {where.namespace}"
    if isinstance(refusals[-1], NotFound):
        fix = "--service-namespace and --release say where the chart is installed"
        raise Failed(f"no service account {either}; {fix}") from refusals[-1]
    right = f"create serviceaccounts/token of {either}"
    raise Failed(f"you may not {right}; ask whoever runs the cluster for this right") from refusals[-1]


async def place(where: Where) -> str:
    """Under which name the token is kept. Raises Failed."""
    if where.address is not None:
        return where.address
    try:
        return place_of((await find_access(where.kubeconfig, where.context)).server, where)
    except KubeError as error:
        raise Failed(str(error)) from error

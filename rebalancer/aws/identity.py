"""The service's identity at AWS: botocore finds it, renews it, and signs requests (Signature Version 4). Blocks.

It looks where every AWS client does: environment, a role for the pod's account (IRSA, EKS Pod Identity), files, the
machine's own. It comes with the extra `aws`.
"""

import asyncio
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from botocore.credentials import Credentials

NEEDS = "signing requests for AWS needs the extra: pip install 'rebalancer[aws]'"
NOBODY = (
    "no AWS identity: give our service account a role (serviceAccountAnnotations of the chart, with "
    "eks.amazonaws.com/role-arn, or EKS Pod Identity), or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
)


class NoIdentity(OSError):
    """AWS would not know us; the text says why. An OSError, as an absent server is one: it is tried again."""


@cache  # they renew themselves: whoever made new ones for each request would ask AWS for a role every 15 s
def credentials() -> "Credentials":
    """The process' own. Raises NoIdentity without the extra, or without an identity."""
    try:
        from botocore import exceptions, session  # noqa: PLC0415  only with the extra
    except ImportError as error:
        raise NoIdentity(NEEDS) from error
    try:
        mine = session.get_session().get_credentials()
    except exceptions.BotoCoreError as error:
        raise NoIdentity(f"no AWS identity: {error}") from error
    if mine is None:
        raise NoIdentity(NOBODY)
    return mine


class Signer(Protocol):
    """Signs requests, so that AWS knows them as ours: `AwsIdentity`."""

    async def signed(self, url: str, headers: Mapping[str, str], body: bytes) -> Mapping[str, str]:
        """The headers of a POST, with its signature. Raises NoIdentity."""
        ...


class AwsIdentity:
    """Signs for SQS in one region; finding and renewing the identity are calls over the network, made in a thread."""

    def __init__(self, region: str) -> None:
        self._region = region

    async def signed(self, url: str, headers: Mapping[str, str], body: bytes) -> Mapping[str, str]:
        """The headers with the signature, which is good for five minutes. Raises NoIdentity, also without the extra."""
        try:
            return await asyncio.to_thread(self._sign, url, headers, body)
        except NoIdentity:
            raise
        except Exception as error:
            raise NoIdentity(f"no AWS identity for SQS in {self._region}: {error!r}") from error

    def _sign(self, url: str, headers: Mapping[str, str], body: bytes) -> Mapping[str, str]:
        mine = credentials()
        from botocore import auth, awsrequest  # noqa: PLC0415  only with the extra

        request = awsrequest.AWSRequest("POST", url, dict(headers), body)
        auth.SigV4Auth(mine, "sqs", self._region).add_auth(request)
        return dict(request.headers.items())

"""Who we are to AWS: botocore finds the pod's identity, renews it, and signs each request (Signature Version 4)."""

import asyncio
from collections.abc import Mapping
from typing import Any, Protocol

NEEDS = "a queue of SQS needs the extra: pip install 'rebalancer[sqs]'"


class NoIdentity(OSError):
    """AWS would not know us; the text says why. An OSError, as an absent server is one: it is tried again."""


class Signer(Protocol):
    """Who makes a request one of ours: `AwsIdentity`."""

    async def signed(self, url: str, headers: Mapping[str, str], body: bytes) -> Mapping[str, str]:
        """The headers of a POST, with its signature. Raises NoIdentity."""
        ...


class AwsIdentity:
    """The pod's identity: its role's token (IRSA), EKS Pod Identity, keys of the environment, whatever botocore finds.

    Finding and renewing it are calls over the network, which run in a thread.
    """

    def __init__(self, region: str) -> None:
        self._region = region
        self._credentials: Any = None  # botocore has no types

    async def signed(self, url: str, headers: Mapping[str, str], body: bytes) -> Mapping[str, str]:
        """The headers with the signature, which is good for five minutes. Raises NoIdentity, also without the extra."""
        try:
            return await asyncio.to_thread(self._sign, url, headers, body)
        except ImportError as error:
            raise NoIdentity(NEEDS) from error
        except NoIdentity:
            raise
        except Exception as error:
            raise NoIdentity(f"no AWS identity for SQS in {self._region}: {error!r}") from error

    def _sign(self, url: str, headers: Mapping[str, str], body: bytes) -> Mapping[str, str]:
        from botocore.auth import SigV4Auth  # noqa: PLC0415  only with the extra
        from botocore.awsrequest import AWSRequest  # noqa: PLC0415  same
        from botocore.session import Session  # noqa: PLC0415  same

        if self._credentials is None:
            self._credentials = Session().get_credentials()
        if self._credentials is None:
            raise NoIdentity(
                "no AWS identity: give the service's account a role (serviceAccount.annotations of the chart, with "
                "eks.amazonaws.com/role-arn), or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            )
        request = AWSRequest("POST", url, dict(headers), body)
        SigV4Auth(self._credentials, "sqs", self._region).add_auth(request)
        return dict(request.headers.items())

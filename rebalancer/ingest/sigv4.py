"""Requests signed as AWS wants them (Signature Version 4), for Amazon Managed Service for Prometheus. Blocks.

botocore finds who we are as every AWS client does (environment, a role for service accounts, files, the machine's own)
and renews what expires; it comes with the extra `sigv4`.
"""

from functools import cache
from typing import TYPE_CHECKING

import requests

from rebalancer.sqs.identity import NoIdentity

if TYPE_CHECKING:
    from botocore.credentials import Credentials

SERVICE = "aps"
NEEDS = "the login by SigV4 needs the extra: pip install 'rebalancer[sigv4]'"


class SigV4(requests.auth.AuthBase):
    """Signs each request for one region. Raises NoIdentity without the extra, or without an identity."""

    def __init__(self, region: str) -> None:
        self._region = region
        self._credentials = _credentials().get_frozen_credentials()

    @property
    def secrets(self) -> tuple[str, ...]:
        """What of a signed request could be used again."""
        return (self._credentials.token,) if self._credentials.token else ()

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Sign host, path, query and body. A space in a query is %20 to AWS; a plus is a plus."""
        from botocore import auth, awsrequest  # noqa: PLC0415  only with the extra

        path, mark, query = str(request.url).partition("?")
        request.url = path + mark + query.replace("+", "%20")
        signed = awsrequest.AWSRequest(method=request.method, url=request.url, data=request.body)
        auth.SigV4Auth(self._credentials, SERVICE, self._region).add_auth(signed)
        request.headers.update(dict(signed.headers))
        return request


@cache  # they renew themselves: whoever made new ones for each poll would ask AWS for a role every 15 s
def _credentials() -> "Credentials":
    try:
        from botocore import exceptions, session  # noqa: PLC0415  only with the extra
    except ImportError as error:
        raise NoIdentity(NEEDS) from error
    try:
        credentials = session.get_session().get_credentials()
    except exceptions.BotoCoreError as error:
        raise NoIdentity(f"no AWS identity: {error}") from error
    if credentials is None:
        raise NoIdentity("no AWS identity: neither environment, role, file nor this machine says who we are")
    return credentials

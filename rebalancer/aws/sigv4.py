"""Requests to Amazon Managed Service for Prometheus, signed as AWS wants them (Signature Version 4). Blocks."""

import requests

from rebalancer.aws.identity import credentials

SERVICE = "aps"


class SigV4(requests.auth.AuthBase):
    """Signs each request for one region. Raises NoIdentity without the extra, or without an identity."""

    def __init__(self, region: str) -> None:
        self._region = region
        self._credentials = credentials().get_frozen_credentials()

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

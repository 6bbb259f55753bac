"""Where the API server is and who we are there: in-cluster, or by a kubeconfig.

The client library knows the ways to log in (token files, exec plugins, OIDC, client certificates);
its code reads files and waits for processes, so it runs in a thread with a loop of its own.
"""

import asyncio
import os
import re
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config import ConfigException, load_incluster_config
from kubernetes_asyncio.config.incluster_config import (
    SERVICE_CERT_FILENAME,
    SERVICE_HOST_ENV_NAME,
    SERVICE_TOKEN_FILENAME,
)
from kubernetes_asyncio.config.kube_config import KubeConfigLoader, load_kube_config

from rebalancer.kube.errors import Invalid
from rebalancer.obs.clock import Clock

RENEW_SECONDS: Final = 60.0
"""Bound service account tokens are replaced on disk well before they expire; the file is read this often."""

_LEAST_RENEW_SECONDS: Final = 5.0
_ABSENT: Final = re.compile(
    r"Expected object with name (?P<name>\S+) in \S+/(?P<what>\w+)s list"
)  # the library's words
_OLD_GKE: Final = re.compile("GoogleAuth")  # in the library's words


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach the API server, how to trust it, and as whom.

    server: URL of the server.
    authorization: the `Authorization` header, a secret; None where none is sent, as with a client certificate.
    read_authorization: reads the header again; it may block and is called in a thread. None: the header, if any, never
        changes.
    tls: whom to trust, with our own certificate where there is one; None: http, or whom the system trusts.
    server_hostname: the name that the server's certificate must have, None: the one in the URL.
    proxy: URL of the proxy in between, None where there is none.
    """

    server: str
    authorization: str | None = field(default=None, repr=False)  # a secret: never in a log or traceback
    read_authorization: Callable[[], str | None] | None = None
    tls: ssl.SSLContext | None = None
    server_hostname: str | None = None
    proxy: str | None = None


async def find_access(kubeconfig: Path | None = None, context: str | None = None) -> Access:
    """Log in by the kubeconfig or context named; else in-cluster; else by the default kubeconfig.

    Raises Invalid, saying what is wrong with the configuration.
    """
    try:
        if kubeconfig is None and context is None and os.environ.get(SERVICE_HOST_ENV_NAME):
            return await asyncio.to_thread(in_cluster)
        return await asyncio.to_thread(_by_kubeconfig, kubeconfig, context)
    except Exception as error:  # the library meets a malformed file with whatever comes
        source = f"kubeconfig {kubeconfig}" if kubeconfig else "Kubernetes configuration"
        raise Invalid(f"{source} cannot be used: {_why(error)}") from error


def _why(error: Exception) -> str:
    """The error in words that help: the library's own where it knows what is wrong, else that it is no kubeconfig."""
    if isinstance(error, ConfigException) and (absent := _ABSENT.search(str(error))):
        return f"it has no {absent['what']} {absent['name']}"
    if isinstance(error, ValueError) and _OLD_GKE.match(str(error)):
        return (
            "it logs in by auth-provider gcp, which kubectl has no more either: install gke-gcloud-auth-plugin and run"
            " gcloud container clusters get-credentials"
        )
    if isinstance(error, (ConfigException, OSError, ssl.SSLError)):
        return " ".join(str(error).split()) or "it cannot be read"
    return "it is not the YAML of a kubeconfig (`kubectl config view` shows one)"


def in_cluster(token_file: str = SERVICE_TOKEN_FILENAME, ca_file: str = SERVICE_CERT_FILENAME) -> Access:
    """Log in as the pod's service account. Blocks. Raises the library's ConfigException without one."""

    def configuration() -> Configuration:
        fresh = Configuration()
        load_incluster_config(  # type: ignore[no-untyped-call]  # the library has no hints here
            client_configuration=fresh,
            try_refresh_token=False,
            token_filename=token_file,
            cert_filename=ca_file,
        )
        return fresh

    return _access(configuration(), lambda: _authorization(configuration()))


def _by_kubeconfig(kubeconfig: Path | None, context: str | None) -> Access:
    configuration = Configuration()
    loader: KubeConfigLoader = asyncio.run(
        load_kube_config(
            config_file=str(kubeconfig) if kubeconfig else None,
            context=context,
            client_configuration=configuration,
        )
    )

    def read_authorization() -> str | None:
        asyncio.run(loader.load_and_set(configuration))  # exec plugins run only after their expiry
        return _authorization(configuration)

    return _access(configuration, read_authorization)


def _authorization(configuration: Configuration) -> str | None:
    value: str | None = configuration.api_key.get("BearerToken")
    return value.strip() if value else None


def _access(configuration: Configuration, read_authorization: Callable[[], str | None]) -> Access:
    server = str(configuration.host).rstrip("/")
    authorization = _authorization(configuration)
    return Access(
        server=server,
        authorization=authorization,
        read_authorization=read_authorization if authorization else None,
        tls=_tls(configuration) if server.startswith("https") else None,
        server_hostname=configuration.tls_server_name,
        proxy=_proxy(configuration),
    )


def _proxy(configuration: Configuration) -> str | None:
    """URL of the proxy. Raises the library's ConfigException for one that speaks another protocol than HTTP."""
    proxy: str | None = configuration.proxy or None
    scheme = proxy.partition(":")[0] if proxy else "http"
    if scheme not in {"http", "https"}:
        raise ConfigException(f"its proxy-url begins with {scheme}: only proxies of http:// and https:// are spoken to")
    return proxy


def _tls(configuration: Configuration) -> ssl.SSLContext:
    """Takes some 30 ms: the CA bundle is parsed."""
    tls = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    if configuration.cert_file:
        tls.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
    if not configuration.verify_ssl:
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    return tls


class AuthorizationHeader:
    """The `Authorization` header of the moment: read again each minute, and when it was refused."""

    def __init__(self, access: Access, clock: Clock) -> None:
        self.trouble: str | None = None
        """Why the last renewal failed; the old header stays in use."""
        self._header = access.authorization
        self._read = access.read_authorization
        self._clock = clock
        self._read_monotonic = clock.monotonic()

    async def header(self) -> str | None:
        """The header to send now."""
        await self._renew_after(RENEW_SECONDS)
        return self._header

    async def renewed(self, refused: str | None) -> bool:
        """Read the header again if it is still the one refused; whether it is another one now."""
        if self._header == refused:
            await self._renew_after(_LEAST_RENEW_SECONDS)
        return self._header != refused

    async def _renew_after(self, seconds: float) -> None:
        now_monotonic = self._clock.monotonic()
        if self._read is None or now_monotonic - self._read_monotonic < seconds:
            return
        self._read_monotonic = now_monotonic  # calls in the meantime go on with what they have
        try:
            self._header = await asyncio.to_thread(self._read)
            self.trouble = None
        except Exception as error:  # noqa: BLE001 - exec plugins and identity providers fail in any way
            self.trouble = f"{type(error).__name__}: {error}"

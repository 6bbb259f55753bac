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
from kubernetes_asyncio.config.kube_config import (
    ENV_KUBECONFIG_PATH_SEPARATOR,
    KUBE_CONFIG_DEFAULT_LOCATION,
    KubeConfigLoader,
    load_kube_config,
)

from rebalancer.kube.errors import Invalid
from rebalancer.obs.clock import Clock

RENEW_SECONDS: Final = 60.0
"""Tokens and certificates are replaced on disk well before they expire; the files are read this often."""

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
    read: reads it all again, files and plugins; it may block and is called in a thread. None: it never changes.
    tls: whom to trust, with our own certificate where there is one; None: http, or whom the system trusts.
    server_hostname: the name that the server's certificate must have, None: the one in the URL.
    proxy: URL of the proxy in between, None where there is none.
    """

    server: str
    authorization: str | None = field(default=None, repr=False)  # a secret: never in a log or traceback
    read: "Callable[[], Access] | None" = field(default=None, compare=False)
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
    """The error in words that help: where nobody knows what is wrong, that it is no kubeconfig."""
    return _known(error) or "it is not the YAML of a kubeconfig (`kubectl config view` shows one)"


def _known(error: Exception) -> str | None:
    """What is wrong, where the library or the system can tell."""
    if isinstance(error, ConfigException) and (absent := _ABSENT.search(str(error))):
        return f"it has no {absent['what']} {absent['name']}"
    if isinstance(error, ValueError) and _OLD_GKE.match(str(error)):
        return (
            "it logs in by auth-provider gcp, which kubectl has no more either: install gke-gcloud-auth-plugin and run"
            " gcloud container clusters get-credentials"
        )
    if isinstance(error, (ConfigException, OSError)):
        return " ".join(str(error).split()) or "it cannot be read"
    return None


def in_cluster(token_file: str = SERVICE_TOKEN_FILENAME, ca_file: str = SERVICE_CERT_FILENAME) -> Access:
    """Log in as the pod's service account. Blocks. Raises the library's ConfigException without one."""
    trust = _Trust()

    def read() -> Access:
        fresh = Configuration()
        load_incluster_config(  # type: ignore[no-untyped-call]  # the library has no hints here
            client_configuration=fresh,
            try_refresh_token=False,
            token_filename=token_file,
            cert_filename=ca_file,
        )
        return _access(fresh, trust, read)

    return read()


def _by_kubeconfig(kubeconfig: Path | None, context: str | None) -> Access:
    return _Kubeconfig(str(kubeconfig or KUBE_CONFIG_DEFAULT_LOCATION), context).read()


class _Kubeconfig:
    """A kubeconfig, or several as `KUBECONFIG` lists them, and the context in use from the first look on."""

    def __init__(self, files: str, context: str | None) -> None:
        self._files = files
        self._context = context
        self._trust = _Trust()
        self._texts: list[bytes | None] = []
        self._loader: KubeConfigLoader | None = None

    def read(self) -> Access:
        """Log in by what the files hold now."""
        configuration = Configuration()
        texts = [_bytes(Path(file).expanduser()) for file in self._files.split(ENV_KUBECONFIG_PATH_SEPARATOR) if file]
        if self._loader is None or texts != self._texts:
            loader: KubeConfigLoader = asyncio.run(
                load_kube_config(self._files, context=self._context, client_configuration=configuration)
            )
            access = _access(configuration, self._trust, self.read)
            if loader.current_context is not None:  # else `kubectl config use-context` would take us elsewhere
                self._context = loader.current_context["name"]
            self._loader, self._texts = loader, texts
            return access
        asyncio.run(self._loader.load_and_set(configuration))  # exec plugins run only after their expiry
        return _access(configuration, self._trust, self.read)


def _bytes(file: str | Path | None) -> bytes | None:
    try:
        return Path(file).read_bytes() if file else None
    except OSError:
        return None


def _access(configuration: Configuration, trust: "_Trust", read: Callable[[], Access]) -> Access:
    server = str(configuration.host).rstrip("/")
    token: str | None = configuration.api_key.get("BearerToken")
    return Access(
        server=server,
        authorization=token.strip() if token else None,
        read=read,
        tls=trust.tls(configuration) if server.startswith("https") else None,
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


class _Trust:
    """TLS as the files say: another context only once one of them has changed, since that is a new connection."""

    def __init__(self) -> None:
        self._made_of: tuple[object, ...] = ()
        self._context: ssl.SSLContext | None = None

    def tls(self, configuration: Configuration) -> ssl.SSLContext:
        """Takes some 30 ms when it is made: the CA bundle is parsed."""
        files = (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file)
        made_of = (*map(_bytes, files), configuration.verify_ssl)
        if self._context is None or made_of != self._made_of:
            self._context = _tls(configuration)
            self._made_of = made_of
        return self._context


def _tls(configuration: Configuration) -> ssl.SSLContext:
    """Raises the library's ConfigException with the files that are not good."""
    ca, certificate, key = configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file
    try:
        tls = ssl.create_default_context(cafile=ca)
    except OSError as error:
        raise ConfigException(f"its CA {ca} cannot be used: {error}") from error
    if certificate:
        try:
            tls.load_cert_chain(certificate, keyfile=key, password="")  # else OpenSSL asks the terminal
        except OSError as error:
            of = f" with the key {key}" if key else ""
            raise ConfigException(f"its client certificate {certificate}{of} cannot be used: {error}") from error
    if not configuration.verify_ssl:
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    return tls


class KubeLogin:
    """The Access of the moment: read again each minute, and when it was refused.

    So renewed tokens, certificates and CAs are taken up without a restart; for the server and the context of a
    kubeconfig those of the start stand.
    """

    def __init__(self, access: Access, clock: Clock) -> None:
        self.trouble: str | None = None
        """Why it could not be read the last time; what was read before stays in use."""
        self._access = access
        self._read = access.read
        self._clock = clock
        self._read_monotonic = clock.monotonic()

    async def access(self) -> Access:
        """How to call now."""
        await self._renew_after(RENEW_SECONDS)
        return self._access

    async def renewed(self, refused: Access) -> bool:
        """Read again if it is still the one refused; whether it is another one now."""
        if self._access == refused:
            await self._renew_after(_LEAST_RENEW_SECONDS)
        return self._access != refused

    async def _renew_after(self, seconds: float) -> None:
        now_monotonic = self._clock.monotonic()
        if self._read is None or now_monotonic - self._read_monotonic < seconds:
            return
        self._read_monotonic = now_monotonic  # calls in the meantime go on with what they have
        try:
            fresh = await asyncio.to_thread(self._read)
        except Exception as error:  # noqa: BLE001 - exec plugins and identity providers fail in any way
            self.trouble = _known(error) or f"{type(error).__name__}: {error}"
            return
        if fresh.server != self._access.server:
            self.trouble = f"it names {fresh.server} now, and {self._access.server} at the start: restart to go there"
            return
        self._access, self.trouble = fresh, None

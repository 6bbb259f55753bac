"""Which addresses of a Prometheus are accepted: whoever edits the settings must not make us ask just anything."""

import ipaddress
from contextlib import suppress
from urllib.parse import urlsplit


def problem_of(url: str) -> str | None:
    """Why `url` is refused, None when it may be asked."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        return str(error)
    if parts.scheme not in {"http", "https"} or not host:
        return "give http://HOST:PORT or https://HOST:PORT"
    if parts.username or parts.password:
        return "no user or password in the URL: put a token into a file (REBALANCER_PROMETHEUS_TOKEN_FILE)"
    if parts.query or parts.fragment:
        return "no query and no fragment: they are ours to add"
    with suppress(ValueError):
        if ipaddress.ip_address(host.partition("%")[0]).is_link_local:
            return "link-local addresses are where clouds keep their secrets"
    return None

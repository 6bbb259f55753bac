"""How the settings reach Kafka."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import structlog

from rebalancer.kafka.broker import Broker, trust
from rebalancer.kafka.tokens import ClientToken, FileToken, MskToken
from rebalancer.settings.kafka_login import MSK, OAUTH
from rebalancer.settings.service import ServiceSettings

log = structlog.get_logger()


def broker_of(settings: ServiceSettings) -> Broker:
    """The broker that settings name; credentials are read again at each new client, and when their files change.

    Files that hold none any more, as while they are written anew, leave those that were read before.
    """
    return Broker(
        settings.kafka_bootstrap,
        settings.topic_prefix,
        security=_Credentials(settings),
        files=_files(settings),
    )


class _Credentials:
    """Arguments of a client as its files say, else as they said before. Raises OSError where they never held any."""

    def __init__(self, settings: ServiceSettings) -> None:
        self._settings = settings
        self._good: dict[str, Any] | None = None
        self._trouble = ""

    def __call__(self) -> Mapping[str, Any]:
        try:
            self._good, trouble = _security(self._settings), ""
        except OSError as error:
            if self._good is None:
                raise
            trouble = str(error)
        if trouble and not self._trouble:
            log.warning("Kafka's credentials cannot be read: those read before stay in use", why=trouble)
        elif self._trouble and not trouble:
            log.info("Kafka's credentials are read again")
        self._trouble = trouble
        return self._good


def _files(settings: ServiceSettings) -> tuple[Path, ...]:
    """What a client reads once. A token's file is none of them: that is read at each connection."""
    named = (settings.kafka_password_file, settings.kafka_ca_file, settings.kafka_cert_file, settings.kafka_key_file)
    return tuple(file for file in named if file is not None)


def _security(settings: ServiceSettings) -> dict[str, Any]:
    """Arguments of a client. Raises OSError for a password or a certificate that cannot be read."""
    protocol = settings.kafka_security_protocol
    arguments: dict[str, Any] = {"security_protocol": protocol}
    if protocol in {"SSL", "SASL_SSL"}:
        arguments["ssl_context"] = trust(settings.kafka_ca_file, settings.kafka_cert_file, settings.kafka_key_file)
    if protocol.startswith("SASL"):
        arguments |= _login(settings)
    return arguments


def _login(settings: ServiceSettings) -> dict[str, Any]:
    mechanism = settings.kafka_sasl_mechanism
    if mechanism == MSK:
        return {"sasl_mechanism": OAUTH, "sasl_oauth_token_provider": MskToken(settings.kafka_aws_region)}
    if mechanism == OAUTH:
        return {"sasl_mechanism": OAUTH, "sasl_oauth_token_provider": _token_provider(settings)}
    return {
        "sasl_mechanism": mechanism,
        "sasl_plain_username": settings.kafka_username,
        "sasl_plain_password": _password(settings),
    }


def _token_provider(settings: ServiceSettings) -> FileToken | ClientToken:
    if settings.kafka_token_file is not None:
        return FileToken(settings.kafka_token_file)
    url, scope = settings.kafka_token_url, settings.kafka_token_scope
    return ClientToken(url, settings.kafka_username, lambda: _password(settings), scope)


def _password(settings: ServiceSettings) -> str:
    password = settings.kafka_password()
    return password.get_secret_value() if password else ""

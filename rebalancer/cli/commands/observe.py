"""`rebalancer observe`: the service on a laptop, without Kafka and with no way to write."""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rebalancer.cli.failure import DONE, FAILED, USAGE, Failed
from rebalancer.cli.remote.prometheus import (
    CaFileOption,
    CertificateFileOption,
    KeyFileOption,
    MatchersOption,
    PasswordFileOption,
    SigV4RegionOption,
    TokenFileOption,
    UsernameOption,
    server_at,
)
from rebalancer.cli.remote.where import ContextOption, KubeconfigOption, Where

if TYPE_CHECKING:
    from rebalancer.app.backfill import Backfilled
    from rebalancer.settings.service import ServiceSettings

FOLDER = Path("rebalancer-observe")
OBSERVED = FOLDER / "journal"  # where `rebalancer report` finds it, typed in the same folder
MOST_DAYS = 90
HOUR_SECONDS = 3600.0
NOTHING = "0"


def command(
    prometheus: Annotated[str, typer.Option(help="Where every reading comes from.", metavar="URL")],
    policy: Annotated[Path, typer.Option(help="The policy; `rebalancer init` writes one.", metavar="FILE")] = Path(
        "policy.yaml"
    ),
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    backfill: Annotated[
        str, typer.Option(help="How much of Prometheus' past is read first; 0: none.", metavar="DURATION")
    ] = "7d",
    interval: Annotated[str, typer.Option(help="Its scrape interval of the engines.", metavar="DURATION")] = "15s",
    token_file: TokenFileOption = None,
    ca_file: CaFileOption = None,
    username: UsernameOption = "",
    password_file: PasswordFileOption = None,
    certificate_file: CertificateFileOption = None,
    key_file: KeyFileOption = None,
    sigv4_region: SigV4RegionOption = "",
    matchers: MatchersOption = "",
    folder: Annotated[Path, typer.Option(help="Where the journal goes.", metavar="DIR")] = FOLDER,
    port: Annotated[
        int, typer.Option(help="Port of console and API on loopback; 0: a free one.", min=0, max=65535)
    ] = 8080,
) -> int:
    """Watch a cluster and its Prometheus, decide as the service would, and show it. No Kafka, and nothing is written.

    It runs until Ctrl-C. Console and commands find it at the address it prints first.
    """
    import uvloop

    from rebalancer.obs import log
    from rebalancer.settings.service import ServiceSettings

    Where(kubeconfig=kubeconfig, context=context).need_kubeconfig()
    if not policy.exists():
        raise Failed(f"{policy}: no such file; write one with: rebalancer init --prometheus {prometheus}", USAGE)
    server = server_at(
        prometheus, token_file, ca_file, username, password_file, certificate_file, key_file, sigv4_region, matchers
    )
    fields: dict[str, object] = {
        **{f"prometheus_{field}": value for field, value in server._asdict().items()},
        "prometheus_interval_seconds": _seconds(interval, "--interval"),
        "backfill_hours": 0.0 if backfill == NOTHING else _seconds(backfill, "--backfill") / HOUR_SECONDS,
        "policy_path": policy,
        "kubeconfig": kubeconfig,
        "kube_context": context or "",
        "journal_dir": folder / "journal",
        "predict_days": find_spec("numba") is not None,
        "api_port": port,
    }
    settings = _settings(fields, ServiceSettings)
    lines = log.configure("error", "text")  # what is missing stands in `status`; here it would hide the table
    from rebalancer.app.process import serve

    try:
        why = uvloop.run(serve(settings, TerminalOnlooker(settings)))
    finally:
        lines.flush()
    if why is None:
        return DONE
    raise Failed(f"{why}; name another with --port" if "already in use" in why else why, FAILED)


class TerminalOnlooker:
    """Implements `app.onlooker.Onlooker` for whoever typed the command."""

    def __init__(self, settings: "ServiceSettings") -> None:
        from rebalancer.cli.terminal.progress import ProgressLine

        self._settings = settings
        self._waited_for: set[str] = set()
        self._progress = ProgressLine("Reading Prometheus' past")

    def serves(self, api_port: int) -> None:
        """The address first: everything else can be looked up there."""
        address = f"http://127.0.0.1:{api_port}"
        typer.echo(f"Console: {address}/console/")
        typer.echo(f"In another terminal: export REBALANCER_SERVER={address}")
        typer.echo("                     rebalancer status        (and plan, explain MODEL)")
        typer.echo("                     rebalancer report --last 7d")
        typer.echo(f"Journal: {self._settings.journal_dir}")
        typer.echo("Nothing is written to the cluster: this process has no way to. Ctrl-C ends it.\n")

    def waits(self, what: str) -> None:
        """Each reason once: mostly a right that is missing."""
        if what not in self._waited_for:
            self._waited_for.add(what)
            typer.echo(f"Waiting for {what}", err=True)

    def reads(self, done: int, of: int) -> None:
        """A bar on a terminal."""
        self._progress.at(done, of)

    def knows(self, past: "Backfilled") -> None:
        """The first table."""
        from rebalancer.cli.render.window import render_window
        from rebalancer.cli.terminal.paint import painted

        typer.echo(painted(f"\n{render_window(past)}\n"))

    def knows_nothing(self, why: str) -> None:
        """What is missing, and that it goes on."""
        typer.echo(f"warn  no past: {why}; it learns from now on", err=True)


def _seconds(text: str, option: str) -> float:
    from rebalancer.cli.terminal.spans import SECONDS, seconds_of

    return seconds_of(text, option, MOST_DAYS * SECONDS["d"])


def _settings(fields: dict[str, object], settings: "type[ServiceSettings]") -> "ServiceSettings":
    """Settings of a service that observes; what the environment says otherwise is no part of it. Raises Failed."""
    from pydantic import ValidationError

    observing = {
        "kafka_enabled": False,
        "write_mode": "shadow",
        "lease_name": "",
        "override_keys_dir": None,
        "api_auth": "none",
        "api_host": "127.0.0.1",
        "probe_port": 0,
    }
    try:
        return settings(**(observing | fields))  # type: ignore[arg-type]  # pydantic checks them
    except ValidationError as error:
        raise Failed(str(error.errors(include_url=False)[0]["msg"]), USAGE) from error

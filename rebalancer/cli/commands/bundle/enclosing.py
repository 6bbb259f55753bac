"""What goes into a support file, read from wherever it is. What cannot be read is told, and no reason to give up."""

import asyncio
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from rebalancer import __version__
from rebalancer.api.http.json_codec import to_wire
from rebalancer.cli.commands.bundle.archive import POLICY, README, TRAFFIC
from rebalancer.cli.commands.bundle.excerpt import excerpt
from rebalancer.cli.commands.bundle.pseudonyms import Pseudonyms, texts_of
from rebalancer.cli.commands.bundle.redaction import Redacted, Rewrite, redacted, rewritten
from rebalancer.cli.commands.bundle.secrets import without_secrets
from rebalancer.cli.commands.doctor.examination import examine
from rebalancer.cli.commands.doctor.traps import known_before
from rebalancer.cli.failure import Failed, why_silent
from rebalancer.cli.remote.client import open_api
from rebalancer.cli.remote.where import Where
from rebalancer.domain.codec import to_bytes
from rebalancer.obs import journal
from rebalancer.obs.journal_lines import JOURNAL, NoJournal
from rebalancer.settings.service import BadSettings, ServiceSettings, read_settings

LOG_BYTES = 4_000_000  # the end of a log
ASK_SECONDS = 10.0


@dataclass(slots=True)
class Enclosed:
    """What was read, before anything is taken out.

    values: by the name of the file to come, JSON values.
    texts: the same for plain text.
    lines: of the journal.
    missing: sentences about what could not be read.
    """

    values: dict[str, Any] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    lines: list[bytes] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class BundleSources:
    """Where the content of a support file is read from, as the command line says.

    journal: folder of the service's journal, or one file of it.
    last_seconds: how many seconds of the journal, up to its end, go along.
    where: how to reach the service's API and the cluster.
    probes: address of the service's probe port, where its metrics are.
    log: log of the service, of which the last 4 MB go along; None: no log.
    """

    journal: Path
    last_seconds: float
    where: Where
    probes: str
    log: Path | None


def enclose(sources: BundleSources) -> Enclosed:
    """Read all of it."""
    into = Enclosed()
    try:
        into.lines, damaged = excerpt(sources.journal, sources.last_seconds)
        into.missing += damaged
        into.values[POLICY] = _policy(into.lines)
    except NoJournal as none:
        into.missing.append(f"journal: {none}")
    try:
        into.values["settings.json"] = settings_told(read_settings())
    except BadSettings as wrong:
        into.missing.append(f"settings: none here ({str(wrong).splitlines()[0]}); run it where the service runs")
    asyncio.run(_add_answers(sources, into))
    if sources.log is not None:
        try:
            with sources.log.open("rb") as file:
                file.seek(max(0, sources.log.stat().st_size - LOG_BYTES))
                into.texts["service.log"] = file.read().decode(errors="replace")
        except OSError as error:
            into.missing.append(f"log: {sources.log} cannot be read ({error.strerror})")
    return into


def settings_told(settings: ServiceSettings) -> dict[str, Any]:
    """Every setting by its name; of files only the path."""
    by_name: dict[str, Any] = settings.model_dump(mode="json")
    return by_name


async def _add_answers(sources: BundleSources, into: Enclosed) -> None:
    try:
        async with open_api(sources.where) as api:
            into.values["status.json"] = msgspec.json.decode(await api.get("/v1/status"))
    except Failed as failed:
        into.missing.append(f"status: {failed}")
    findings = await examine(sources.where, known_before(None, None))
    into.values["doctor.json"] = msgspec.json.decode(to_wire(findings))
    try:
        timeout = aiohttp.ClientTimeout(total=ASK_SECONDS)
        async with aiohttp.ClientSession(timeout=timeout) as session, session.get(f"{sources.probes}/metrics") as reply:
            reply.raise_for_status()
            into.texts["metrics.txt"] = await reply.text()
    except (aiohttp.ClientError, OSError, ValueError) as error:
        into.missing.append(f"metrics: {sources.probes}/metrics does not answer ({why_silent(error)}); give --probes")


def _policy(lines: list[bytes]) -> Any:  # noqa: ANN401  any JSON
    """The last policy in force."""
    return next(
        (line.policy for raw in reversed(lines) if isinstance(line := journal.decode(raw), journal.PolicyLine)), {}
    )


@dataclass(frozen=True, slots=True)
class Sealed:
    """What may leave.

    files: by name.
    remarks: sentences about it.
    """

    files: dict[str, bytes]
    remarks: list[str]


def seal(what: Enclosed, *, anonymous: bool) -> Sealed:
    """Take out what looks like a secret, and with `anonymous` every name."""
    remarks = list(what.missing)
    rewrite: Rewrite = without_secrets
    if anonymous:
        values = [msgspec.json.decode(line) for line in what.lines]
        texts = [*texts_of(values), *texts_of(list(what.values.values())), *what.texts.values()]
        names = Pseudonyms(map(without_secrets, texts))
        rewrite = _both(names.rewrite)
        remarks.append(f"{len(names)} names stand under others; whoever has the cluster can tell which")
    files = {name: _value(rewritten(value, rewrite)) for name, value in what.values.items()}
    files |= {name: rewrite(text).encode() for name, text in what.texts.items()}
    if what.lines:
        left = redacted(what.lines, rewrite)
        remarks += _of_journal(left)
        files[JOURNAL] = b"".join(left.lines)
        files[TRAFFIC] = _traffic(files[JOURNAL])
    files[README] = _readme(files, remarks).encode()
    return Sealed(files, remarks)


def _both(rename: Callable[[str], str]) -> Rewrite:
    return lambda text: rename(without_secrets(text))


def _value(value: Any) -> bytes:  # noqa: ANN401  any JSON
    """JSON, which is YAML too."""
    return msgspec.json.format(to_bytes(value), indent=2) + b"\n"


def _of_journal(left: Redacted) -> list[str]:
    remarks = [f"journal: {left.cycles} cycles"]
    if left.differing:
        remarks.append(
            f"{left.differing} of them this version decides otherwise than was recorded: `replay` shows them"
        )
    if left.renamed:
        remarks.append(
            f"{left.renamed} of them are decided otherwise under other names: the bundle has these decisions"
        )
    return remarks


def _traffic(lines: bytes) -> bytes:
    from rebalancer.cli.commands.bundle.traffic import traffic

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "journal.jsonl"
        file.write_bytes(lines)
        return traffic(file).encode()


def _readme(files: dict[str, bytes], remarks: list[str]) -> str:
    listed = "\n".join(f"  {name:32} {len(content):>10} bytes" for name, content in files.items())
    remark_lines = "\n".join(f"  {line}" for line in remarks)
    return f"""A support file of the rebalancer, version {__version__}.

{listed}

{remark_lines}

What happened, byte by byte:   rebalancer replay BUNDLE
The same work, played again:   rebalancer simulate BUNDLE
Both want version {__version__}; journal/ is also what `rebalancer report --journal` reads.
"""

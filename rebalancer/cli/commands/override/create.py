"""An override made at the terminal: shown, agreed to, written once, and what became of it."""

import asyncio
import uuid
from dataclasses import dataclass

import msgspec

from rebalancer.api.http.json_codec import to_wire
from rebalancer.cli.commands.override.arguments import OverrideArguments
from rebalancer.cli.commands.override.prepared import Prepared, outcome, prepare, store, value_of
from rebalancer.cli.failure import DONE, Failed
from rebalancer.cli.remote.where import Where
from rebalancer.cli.render.overrides import clock_words, hour
from rebalancer.cli.terminal.output import Output, show
from rebalancer.cli.terminal.talk import Talk
from rebalancer.loop.clock import RealClock


@dataclass(frozen=True, slots=True)
class Manner:
    """How an override is to be made and its result shown.

    key: key by which a repeat is known for the same override, None: a new one.
    yes: whether it is made without asking.
    confirm: name given on the command line in place of typing it, for what is severe; None where none was given.
    dry_run: whether it is only shown, and nothing written.
    output: form in which the result is shown.
    """

    key: str | None
    yes: bool
    confirm: str | None
    dry_run: bool
    output: Output


def create(where: Where, talk: Talk, arguments: OverrideArguments, manner: Manner) -> int:
    """Show what it would do, ask, write it, say what became of it; the exit code. Raises Failed."""
    prepared = asyncio.run(prepare(where, arguments, manner.key or str(uuid.uuid4())))
    if prepared.preview is not None and prepared.preview.refused:
        raise Failed(f"it would be refused: {prepared.preview.refused}; nothing was written")
    if manner.dry_run:
        return _dry_run(prepared, manner.output)
    talk.say(*prepared.lines())
    _agree(talk, prepared, arguments.severe, manner)
    obj, unread = asyncio.run(store(where, prepared))
    made = value_of(obj)
    line = outcome(made)
    talk.say(*filter(None, [made.message, unread]))
    show(manner.output, to_wire(made), lambda: made.name if talk.quiet else line)
    return DONE


def _agree(talk: Talk, prepared: Prepared, severe: str | None, manner: Manner) -> None:
    until = f"until {_end(prepared)} as {prepared.actor}"
    word = (prepared.preview and prepared.preview.confirm) or severe
    if word is None:
        talk.agreed(f"Apply {until}?", yes=manner.yes)
    else:
        talk.typed(word, f"This is severe. To apply it {until}", manner.confirm, f"--confirm {word}")


def _end(prepared: Prepared) -> str:
    """`03:42 UTC`, with the clock by which that is where it is not this machine's."""
    service = prepared.preview.at if prepared.preview is not None else None
    clock = clock_words(service, RealClock().now())
    return f"{hour(prepared.expires_at)} UTC{f' ({clock})' if clock else ''}"


def _dry_run(prepared: Prepared, output: Output) -> int:
    spec, metadata = prepared.obj["spec"], prepared.obj["metadata"]
    would = f"would create Override {metadata['namespace']}/{metadata['name']} until {_end(prepared)}"
    text = "\n".join([*prepared.lines(), f"{would} as {spec['actor']}; nothing was written"])
    show(output, prepared.preview_body or msgspec.json.encode(prepared.obj), lambda: text)
    return DONE

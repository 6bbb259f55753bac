"""An override made at the terminal: shown, agreed to, written once, and what became of it."""

import asyncio
import uuid
from dataclasses import dataclass

import msgspec

from rebalancer.api.wire import to_wire
from rebalancer.cli.asking import Words
from rebalancer.cli.deciding import Prepared, decide, outcome, prepare, value_of
from rebalancer.cli.failure import DONE, Failed
from rebalancer.cli.output import Output, show
from rebalancer.cli.render.overrides import hour
from rebalancer.cli.talk import Talk
from rebalancer.cli.where import Where


@dataclass(frozen=True, slots=True)
class Manner:
    """How it is to be made: under which key, asking or not, for real or not, and how the result is shown."""

    key: str | None
    yes: bool
    confirm: str | None
    dry_run: bool
    output: Output


def make(where: Where, talk: Talk, words: Words, manner: Manner) -> int:
    """Show what it would do, ask, write it, say what became of it; the exit code. Raises Failed."""
    prepared = asyncio.run(prepare(where, words, manner.key or str(uuid.uuid4())))
    if prepared.preview is not None and prepared.preview.refused:
        raise Failed(f"it would be refused: {prepared.preview.refused}; nothing was written")
    if manner.dry_run:
        return _dry_run(prepared, manner.output)
    talk.say(*prepared.lines())
    _agree(talk, prepared, words.severe, manner)
    made = value_of(asyncio.run(decide(where, prepared)))
    said = outcome(made)
    talk.say(*filter(None, [made.message]))
    show(manner.output, to_wire(made), lambda: made.name if talk.quiet else said)
    return DONE


def _agree(talk: Talk, prepared: Prepared, severe: str | None, manner: Manner) -> None:
    until = f"until {hour(prepared.expires_at)} UTC as {prepared.actor}"
    word = (prepared.preview and prepared.preview.confirm) or severe
    if word is None:
        talk.agreed(f"Apply {until}?", yes=manner.yes)
    else:
        talk.typed(word, f"This is severe. To apply it {until}", manner.confirm, f"--confirm {word}")


def _dry_run(prepared: Prepared, output: Output) -> int:
    spec, metadata = prepared.obj["spec"], prepared.obj["metadata"]
    would = f"would create Override {metadata['namespace']}/{metadata['name']} until {hour(prepared.expires_at)} UTC"
    text = "\n".join([*prepared.lines(), f"{would} as {spec['actor']}; nothing was written"])
    show(output, prepared.preview_body or msgspec.json.encode(prepared.obj), lambda: text)
    return DONE

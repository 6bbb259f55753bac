"""A draft as commented YAML: each value with the sentence that it rests on."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from textwrap import wrap
from typing import Any, Final

from rebalancer.domain.policy import Model, Pool
from rebalancer.survey.first_policy.draft import ModelDraft, PolicyDraft, PoolDraft, Reasoned

WIDTH: Final = 120
_COLUMN: Final = 38  # where comments begin, as in config/policy.yaml
_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9._/-]*")
_WORDS: Final = frozenset(
    {"true", "false", "yes", "no", "on", "off", "null", "y", "n"}
)  # no text, to some reader of YAML
_HEAD: Final = """\
# A first policy of the rebalancer, written by `rebalancer init`. It found:
# {seen}.
#
# Each value says what it rests on. `guess:` may well be wrong, `choose:` is yours to decide. Nothing is written to the
# cluster while the service runs in shadow, which is the default: wrong numbers cost a wrong plan on paper.
# What no cluster tells, and docs/policy.md explains: priority, slo, class, schedules, deferral.
# After an edit: rebalancer config check FILE
apiVersion: rebalancer.io/v1alpha1
kind: Policy
"""


def text_of(draft: PolicyDraft) -> str:
    """The whole file."""
    lines = [*_HEAD.format(seen=_said(draft.seen)).splitlines(), "", "pools:"]
    for pool in draft.pools:
        lines += [*_entry(pool, Pool.model_fields), ""]
    lines += ["models:"]
    for model in draft.models:
        lines += [*_entry(model, Model.model_fields), ""]
    for title, sentences in (
        ("Left out, each with the reason:", draft.left_out),
        ("Could not be read:", draft.unread),
    ):
        if sentences:
            lines += [f"# {title}", *(line for each in sentences for line in _comment(each, "# - ", "#   ")), ""]
    return "\n".join(lines).rstrip() + "\n"


def scalar(value: object) -> str:
    """A value in flow style; text that some reader could take for anything else is quoted."""
    if isinstance(value, str):
        plain = _PLAIN.fullmatch(value) and value.lower() not in _WORDS
        return value if plain else _quoted(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{scalar(key)}: {scalar(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(scalar, value)) + "]"
    return json.dumps(value)


def _quoted(text: str) -> str:
    """In double quotes; what some editor or reader could take for the end of a line is escaped."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(char if char.isprintable() else f"\\U{ord(char):08x}" for char in escaped) + '"'


def _entry(part: PoolDraft | ModelDraft, schema: Mapping[str, Any]) -> Iterator[str]:
    """One item of a list, its notes above it; keys by the policy's names, in its order."""
    for note in part.notes:
        yield from _comment(note, "  # ", "  # ")
    indent = "  - "
    for field in fields(part):
        value = getattr(part, field.name)
        if value is None or field.name == "notes":
            continue
        yield from _lines(indent, schema[field.name].alias, value)
        indent = "    "


def _lines(
    indent: str, key: str, value: Reasoned[object] | tuple[Reasoned[object], ...] | dict[str, Reasoned[object]]
) -> Iterator[str]:
    if isinstance(value, Reasoned):
        yield from _line(f"{indent}{'#' if value.off else ''}{key}: {scalar(value.value)}", value.why)
    elif isinstance(value, tuple):
        yield f"{indent}{key}:"
        for each in value:
            yield from _line(f"      - {scalar(each.value)}", each.why)
    else:
        yield f"{indent}{key}:"
        for name, each in value.items():
            yield from _line(f"      {name}: {scalar(each.value)}", each.why)


def _line(text: str, why: str) -> Iterator[str]:
    """The sentence beside the value where it fits, else above it."""
    sentence = _said(why)
    beside = f"{text:<{_COLUMN}}# {sentence}" if len(text) < _COLUMN else f"{text}  # {sentence}"
    if not sentence:
        yield text
    elif len(beside) <= WIDTH:
        yield beside
    else:
        indent = " " * (len(text) - len(text.lstrip(" ")))
        yield from _comment(sentence, f"{indent}# ", f"{indent}# ")
        yield text


def _comment(sentence: str, first: str, then: str) -> Iterator[str]:
    yield from wrap(
        _said(sentence),
        WIDTH,
        initial_indent=first,
        subsequent_indent=then,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _said(sentence: str) -> str:
    """One line of printable text: what somebody named a thing must not end a comment."""
    return " ".join("".join(char if char.isprintable() else " " for char in sentence).split())


def marked(text: str) -> int:
    """How many values of the file want a person's decision."""
    return sum("choose:" in line for line in text.splitlines()) - sum("`choose:`" in line for line in text.splitlines())

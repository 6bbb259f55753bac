"""A draft as commented YAML: each value with the sentence that it rests on."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import fields
from itertools import chain
from textwrap import wrap
from typing import Any, Final, NamedTuple

from rebalancer.domain.policy import Model, Pool
from rebalancer.settings.policy_file import MAX_BYTES
from rebalancer.survey.first_policy.draft import CHOOSE, GUESS, ModelDraft, PolicyDraft, PoolDraft, Reasoned

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


class _Line(NamedTuple):
    """One line of the policy.

    key: the policy's name of it, "" of a note.
    text: as it stands in the file, without its comment.
    why: what its value rests on, "" where nothing is to be said.
    off: whether it is a comment as a whole.
    """

    key: str
    text: str
    why: str = ""
    off: bool = False


def text_of(draft: PolicyDraft, most_bytes: int = MAX_BYTES // 2) -> str:
    """The whole file; where it would be longer than `most_bytes`, what is said of several models is said once."""
    whole = _text(draft, {})
    if len(whole.encode()) <= most_bytes:
        return whole
    entries = (_entry(model, Model.model_fields) for model in draft.models)
    counts = Counter((line.key, line.why) for entry in entries for line in entry if line.why)
    return _text(draft, {sentence: None for sentence, count in counts.items() if count > 1})


def _text(draft: PolicyDraft, once: Mapping[tuple[str, str], None]) -> str:
    """The file; the sentences of `once`, by their keys, stand above all models."""
    lines = [*_HEAD.format(seen=_one_line(draft.seen)).splitlines(), "", "pools:"]
    for pool in draft.pools:
        lines += [*chain.from_iterable(map(_line, _entry(pool, Pool.model_fields))), ""]
    if once:
        lines.append("# Said here once of several models each, as the file would be too long:")
        lines += [*(line for key, why in once for line in _comment(f"{key}: {why}", "# - ", "#   ")), ""]
    lines += ["models:"]
    for model in draft.models:
        brief = (_brief(line) if (line.key, line.why) in once else line for line in _entry(model, Model.model_fields))
        lines += [*chain.from_iterable(_line(line) for line in brief if line.why or not line.off), ""]
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


def _brief(line: _Line) -> _Line:
    """The same where its sentence stands above all models; its marks stay, and of a comment nothing."""
    marks = "" if line.off else "".join(mark for mark in (GUESS, CHOOSE) if mark in line.why)
    return line._replace(why=f"{marks}see above" if marks else "")


def _entry(part: PoolDraft | ModelDraft, schema: Mapping[str, Any]) -> Iterator[_Line]:
    """One item of a list, its notes above it; keys by the policy's names, in its order."""
    for note in part.notes:
        yield from (_Line("", text) for text in _comment(note, "  # ", "  # "))
    indent = "  - "
    for field in fields(part):
        value = getattr(part, field.name)
        if value is None or field.name == "notes":
            continue
        yield from _lines(indent, schema[field.name].alias, value)
        indent = "    "


def _lines(
    indent: str, key: str, value: Reasoned[object] | tuple[Reasoned[object], ...] | dict[str, Reasoned[object]]
) -> Iterator[_Line]:
    if isinstance(value, Reasoned):
        yield _Line(key, f"{indent}{'#' if value.off else ''}{key}: {scalar(value.value)}", value.why, value.off)
    elif isinstance(value, tuple):
        yield _Line(key, f"{indent}{key}:")
        for each in value:
            yield _Line(key, f"      - {scalar(each.value)}", each.why)
    else:
        yield _Line(key, f"{indent}{key}:")
        for name, each in value.items():
            yield _Line(name, f"      {name}: {scalar(each.value)}", each.why)


def _line(line: _Line) -> Iterator[str]:
    """The sentence beside the value where it fits, else above it."""
    text, sentence = line.text, _one_line(line.why)
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
        _one_line(sentence),
        WIDTH,
        initial_indent=first,
        subsequent_indent=then,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _one_line(sentence: str) -> str:
    """One line of printable text: what somebody named a thing must not end a comment."""
    return " ".join("".join(char if char.isprintable() else " " for char in sentence).split())


def marked(text: str) -> int:
    """How many values of the file want a person's decision."""
    return sum("choose:" in line for line in text.splitlines()) - sum("`choose:`" in line for line in text.splitlines())

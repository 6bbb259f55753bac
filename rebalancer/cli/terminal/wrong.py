"""Wrong arguments in words: what was typed, where, what is allowed there, and the nearest of it.

The parser tells them in a checker's words (`Value error, 'xml' is not one of ...`, `Input should be a valid integer`).
"""

import re
from collections.abc import Callable, Sequence
from difflib import get_close_matches

_CHOICE = re.compile(r"(?:Value error, )?'(?P<given>.*)' is not one of (?P<known>'.*')\.?$", re.DOTALL)
_COMMAND = re.compile(r"No such command '(?P<given>[^']*)'")
_EXTRA = re.compile(r"Got unexpected extra arguments?(?:\(s\))? \((?P<given>.*)\)", re.DOTALL)
_NUMBER = re.compile(r"No such option: (?P<given>-\d+)\b.*")
_NUMBERLIKE = re.compile(r"[-+]?[\d.,]+\w*")
_MISSING = re.compile(r"Missing argument (?P<where>'\w+')\. Choose from:\s*(?P<known>.*)", re.DOTALL)
_KINDS = {
    r"Input should be a valid integer\b.*": "is not a whole number",
    r"Input should be a valid number\b.*": "is not a number",
    r"Input should be greater than or equal to (\S+)": r"is too small: allowed from \1 on",
    r"Input should be greater than (\S+)": r"is too small: allowed above \1",
    r"Input should be less than or equal to (\S+)": r"is too large: allowed up to \1",
    r"Input should be less than (\S+)": r"is too large: allowed below \1",
    r"Input should be a valid boolean\b.*": "is neither true nor false",
    r"Value error, (.*)": r"is wrong: \1",
}


def in_words(
    message: str,
    models: Callable[[], list[str]],
    typed: Sequence[str] = (),
    commands: Sequence[str] = (),
    path: str = "rebalancer",
) -> str:
    """The parser's message as a person would say it; `typed`: all that was typed, so that it can be repeated.

    `models` says which there are, none where nobody answers; `commands`: those of the group at `path`, which is as far
    as the words were understood.
    """
    return _invalid(message, typed) or _misplaced(message, models, commands, path) or message


def _invalid(message: str, typed: Sequence[str]) -> str:
    """A value that is not taken; "" where the message is about something else."""
    invalid = re.fullmatch(r"Invalid value for (?P<where>.+?): (?P<why>.*)", message, re.DOTALL)
    if invalid is None:
        return ""
    where, why = invalid["where"].replace("'", ""), invalid["why"]
    choice = _CHOICE.fullmatch(why)
    if choice:
        known = re.findall(r"'([^']*)'", choice["known"])
        return f"{where}: no {choice['given']!r}{nearest(choice['given'], known)}; allowed: {', '.join(known)}"
    for pattern, words in _KINDS.items():
        if re.fullmatch(pattern, why, re.DOTALL):
            return f"{where}{_given(where, typed)} {re.sub(pattern, words, why, flags=re.DOTALL)}"
    return f"{where}: {why}"


def _misplaced(message: str, models: Callable[[], list[str]], commands: Sequence[str], path: str) -> str:
    """A word too many, too few or unknown; "" where the message is about something else."""
    unknown, number = _COMMAND.match(message), _NUMBER.fullmatch(message)
    if unknown:
        near = nearest(unknown["given"], list(commands))
        return f"{path}: no command {unknown['given']!r}{near}; allowed: {', '.join(commands)}"
    if number:
        return f"{number['given']} is negative: a number of replicas is 0 or more"
    extra = _EXTRA.match(message)
    if extra:
        return f"{extra['given']}: more than {path} takes; {_usage(path)}"
    if message.startswith("Missing argument"):
        return _missing(message, models, path)
    return f"{message.rstrip('.')}; {_usage(path)}" if message.startswith("No such option") else ""


def _given(where: str, typed: Sequence[str]) -> str:
    """` abc`: what was typed for it; "" where that is not plain to see."""
    if not where.startswith("-"):
        arguments = _arguments(typed)
        numbers = [word for word in arguments if _NUMBERLIKE.fullmatch(word)] or arguments[-1:]
        return f" {numbers[0]}" if len(numbers) == 1 else ""
    for name in where.split(" / "):
        for word, value in zip(typed, (*typed[1:], ""), strict=True):
            if word == name or word.startswith(f"{name}="):
                return f" {value if word == name else word.removeprefix(f'{name}=')}"
    return ""


def _arguments(typed: Sequence[str]) -> list[str]:
    """The words that are neither an option nor what follows one."""
    pairs = zip(("", *typed), typed, strict=False)
    return [
        word for before, word in pairs if not word.startswith("--") and not (before.startswith("-") and before != "--")
    ]


def blank(typed: Sequence[str]) -> str:
    """What of it is a blank word, told; "" where none is. A reason has words of its own."""
    for before, word in zip(("", *typed), typed, strict=False):
        if word.strip() == "" and before != "--reason":
            where = before if before.startswith("-") else f"the word after {before or 'rebalancer'}"
            return f"{where} is blank"
        if re.fullmatch(r"--[\w-]+=\s*", word) and not word.startswith("--reason"):
            return f"{word.partition('=')[0]} is blank"
    return ""


def _usage(path: str) -> str:
    return f"`{path} --help` shows how it is written"


def _missing(message: str, models: Callable[[], list[str]], path: str) -> str:
    """What was left out, and what could stand there."""
    choice = _MISSING.fullmatch(message)
    if choice:
        known = choice["known"].replace(",", " ").split()
        return f"Missing argument {choice['where']}; one of {', '.join(known)}"
    if message not in {"Missing argument 'MODEL'.", "Missing argument 'SUBJECT'."}:
        return f"{message.rstrip('.')}; {_usage(path)}"
    names = models()
    return f"{message.rstrip('.')}; " + (
        f"models: {', '.join(names)}" if names else "`rebalancer status` lists the models"
    )


def nearest(given: str, known: list[str]) -> str:
    """`; did you mean pin?`, or nothing where no word is near."""
    plain = {word.lower(): word for word in known}
    close = get_close_matches(given.lower(), plain, n=1)
    return f"; did you mean {plain[close[0]]}?" if close else ""

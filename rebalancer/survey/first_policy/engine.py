"""What the containers of a workload run, and which model they serve by their arguments."""

import shlex
from collections.abc import Sequence
from itertools import takewhile
from typing import Final

import msgspec
from msgspec import Struct

from rebalancer.survey.objects import Object

_SERVED: Final = ("--served-model-name", "--model", "--model-id", "--model-path", "--model_name")
"""Arguments that name a model, in the order in which engines prefer them for their metrics."""

_SHELL: Final = frozenset(";&|<>")  # operators: what follows belongs to another command


class _Container(Struct, frozen=True):
    image: str = ""
    command: tuple[str, ...] | None = None
    args: tuple[str, ...] | None = None

    @property
    def arguments(self) -> tuple[str, ...]:
        return (*(self.command or ()), *(self.args or ()))


class EngineContainers(Struct, frozen=True):
    """The containers of a pod template: two workloads that have the same ones run the same."""

    containers: tuple[_Container, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """Images, commands and arguments."""
        return (*(one.image for one in self.containers), *self._arguments)

    @property
    def served(self) -> tuple[str, ...]:
        """The model's names as the arguments have them, those alone that no variable hides."""
        return tuple(name for name in _served(self._arguments) if "$" not in name and "{" not in name)

    @property
    def _arguments(self) -> tuple[str, ...]:
        return tuple(word for one in self.containers for word in one.arguments)


class _Template(Struct, frozen=True):
    spec: EngineContainers = EngineContainers()


def engine_of(template: Object) -> EngineContainers:
    """What a pod template runs. Raises msgspec.ValidationError for arguments that are no text."""
    return msgspec.convert(template, _Template).spec


def _served(arguments: Sequence[str]) -> tuple[str, ...]:
    """The model's names in the first argument that says any, else what vLLM is told to serve."""
    words = [word for argument in arguments for word in _shell_words(argument)]
    for option in _SERVED:
        for at, word in enumerate(words):
            if word.startswith(f"{option}="):
                return (word.partition("=")[2],)
            if word == option:
                names = tuple(takewhile(_is_name, words[at + 1 :]))
                if names:
                    return names if option == _SERVED[0] else names[:1]
    for before, word, model in zip(["vllm", *words], words, words[1:], strict=False):  # its image begins with `vllm`
        if word == "serve" and "vllm" in before and _is_name(model):
            return (model,)
    return ()


def _is_name(word: str) -> bool:
    return not word.startswith("-") and _SHELL.isdisjoint(word)


def _shell_words(argument: str) -> list[str]:
    """What a shell makes of a line, its operators among it; of a line that it would refuse the words at blanks."""
    words = shlex.shlex(argument.replace("\\\n", " ").replace("\n", " ; "), posix=True, punctuation_chars=";&|")
    words.whitespace_split, words.commenters = True, ""
    try:
        return list(words)
    except ValueError:  # a quote that nothing closes
        return argument.split()

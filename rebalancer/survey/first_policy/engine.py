"""What the containers of a workload run, and which model they serve by their arguments."""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Struct

from rebalancer.survey.objects import Object

_SERVED: Final = ("--served-model-name", "--model", "--model-id", "--model-path", "--model_name")
"""Arguments that name a model, in the order in which engines prefer them for their metrics."""


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
    """The model's names in the first argument that says any; shell lines are taken apart at blanks."""
    words = [word for argument in arguments for word in argument.split()]
    for option in _SERVED:
        for at, word in enumerate(words):
            if word.startswith(f"{option}="):
                return (word.partition("=")[2],)
            if word == option:
                names: list[str] = []
                for name in words[at + 1 :]:
                    if name.startswith("-") or (names and option != _SERVED[0]):
                        break
                    names.append(name)
                if names:
                    return tuple(names)
    if "serve" in words[:3] and (after := words[words.index("serve") + 1 :]) and not after[0].startswith("-"):
        return (after[0],)  # vllm serve MODEL
    return ()

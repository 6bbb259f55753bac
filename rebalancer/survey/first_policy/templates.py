"""What a pod template says beside its GPUs: where it may stand, what it runs, which model it serves."""

import re
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Struct

_SERVED: Final = ("--served-model-name", "--model", "--model-id", "--model-path", "--model_name")
"""Arguments that name a model, in the order in which engines prefer them for their metrics."""

_ROLES: Final = re.compile(r"(^|[/.-])role$")


class Expression(Struct, frozen=True):
    """One of nodeAffinity's `matchExpressions`."""

    key: str
    operator: str
    values: tuple[str, ...] | None = None


class _Term(Struct, frozen=True, rename="camel"):
    match_expressions: tuple[Expression, ...] | None = None


class _Terms(Struct, frozen=True, rename="camel"):
    node_selector_terms: tuple[_Term, ...] | None = None


class _NodeAffinity(Struct, frozen=True):
    required: _Terms | None = msgspec.field(name="requiredDuringSchedulingIgnoredDuringExecution", default=None)


class _Affinity(Struct, frozen=True, rename="camel"):
    node_affinity: _NodeAffinity | None = None


class _Container(Struct, frozen=True):
    image: str = ""
    command: tuple[str, ...] | None = None
    args: tuple[str, ...] | None = None


class _Spec(Struct, frozen=True, rename="camel"):
    containers: tuple[_Container, ...] = ()
    affinity: _Affinity | None = None
    resource_claims: tuple[object, ...] | None = None


class _Labelled(Struct, frozen=True):
    labels: dict[str, str] | None = None


class Template(Struct, frozen=True):
    """A pod template, the part that the service does not read."""

    metadata: _Labelled | None = None
    spec: _Spec = _Spec()

    @property
    def terms(self) -> tuple[tuple[Expression, ...], ...]:
        """Required nodeAffinity: one of them must hold, with all its expressions; none: there is no such rule."""
        affinity = self.spec.affinity.node_affinity if self.spec.affinity else None
        required = affinity.required if affinity else None
        return tuple(term.match_expressions or () for term in (required.node_selector_terms or ())) if required else ()

    @property
    def engine(self) -> tuple[str, ...]:
        """Images, commands and arguments: two workloads that have the same run the same."""
        return (*(container.image for container in self.spec.containers), *self._arguments)

    @property
    def served(self) -> tuple[str, ...]:
        """The model's names as the arguments have them, those alone that no variable hides."""
        return tuple(name for name in _served(self._arguments) if "$" not in name and "{" not in name)

    @property
    def role(self) -> str:
        """What a role label says (prefill, decode); "" without one."""
        labels = (self.metadata.labels if self.metadata else None) or {}
        return next((labels[key] for key in sorted(labels) if _ROLES.search(key)), "")

    @property
    def _arguments(self) -> tuple[str, ...]:
        return tuple(part for one in self.spec.containers for part in (*(one.command or ()), *(one.args or ())))


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

"""A policy file that is wrong in places: what is wrong keeps its last good form, what is right is taken over.

An entry is a pool, a model or a team, known by its name, or a section such as `guards`. One with a problem keeps the
form that it has in the policy in force; one that is not there is left out. Then all is checked again: a model on a pool
that was left out has a problem, too. Where even last good forms do not go together with what is new, as with
entitlements that no longer fit a pool, nobody alone is at fault, and nothing of the file is taken.

A file with problems takes nothing away: what it does not name may be what cannot be read in it. So no model leaves the
policy, and nothing of it is handed back, by a slip of the pen. What stays so keeps its place, and what is new beside it
and cannot be, as a model of another name for the same workload, is at fault. Only a team may leave that no model is of,
also one that the file still has. Problems of what stays are not told: the file does not have them.

A pool that was renamed has not left: last good forms call it as the file does (`renames`).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from rebalancer.domain.policy import Policy
from rebalancer.settings.document import Document, Path, read_document
from rebalancer.settings.problem import Problem
from rebalancer.settings.problems import check_document
from rebalancer.settings.renames import renamed

NAMES: Final = {"pools": "name", "models": "id", "teams": "name"}  # lists of entries, and what an entry is known by
WHOLE: Final = frozenset({"apiVersion", "kind"})  # wrong here: the file is not for us
ROUNDS: Final = 6  # a left-out pool, its models, a team of theirs, then sums; checking 1,000 models takes seconds
FORMS: Final = ("kept", "left-out", "stays")

Form = Literal["kept", "left-out", "stays"]
Of = TypeVar("Of")


class RefusedEntry(Struct, frozen=True, order=True):
    """An entry that is not in force as the file has it: `entry` as in `models.qwen-32b` or `guards`.

    `form`: "kept": its last good form is in force; "left-out": it has none; "stays": the file does not name it (any
    more), and leaves it out only when it has no problem.
    """

    entry: str
    form: Form

    def __str__(self) -> str:
        outcomes = {"kept": "keeps its last good form", "left-out": "is left out", "stays": "is not named, and stays"}
        return f"{self.entry} {outcomes[self.form]}"


class Taken(NamedTuple):
    """What becomes of a file. `policy`: None when nothing of it is taken; `refused`: what of it is not in force."""

    policy: Policy | None
    problems: tuple[Problem, ...] = ()
    refused: tuple[RefusedEntry, ...] = ()


def take_over(text: str, name: str, good: Policy | None) -> Taken:
    """What of `text` is to be in force after `good`, the last good policy; without one it is all or nothing."""
    document, flaws = read_document(text)
    if document is None:
        return Taken(None, _sorted(flaws, name))
    policy, problems = check_document(document)
    problems = flaws + problems
    if not problems:
        return Taken(policy)
    if good is None:
        return Taken(None, _sorted(problems, name))
    good = renamed(good, document, problems)
    parts, own, more = _Parts(document, good), problems, list[Problem]()
    if not parts.in_entries(problem.at for problem in problems):
        return Taken(None, _sorted(problems, name))
    parts.refuse(flaw.at for flaw in flaws)
    for _ in range(ROUNDS):
        parts.keep_what_is_not_named(good)
        policy, problems = check_document(parts.document(), sums_last=True)
        if not problems:
            return Taken(policy, _own_then_more(own, more, name), tuple(sorted(parts.refused)))
        more += parts.in_file(problems)
        if not parts.refuse(problem.at for problem in problems):
            break
    return Taken(None, _own_then_more(own, more, name))


def _sorted(problems: Iterable[Problem], name: str) -> tuple[Problem, ...]:
    return tuple(sorted(replace(problem, file=name) for problem in problems))


def _own_then_more(own: Iterable[Problem], more: Iterable[Problem], name: str) -> tuple[Problem, ...]:
    """Problems of the file by itself, then `more`: those that its entries have beside last good forms; each once."""
    known = {replace(problem, at=()) for problem in own}
    return *_sorted(own, name), *_sorted({replace(problem, at=()) for problem in more} - known, name)


@dataclass(eq=False)
class _Entry:
    """An entry of the file, or its last good form.

    name: id or name of the pool, model or team; None for a section, and where the name cannot be read.
    value: the mapping, as the file or the last good policy has it.
    path: where it stands in the file; None for a last good form.
    """

    name: str | None
    value: object
    path: Path | None = None


class _Parts:
    """The entries of a file, some in their last good form. `refused`: those not in force as the file has them."""

    def __init__(self, document: Document, good: Policy) -> None:
        self.refused: set[RefusedEntry] = set()
        self._file = document
        self._good = {key: _frozen(value) for key, value in good.to_mapping().items()}
        given = document.value if isinstance(document.value, dict) else {}
        self._sections = {key: _Entry(None, value, (key,)) for key, value in given.items() if key not in NAMES}
        self._lists = {key: list(self._listed(key, given.get(key))) for key in NAMES}

    def _listed(self, key: str, values: object) -> Iterator[_Entry]:
        for index, value in enumerate(values if isinstance(values, tuple) else ()):
            yield _Entry(_name(key, value), value, (key, index))

    def keep_what_is_not_named(self, good: Policy) -> None:
        """Add the good entries and sections that the file does not have."""
        for field_name, field in Policy.model_fields.items():
            key = field.alias or field_name
            if key in NAMES:
                self._keep_entries(key)
            elif key not in self._sections and key not in WHOLE and getattr(good, field_name) != field.default:
                self._sections[key] = _Entry(None, self._good[key])
                self.refused.add(RefusedEntry(key, "stays"))
        self._let_idle_teams_go()

    def _keep_entries(self, key: str) -> None:
        """Adds each entry of the good policy that the file does not name, behind the entry that it follows there."""
        entries, place = self._lists[key], -1
        for value in self._values(key):
            name = _name(key, value)
            index = next((at for at, entry in enumerate(entries) if entry.name == name), None)
            if index is None:
                entries.insert(place + 1, _Entry(name, value))
                left_out = RefusedEntry(f"{key}.{name}", "left-out")
                self.refused.add(replace(left_out, form="kept" if left_out in self.refused else "stays"))
                self.refused.discard(left_out)
            place = place + 1 if index is None else index

    def _let_idle_teams_go(self) -> None:
        """Drops last good forms of teams without a model, which limit nobody; a model put back brings its team."""
        teams = {model.value.get("team") for model in self._lists["models"] if isinstance(model.value, dict)}
        for team in [one for one in self._lists["teams"] if one.path is None and one.name not in teams]:
            not_named, put_back = (RefusedEntry(f"teams.{team.name}", form) for form in ("stays", "kept"))
            self._lists["teams"].remove(team)
            if put_back in self.refused:
                self.refused.add(replace(put_back, form="left-out"))
            self.refused -= {not_named, put_back}

    def in_file(self, problems: Iterable[Problem]) -> Iterator[Problem]:
        """Those of `problems` that are in entries of the file, each with its place in the file."""
        for problem in problems:
            entry = self._at(problem.at)
            if entry is not None and entry.path is not None:
                at = (*entry.path, *problem.at[len(entry.path) :])
                yield replace(problem, path=self._file.spell(at), at=at)

    def in_entries(self, paths: Iterable[Path]) -> bool:
        """Whether all `paths` are in entries, none in the file as a whole."""
        return all(self._at(path) is not None for path in paths)

    def refuse(self, paths: Iterable[Path]) -> bool:
        """Put back the entries in which `paths` are; whether that could be done."""
        at_fault = dict.fromkeys(self._at(path) for path in paths)
        known = [(entry, entry.path) for entry in at_fault if entry is not None and entry.path is not None]
        if len(known) < len(at_fault):
            return False
        for entry, path in known:
            self._put_back(entry, path)
        return True

    def _at(self, path: Path) -> _Entry | None:
        """The entry at fault; None: it is the file as a whole."""
        if not path or path[0] in WHOLE:
            return None
        key = str(path[0])
        if key not in NAMES:
            return self._sections.get(key)
        entries = self._lists[key]
        return entries[path[1]] if len(path) > 1 and isinstance(path[1], int) and path[1] < len(entries) else None

    def _put_back(self, entry: _Entry, path: Path) -> None:
        key = str(path[0])
        if key in NAMES:
            good = [_Entry(entry.name, value) for value in self._values(key) if entry.name == _name(key, value)]
            self._replace(self._lists[key], entry, good)
        else:
            good = [_Entry(None, self._good[key])] if key in self._good else []
            del self._sections[key]
            self._sections.update((key, one) for one in good)
        self.refused.add(RefusedEntry(self._file.spell(path), "kept" if good else "left-out"))

    def _replace(self, entries: list[_Entry], entry: _Entry, good: list[_Entry]) -> None:
        """Nobody knows which of two entries of one name is meant: both give way to the good one, or to none."""
        same = [one for one in entries if one is entry or (one.name is not None and one.name == entry.name)]
        if entry in entries:
            place = entries.index(same[0])
            entries[:] = [one for one in entries if one not in same]
            entries[place:place] = good

    def _values(self, key: str) -> tuple[object, ...]:
        values = self._good[key]
        return values if isinstance(values, tuple) else ()

    def document(self) -> Document:
        """The file as it would read with them; lines are those of the file."""
        value: dict[str, object] = {key: entry.value for key, entry in self._sections.items()}
        value |= {key: tuple(entry.value for entry in entries) for key, entries in self._lists.items()}
        places: dict[Path, Path] = {
            entry.path: (key, place)
            for key, entries in self._lists.items()
            for place, entry in enumerate(entries)
            if entry.path is not None
        }
        return Document(value, _moved(self._file.lines, places), _moved(self._file.spelled, places))


def _moved(of: Mapping[Path, Of], places: Mapping[Path, Path]) -> dict[Path, Of]:
    """What stands at paths of the file, by where its entries have moved (`places`), without entries that went."""
    lists = {(key,) for key in NAMES}
    moved = {path: one for path, one in of.items() if path in lists or path[:1] not in lists}
    return moved | {(*places[path[:2]], *path[2:]): one for path, one in of.items() if path[:2] in places}


def _name(key: str, value: object) -> str | None:
    name = value.get(NAMES[key]) if isinstance(value, dict) else None
    return name if isinstance(name, str) else None


def _frozen(value: object) -> object:
    """JSON's lists as the tuples of a document."""
    if isinstance(value, dict):
        return {key: _frozen(item) for key, item in value.items()}
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value

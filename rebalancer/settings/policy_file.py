"""The policy file as the service follows it: reloaded when it changes; what is wrong in it keeps its last good form."""

import os
from pathlib import Path

from rebalancer.domain.codec import digest
from rebalancer.domain.policy import Policy
from rebalancer.domain.words import counted
from rebalancer.settings.entries import RefusedEntry, take_over
from rebalancer.settings.problem import Problem
from rebalancer.settings.problems import CheckedText, checked_text
from rebalancer.settings.renames import workloads_of

NOWHERE = ""  # where a file is that cannot be read
MAX_BYTES = 1 << 20  # 1 MiB, what a ConfigMap can hold


class PolicyFile:
    """A policy file and the policy in force.

    current: the policy in force, None before the first; loaded_at: when it came into force (UTC epoch seconds);
    digest: short hash of its values, "" before the first. problems: what is wrong with the file as it is now. While
    there are any, `current` stays what it was but for the entries that are right (`entries.take_over`); `refused`: the
    others, empty when nothing of the file is taken.

    A mounted ConfigMap changes by a flip of its `..data` symlink, in one step: such content is taken at once. A file
    that is written in place may be seen half-written, and half a policy may well be valid: its new content is taken
    when two looks in a row agree.
    """

    def __init__(self, path: Path, *, allow_empty_policy: bool = False) -> None:
        self.path = path
        self.allow_empty_policy = allow_empty_policy
        self.current: Policy | None = None
        self.loaded_at: float | None = None
        self.digest = ""
        self.problems: tuple[Problem, ...] = ()
        self.refused: tuple[RefusedEntry, ...] = ()
        self._seen: tuple[str, bytes] | None = None
        self._judged: bytes | None = None

    def changed(self, now: float) -> bool:
        """Look at the file; whether `current` or `problems` are different from before.

        Reads at most 1 MiB and, when the content is new, checks it (seconds for 1,000 models): call it in a thread.
        """
        before = (self.digest, self.problems, self.refused)
        try:
            place, content = os.path.realpath(self.path), self._read()
        except OSError as error:
            self._seen, self._judged = (NOWHERE, b""), None
            self.problems, self.refused = (unreadable(error.strerror or str(error), str(self.path)),), ()
        else:
            if self._settled(place, content) and content != self._judged:
                self._judged = content
                self._take(content, now)
        return before != (self.digest, self.problems, self.refused)

    def go_on_from(self, policy: Policy, now: float) -> None:
        """Judge the file as what follows `policy`, which was in force before this process began.

        For a start with a file that has problems, or that drops more than a reload may; one that cannot be read at all
        may be somebody else's mount, and puts nothing in force.
        """
        if self._judged is not None and (self.current is None or self._empties(policy, self.current)):
            self._enforce(policy, now)
            self._take(self._judged, now)

    @property
    def trouble(self) -> str | None:
        """One sentence when the file as it is now is not in force, None when it is."""
        if not self.problems:
            return None
        more = f" (and {len(self.problems) - 1} more)" if len(self.problems) > 1 else ""
        if self.refused:
            others = f" and {len(self.refused) - 1} more" if len(self.refused) > 1 else ""
            return f"policy {self.digest} is in force, but {self.refused[0]}{others}: {self.problems[0]}{more}"
        in_force = "no policy is in force" if self.current is None else f"policy {self.digest} stays in force"
        return f"{in_force}: {self.problems[0]}{more}"

    def _read(self) -> bytes:
        with self.path.open("rb") as file:
            return file.read(MAX_BYTES + 1)

    def _settled(self, place: str, content: bytes) -> bool:
        before, self._seen = self._seen, (place, content)
        if before is None:
            return True  # the service starts: there is nothing better to go by
        flipped = before[0] not in {NOWHERE, place}
        return flipped or content == before[1]

    def _take(self, content: bytes, now: float) -> None:
        text, problems = text_of(content, str(self.path))
        self.problems, self.refused = problems, ()
        if text is None:
            return
        policy, self.problems, refused = take_over(text, str(self.path), self.current)
        if policy is None:
            return
        if self.current is not None and not refused:
            self.problems = self._empties(self.current, policy)
            if self.problems:
                return
        self.refused = refused
        self._enforce(policy, now)

    def _enforce(self, policy: Policy, now: float) -> None:
        value = digest(policy.to_mapping())
        if value != self.digest:
            self.current, self.digest, self.loaded_at = policy, value, now

    def _empties(self, old: Policy, new: Policy) -> tuple[Problem, ...]:
        """Guard `empty`: a reload that drops more than half of the models is taken for an accident.

        A model whose workload another one has now was renamed: nothing of it is handed back.
        """
        ids, taken = {model.id for model in new.models}, {ref for model in new.models for ref in workloads_of(model)}
        gone = [model.id for model in old.models if model.id not in ids and not taken & workloads_of(model)]
        may = len(old.models) // 2
        if self.allow_empty_policy or len(gone) <= may:
            return ()
        shown = ", ".join(sorted(gone)[:5]) + (", ..." if len(gone) > 5 else "")  # noqa: PLR2004  enough to recognise them
        problem = Problem(
            line=0,
            path="models",
            value=counted(len(new.models), "model"),
            what=f"this reload would remove {len(gone)} of {counted(len(old.models), 'model')} ({shown})",
            allowed=f"to remove {may} at a time" if may else "",
            fix=("remove them in steps, or " if may else "")
            + "start the service with REBALANCER_ALLOW_EMPTY_POLICY=true",
            file=str(self.path),
        )
        return (problem,)


def check_bytes(content: bytes, name: str) -> tuple[Policy | None, tuple[Problem, ...]]:
    """The policy in a file's bytes, or None and what is wrong with them."""
    return checked_bytes(content, name)[:2]


def checked_bytes(content: bytes, name: str) -> CheckedText:
    """What `check_bytes` says, with the document that says on which line each value stands."""
    text, problems = text_of(content, name)
    return CheckedText(None, problems) if text is None else checked_text(text, name)


def text_of(content: bytes, name: str) -> tuple[str | None, tuple[Problem, ...]]:
    """The text in a file's bytes, or None and why there is none."""
    if len(content) > MAX_BYTES:
        return None, (unreadable(f"larger than {MAX_BYTES:,} bytes", name),)
    try:
        return content.decode(), ()
    except UnicodeDecodeError as error:
        return None, (unreadable(f"no UTF-8 at byte {error.start}", name),)


def unreadable(why: str, name: str) -> Problem:
    """A file that cannot even be looked at, as a problem."""
    return Problem(line=0, path="", value="", what=f"cannot be read ({why})", file=name)

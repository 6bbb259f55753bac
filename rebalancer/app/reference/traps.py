"""The page about the traps that `rebalancer doctor` looks for, made of their table."""

from rebalancer.app.reference.table import code, table
from rebalancer.survey.finding import FAIL
from rebalancer.survey.traps.table import CHAPTERS
from rebalancer.survey.traps.trap import Trap

_INTRO = """\
# Traps

What looks right in a manifest and hurts. `rebalancer doctor` looks for all of it in a cluster, and
`rebalancer doctor --manifests DIR` in a folder, where it asks no cluster and no service. With `--policy FILE` GPUs,
floors, pools and starts are compared too.

A FAIL does harm, or is refused, as it stands: the exit code is 1, in CI as by hand. A warning may be meant so; it
changes no exit code. What has no GPUs is left out as far as the objects tell. What nobody looked at is named: kinds
without a known trap, kinds that are not installed or not yours to see, files that hold no object. Whether series name
the pods that run is not seen from objects: in a cluster, `--prometheus URL` asks.

`-o json` is a list of all checks. Each has `state` (`ok`, `skip`, `warn`, `FAIL`), `about` (the object), `said` (one
sentence about what was found), `fix` (what to do), `trap` (a key of this page), `docs` (where it stands here) and
`file`; what does not apply is empty.

What is said of KEDA (2.21), of Karpenter (v1) and of the HPA (Kubernetes 1.34) was read in their sources. What KServe,
NIM, Dynamo, Ray and AIBrix write back was read in theirs where the table of controllers above a target says so, and
nowhere else. In which release a version of an API was removed was not read in any source.
"""


def traps_page() -> str:
    """All traps by what they are in: an anchor each, so that a finding can point at it."""
    parts = [_INTRO, table(("trap", "counts as", "why"), (_row(trap) for _, traps in CHAPTERS for trap in traps))]
    for chapter, traps in CHAPTERS:
        parts.append(f"## {chapter}\n")
        parts += [f"### {trap.key}\n\n{_state(trap)}. {trap.why}\n\nFix: {trap.fix}\n" for trap in traps]
    return "\n".join(parts)


def _row(trap: Trap) -> tuple[str, str, str]:
    return f"[{code(trap.key)}](#{trap.key})", _state(trap), trap.why


def _state(trap: Trap) -> str:
    return "FAIL" if trap.state == FAIL else "Warning"

"""Rows of `nodes.signs`: each names one place on a node, and says only what can be read there."""

from collections.abc import Iterator

from rebalancer.domain.node_signs import DISRUPTED_TAINT
from rebalancer.settings.draft import DraftFinding, DraftPart

PLACES = ("taint", "condition", "label")


def signs_of_one_place(policy: DraftPart) -> Iterator[DraftFinding]:
    """A row names a taint, a condition or a label; Karpenter's own taint is read with its NodeClaim."""
    for row in DraftPart(policy.at("nodes"), policy.get("nodes")).parts("signs"):
        given = [place for place in PLACES if row.given(place)]
        if len(given) != 1:
            what = f"it names {' and '.join(given) or 'no taint, condition or label'}"
            yield DraftFinding(row.path, what, f"one of {', '.join(PLACES)}", "write a row for each")
        elif row.text("taint") == DISRUPTED_TAINT:
            fix = "leave it out: the NodeClaim says what Karpenter means by it"
            yield DraftFinding(row.at("taint"), f"{DISRUPTED_TAINT} is read with its NodeClaim", "other taints", fix)
        elif given != ["condition"]:
            where = given[0]
            if row.text("message"):
                yield DraftFinding(
                    row.at("message"), f"a {where} has no message", "", "leave it out, or name a condition"
                )
            if row.text("deadline") == "message":
                yield DraftFinding(row.at("deadline"), f"a {where} has no message", "since or value", "")

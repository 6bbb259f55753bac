"""Why a model that would gain most from a replica leaves it to who has it, in words."""

from rebalancer.domain.instant import clock
from rebalancer.domain.plan import Step
from rebalancer.planning.shares.share import ModelShare


def patience_words(model: ModelShare) -> str:
    """Why the model takes no replica that another one's demand covers, and until when; "" where it takes them."""
    if model.patient_until is None:
        return ""
    until = clock(model.patient_until)
    return f"takes none that another model needs until {until}: it gave one, and has room for its present work"


def patience_steps(model: ModelShare) -> tuple[Step, ...]:
    """The step of a model that is to have more by its worth, and waits for it."""
    if model.patient_until is None or model.aim <= model.staying_replicas:
        return ()
    return (Step("patience", patience_words(model), {"until": model.patient_until}),)

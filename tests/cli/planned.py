"""A bad night as planning tells it: what the golden files hold was decided by `planning.plan`, word for word."""

from msgspec.structs import replace

from rebalancer.domain.snapshot import ForeignChange
from tests.builders import Replicas, a_model, a_policy, a_pool, a_snapshot, an_elastic_pool, an_override
from tests.cli.night import Night
from tests.planning.outlooks import Shape
from tests.planning.story import Story
from tests.planning.worlds import offer


def a_bad_night() -> Story:
    """Users come to llama-70b while a spot node goes; qwen-32b idles, sdxl is capped, argocd writes mixtral-8x7b."""
    models = (
        a_model("llama-70b", 2, gpus_per_replica=4, entitlement=5, max_replicas=16, pools=("a100", "spot")),
        a_model("mixtral-8x7b", 1, gpus_per_replica=4, entitlement=1, max_replicas=4),
        a_model("qwen-32b", 1, gpus_per_replica=2, entitlement=1, max_replicas=6, priority=50),
        a_model("sdxl", 0, entitlement=0, max_replicas=8, priority=20, pools=("spot",), workload_class="batch"),
    )
    pools = (a_pool(gpus=32), an_elastic_pool(gpus=24, gpus_per_node=8))
    policy = a_policy(*models, pools=pools)
    held: dict[str, Replicas] = {"llama-70b": {"a100": 4, "spot": 1}, "mixtral-8x7b": 1, "qwen-32b": 6, "sdxl": 6}
    story = Story(policy, a_snapshot(policy, held, nodes={"spot": 2}))
    for name, level in (("llama-70b", 3.0), ("mixtral-8x7b", 0.7), ("qwen-32b", 0.5), ("sdxl", 5.0)):
        story.shapes[name] = Shape()
        offer(story, name, level)
    story.turns(3)
    offer(story, "llama-70b", 12.0, before=3.0)
    story.notice("spot-1", 93.0)
    fight = tuple(ForeignChange(story.snapshot.at - ago, "argocd") for ago in (50.0, 20.0))
    story.target("mixtral-8x7b", foreign=fight)
    story.override(an_override("cap", "sdxl", 6, actor="ci", reason="render batch", created_at=story.snapshot.at))
    story.plan()
    return story


def planned_night() -> Night:
    """The service on that night."""
    night, story = Night(), a_bad_night()
    snapshot = story.snapshot
    night.snapshot = snapshot
    night.now = replace(
        night.now,
        at=snapshot.at + 1.0,
        cycle=snapshot.cycle,
        sync=snapshot.sync,
        plan=story.plans[-1],
        notices=snapshot.notices,
        overrides=snapshot.overrides,
    )
    night.overrides = replace(night.overrides, overrides=snapshot.overrides)
    return night

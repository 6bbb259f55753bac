"""Worlds for the guards about what signals say: outlooks with a usual level, several signals, work that falls."""

from msgspec.structs import replace

from rebalancer.domain.memory import Outage, SilentModel
from rebalancer.domain.outlook import Outlook
from tests.builders import NOW, a_model, a_policy, a_pool, a_snapshot
from tests.planning.story import Story


def an_outlook(
    usual: float | None, level: float = 1.0, current: int = 2, wants: int = 40, **overrides: object
) -> Outlook:
    """A model whose level is `level`, and which gains by every replica up to `wants`."""
    late = tuple(1000.0 - 20.0 * min(count, wants) for count in range(1, 41))
    outlook = Outlook(
        at=int(NOW),
        horizon_seconds=150,
        current=current,
        least=1,
        values=late,
        late=late,
        errors=(0.0,) * len(late),
        level=level,
        base=level,
        dispersion=1.0,
        shift=0.0,
        shifted=level,
        excess=0.0,
        replays=30,
        period_seconds=0,
        rho=0.0,
        work_of_one=1.0,
        error=None,
        plain_error=None,
        usual=usual,
    )
    return replace(outlook, **overrides)


def a_jumping_model(usual: float | None = 1.0, held: int = 2, gpus: int = 40, **signals: object) -> Story:
    """Model b alone on a pool with room; it holds 2, which is what it usually needs, and has an outlook."""
    signals = {"concurrency": {"per_replica": 4.0}, **signals}
    policy = a_policy(a_model("b", 1, entitlement=1, signals=signals), pools=(a_pool(gpus=gpus),))
    story = Story(policy, a_snapshot(policy, {"b": held}))
    says(story, requests=4.0 * held, usual=usual)
    return story


def says(  # what a model's metrics may say
    story: Story,
    requests: float,
    usual: float | None = 1.0,
    level: float = 1.0,
    wants: int = 40,
    **readings: float,
) -> None:
    """From now on b has so many requests in flight, its means say `level`, and it gains by replicas up to `wants`."""
    outlook = an_outlook(usual, level, story.replicas("b"), wants)
    story.load("b", {"concurrency": requests, **readings}, level, outlook=outlook)


def a_fleet(count: int = 4, work: float = 4.0) -> Story:
    """Models m0, m1, ... of 4 replicas each on a growing pool where surplus costs; all of it is needed."""
    models = tuple(a_model(f"m{n}", 0, pools=("a100",), entitlement=0) for n in range(count))
    pool = a_pool(gpus=4 * count, node_pools=("a100",), gpus_per_node=4)
    policy = a_policy(*models, pools=(pool,))
    held = {model.id: 4 for model in models}
    story = Story(policy, a_snapshot(policy, held))
    for model in models:
        offered(story, model.id, work)
    return story


def offered(story: Story, model: str, work: float) -> None:
    """From now on `model` is offered so much work; its last minute has no other."""
    story.load(model, {"concurrency": 4.0 * work}, work)


def told_by(story: Story, *producers: str, **models: tuple[str, ...]) -> None:
    """From now on `producers` tell of every model, of those in `models` these do."""
    loads = story.snapshot.loads
    told = tuple(replace(load, told_by=models.get(load.model, producers)) for load in loads)
    story.snapshot = replace(story.snapshot, loads=told)


def an_outage(story: Story, at: float = NOW, fell: int = 2, of: int = 2) -> Outage:
    """All models are silent since ten seconds before `at`: none has a millionth of what it had."""
    silent = tuple(SilentModel(model.id, 1e6) for model in story.policy.models)
    return Outage(at - 10.0, at + 890.0, fell, of, silent)

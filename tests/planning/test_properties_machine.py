"""A random world lives: surges, calm, silence, notices, lost nodes, new nodes, rollouts, overrides, write stops.

Whatever happens between two plans, every single write must keep floors and budgets, and every plan must say what it
could not do. A plan may be cut off after any of its writes, as by a crash.
"""

from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from rebalancer.domain.pool_view import NodeView
from tests.builders import a_write_stop
from tests.planning import oracle
from tests.planning.story import Story
from tests.planning.worlds import a_new_node, feel, levels, offer, overrides, patience, stories


class LivingWorld(RuleBasedStateMachine):
    """Rules are what happens in a cluster; the invariant is what we do about it."""

    story: Story
    stands = False

    @initialize(story=stories())
    def begin(self, story: Story) -> None:
        self.story = story

    # --- what we do

    @invariant()
    def the_wheel_turns(self) -> None:
        """Whatever has just happened wakes it."""
        if not self.stands:
            self._turn(None)

    @rule(data=st.data())
    def a_plan_is_cut_off(self, data: st.DataObject) -> None:
        """Some of it is written, then the process dies; the next one has the same memory and the outcomes."""
        self._turn(data)

    def _turn(self, data: st.DataObject | None) -> None:
        snapshot = self.story.snapshot
        plan = self.story.plan()
        oracle.judge_plan(snapshot, self.story.policy, plan)
        many = len(plan.changes) + len(plan.node_pools)
        oracle.carry_out(self.story, plan, None if data is None else data.draw(st.integers(0, many)))

    @rule(stands=st.booleans())
    def the_wheel_stands_still_or_turns_again(self, stands: bool) -> None:  # noqa: FBT001  drawn by name
        """Several things happen before the next plan."""
        self.stands = stands

    @rule(seconds=st.sampled_from([0.1, 5.0, 10.0, 60.0, 300.0]))
    def time_passes(self, seconds: float) -> None:
        self.story.wait(seconds)

    # --- what Kubernetes does

    @rule()
    def pods_move(self) -> None:
        self.story.kubernetes()

    @rule()
    def all_happens(self) -> None:
        self.story.settle()
        feel(self.story)

    @rule()
    def karpenter_brings_nodes(self) -> None:
        self.story.karpenter()
        feel(self.story)

    @rule(data=st.data())
    def an_hpa_goes_to_its_minimum(self, data: st.DataObject) -> None:
        model, pool = self._target(data)
        owner = self.story.of(model, pool).autoscaler
        if owner is not None and not owner.paused:
            self.story.target(model, pool, replicas=min(owner.maximum, max(1, owner.minimum)))

    @rule(data=st.data(), rolling=st.booleans())
    def a_rollout_begins_or_ends(self, data: st.DataObject, rolling: bool) -> None:  # noqa: FBT001  drawn by name
        model, pool = self._target(data)
        self.story.target(model, pool, rolling=rolling)

    @rule(data=st.data())
    def pods_crash(self, data: st.DataObject) -> None:
        model, pool = self._target(data)
        pods = self.story.of(model, pool).pods
        crashed = tuple(replace(pod, phase="loading") if pod.phase == "ready" else pod for pod in pods)
        self.story.target(model, pool, pods=crashed)

    # --- what happens to nodes

    @rule(
        data=st.data(),
        karpenter=st.booleans(),
        seconds=st.sampled_from([0.0, 30.0, 120.0]),
        kind=st.sampled_from(["spot-interruption", "disruption", "drain"]),
    )
    def a_notice_comes(self, data: st.DataObject, karpenter: bool, seconds: float, kind: str) -> None:  # noqa: FBT001  drawn by name
        node = self._node(data)
        if node is not None:
            voluntary = kind == "disruption"
            self.story.notice(node, seconds, kind=kind, karpenter=karpenter and kind != "drain", voluntary=voluntary)

    @precondition(lambda self: self.story.snapshot.notices)
    @rule(data=st.data(), gone=st.sampled_from(["evicted", "lost", "spared"]))
    def a_noticed_node_goes(self, data: st.DataObject, gone: str) -> None:
        node = data.draw(st.sampled_from([notice.node for notice in self.story.snapshot.notices]))
        if gone == "evicted":
            self.story.evict(node)
        elif gone == "lost":
            self.story.lose(node)
        else:
            left = tuple(notice for notice in self.story.snapshot.notices if notice.node != node)
            self.story.snapshot = replace(self.story.snapshot, notices=left)

    @rule(data=st.data())
    def a_node_is_lost_without_notice(self, data: st.DataObject) -> None:
        node = self._node(data)
        if node is not None:
            self.story.lose(node)

    @rule(data=st.data(), silent=st.booleans())
    def a_node_falls_silent_or_is_cordoned(self, data: st.DataObject, silent: bool) -> None:  # noqa: FBT001  drawn by name
        node, at = self._node(data), self.story.snapshot.at
        self._on_node(
            node,
            lambda one: replace(one, ready=False, ready_changed_at=at) if silent else replace(one, schedulable=False),
        )

    @rule(data=st.data())
    def a_list_of_nodes_comes_back_empty(self, data: st.DataObject) -> None:
        pool = data.draw(st.sampled_from([view.name for view in self.story.snapshot.pools]))
        self.story.pool(pool, nodes=())

    @rule(data=st.data(), gpus=st.integers(1, 8))
    def a_node_comes(self, data: st.DataObject, gpus: int) -> None:
        pool = data.draw(st.sampled_from([view.name for view in self.story.snapshot.pools]))
        self.story.add(pool, a_new_node(self.story, pool, gpus))

    @rule(data=st.data(), gpus=st.integers(0, 4))
    def foreign_pods_come(self, data: st.DataObject, gpus: int) -> None:
        self._on_node(self._node(data), lambda one: replace(one, foreign_gpus=min(gpus, one.gpus)))

    # --- what is asked of the models

    @rule(data=st.data(), level=levels())
    def load_changes(self, data: st.DataObject, level: float) -> None:
        offer(self.story, self._model(data), level)

    @rule(data=st.data(), level=levels())
    def a_surge_begins(self, data: st.DataObject, level: float) -> None:
        offer(self.story, self._model(data), level, before=level / 3)

    @rule(data=st.data())
    def nobody_sees_a_model(self, data: st.DataObject) -> None:
        model = self._model(data)
        self.story.levels.pop(model, None)
        self.story.load(model)

    # --- what people do

    @rule(data=st.data())
    def somebody_decides(self, data: st.DataObject) -> None:
        at = self.story.snapshot.at
        one = data.draw(overrides(self.story.policy, at))
        others = tuple(each for each in self.story.snapshot.overrides if each.name != one.name)
        self.story.override(*others, one)

    @rule()
    def everybody_takes_it_back(self) -> None:
        self.story.override()

    @rule(pressed=st.booleans())
    def the_red_button(self, pressed: bool) -> None:  # noqa: FBT001  drawn by name
        stop = a_write_stop() if pressed else None
        self.story.snapshot = replace(self.story.snapshot, write_stop=stop)

    # --- who is meant

    def _model(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from([model.id for model in self.story.policy.models]))

    def _target(self, data: st.DataObject) -> tuple[str, str]:
        every = [(view.id, target.pool) for view in self.story.snapshot.models for target in view.targets]
        return data.draw(st.sampled_from(every))

    def _on_node(self, name: str | None, change: Callable[[NodeView], NodeView]) -> None:
        for view in self.story.snapshot.pools:
            nodes = tuple(change(one) if one.name == name else one for one in view.nodes)
            self.story.pool(view.name, nodes=nodes)

    def _node(self, data: st.DataObject) -> str | None:
        nodes = sorted(node.name for view in self.story.snapshot.pools for node in view.nodes)
        return data.draw(st.sampled_from(nodes)) if nodes else None


TestLivingWorld = pytest.mark.timeout(patience(240))(LivingWorld.TestCase)  # 2,000 steps
TestLivingWorld.settings = settings(stateful_step_count=40)

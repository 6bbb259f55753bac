"""The symptom of each alert, what is read then, and what comes close to it without being it."""

from tests.alerts.story import Case, Fired, Series, always, told
from tests.alerts.workload_cases import WORKLOAD_CASES

B = {"model": "b"}


def replicas(**states: str) -> Series:
    return {f'rebalancer_model_replicas{{model="b",state="{state}"}}': values for state, values in states.items()}


UP = "rebalancer_build_info"
LED = 110  # samples: one leads until 6.5 minutes before the story looks, the other one from then on
PLAN, START = "rebalancer_plan_timestamp_seconds", "rebalancer_start_timestamp_seconds"
PERIOD, CHECKPOINT_PERIOD = "rebalancer_plan_every_seconds", "rebalancer_checkpoint_every_seconds"
JOB = 'namespace="rb",job="pods",env="dublin"'
CHECKPOINT, FAILED = "rebalancer_checkpoint_age_seconds", "rebalancer_failed_cycles_in_a_row"
POOL_FAILED = "rebalancer_pool_failed_cycles_in_a_row"
PINNED = 'rebalancer_pinned_objects{{state="{}"}}'
NOTICE, UNMET = "rebalancer_notice_unreplaced_replicas", "rebalancer_unmet_replicas"


CASES = (
    Case(
        "RebalancerFloorAtRisk",
        replicas(ready=told(1, 2), loading=always(0), floor=always(2), doomed=told(1)),
        Fired(
            B, "Model b is under its floor of 2: it has 1 replica, Ready or loading; `rebalancer explain b` says why."
        ),
        (replicas(ready=told(1, 2), loading=told(1), floor=always(2)), replicas(ready=told(2, 3), floor=always(2))),
    ),
    Case(
        "RebalancerUnmetDemand",
        {'rebalancer_unmet_replicas{model="b"}': told(3), 'rebalancer_unmet_seconds{model="b"}': told("0+10")},
        Fired(
            B,
            "Model b has been short of 3 replicas for 19m 50s: requests are late, or will be. "
            "`rebalancer explain b` says what it waits for.",
        ),
        (
            {'rebalancer_unmet_replicas{model="b"}': told(3), 'rebalancer_unmet_seconds{model="b"}': told(600)},
            {'rebalancer_unmet_replicas{model="b"}': told(0), 'rebalancer_unmet_seconds{model="b"}': told(700)},
        ),
    ),
    Case(
        "RebalancerNoticeWithoutReplacement",
        {
            f'{NOTICE}{{model="b"}}': told(2),
            f'{UNMET}{{model="b"}}': told(1),
            'rebalancer_notice_left_seconds{model="b"}': told(80, "_"),
        },
        Fired(
            B,
            "Model b has 2 replicas on nodes under notice, and nothing is on its way to replace them. The first of "
            "these nodes goes in 80 s.",
        ),
        (
            {f'{NOTICE}{{model="b"}}': told(2), f'{UNMET}{{model="b"}}': told(0), f'{UNMET}{{model="a"}}': told(1)},
            {f'{NOTICE}{{model="b"}}': told(0), f'{UNMET}{{model="b"}}': told(1)},
        ),
    ),
    Case(
        "RebalancerNoticeWithoutReplacement",  # a person's drain: nothing takes the node
        {f'{NOTICE}{{model="b"}}': told(2), f'{UNMET}{{model="b"}}': told(1)},
        Fired(B, "Model b has 2 replicas on nodes under notice, and nothing is on its way to replace them."),
        (),
    ),
    Case(
        "RebalancerBlind",
        {'rebalancer_model_blind{model="b"}': told(1), 'rebalancer_model_blind{model="a"}': always(0)},
        Fired(
            B,
            "No signal of model b has had a usable vote for 5 minutes: it keeps what it has, and gets no more when its "
            "load rises.",
        ),
        ({'rebalancer_model_blind{model="b"}': told(1, samples=25)},),
    ),
    Case(
        "RebalancerForeignWriter",
        {
            'rebalancer_foreign_writer{model="b"}': told(1),
            'rebalancer_foreign_changes_total{model="b"}': told(2),
        },
        Fired(
            B,
            "Somebody else changed what the rebalancer writes for model b: 2 times since its start, two or more of "
            "them within 10 minutes. It stands down there and writes nothing until they agree.",
        ),
        ({'rebalancer_foreign_writer{model="b"}': told(0), 'rebalancer_foreign_changes_total{model="b"}': told(1)},),
    ),
    Case(
        "RebalancerBudgetUnknown",
        {'rebalancer_pool_budget_known{pool="a100"}': told(0, 1)},
        Fired(
            {"pool": "a100"},
            "No node of pool a100 has been seen for 5 minutes while pods run there: nothing is released or granted in "
            "it.",
        ),
        ({'rebalancer_pool_budget_known{pool="a100"}': told(0, 1, samples=25)},),
    ),
    Case(
        "RebalancerDown",
        {UP: told("_", 1)},
        Fired({}, "Prometheus has seen no rebalancer for 2 minutes."),
        ({UP: always(1), PLAN: "0+10x209"}, {UP: told("_", 1, samples=35)}),  # Prometheus looks back 5 minutes
    ),
    Case(
        "RebalancerDown",
        {UP + '{instance="rb-0"}': always(1), PLAN + '{instance="rb-0"}': f"0+10x29 300+0x119 1500+10x{59}"},
        Fired({"instance": "rb-0"}, "The rebalancer at rb-0 has made no plan for 19m 50s."),
        (
            {UP: always(1), PLAN: f"0+10x29 300+0x17 480+10x{161}"},
            {UP: always(1), PLAN: "0x59 600x59 1200x59 1800x29", PERIOD: always(600)},  # a long period is no outage
        ),
    ),
    Case(
        "RebalancerDown",  # it has not planned since its start
        {UP + '{instance="rb-0"}': always(1), START + '{instance="rb-0"}': f"0+10x29 300+0x119 1500+10x{59}"},
        Fired({"instance": "rb-0"}, "The rebalancer at rb-0 has made no plan for 19m 50s."),
        ({UP: always(1), START: always(0), PLAN: "0+10x209"},),
    ),
    Case(
        "RebalancerNotLeading",
        {
            f'rebalancer_leading{{instance="rb-0",node="n1",{JOB}}}': told(0, 1),
            f'rebalancer_leading{{instance="rb-1",node="n2",{JOB}}}': always(0),
            'rebalancer_leading{instance="rb-0",namespace="rb",job="pods",env="paris"}': always(1),  # another cluster
        },
        Fired(
            {"namespace": "rb", "job": "pods", "env": "dublin"},
            "2 replicas of the rebalancer run, and none leads, so nothing is written: no model's replica moves, not "
            "even away from nodes under notice.",
        ),
        (
            {
                f'rebalancer_leading{{instance="rb-0",node="n1",{JOB}}}': always(0),
                f'rebalancer_leading{{instance="rb-1",node="n2",{JOB}}}': always(1),
            },
            {'rebalancer_leading{instance="rb-0"}': told(0, 1, samples=5)},
        ),
    ),
    Case(
        "RebalancerFailedOver",
        {
            'rebalancer_leading{instance="rb-0"}': f"1+0x{LED} 0+0x{LED}",
            'rebalancer_leading{instance="rb-1"}': f"0+0x{LED} 1+0x{LED}",
        },
        Fired(
            {},
            "2 replicas of the rebalancer have led within 15 minutes, one after the other: a leader ended, in order or "
            "not. It takes nothing from any model before it has seen the whole cluster.",
        ),
        (
            {'rebalancer_leading{instance="rb-0"}': always(1), 'rebalancer_leading{instance="rb-1"}': always(0)},
            {'rebalancer_leading{instance="rb-0"}': always(1), 'rebalancer_leading{instance="rb-1"}': always(1)},
            {'rebalancer_leading{instance="rb-0"}': told(0, 1), 'rebalancer_leading{instance="rb-1"}': always(0)},
        ),
    ),
    Case(
        "RebalancerTwoLead",
        {
            f'rebalancer_leading{{instance="rb-0",node="n1",{JOB}}}': always(1),
            f'rebalancer_leading{{instance="rb-1",node="n2",{JOB}}}': told(1, 0),
        },
        Fired(
            {"namespace": "rb", "job": "pods", "env": "dublin"},
            "2 replicas of the rebalancer write at once, each by its own plans: they move the same models, and what "
            "one writes the other takes for a stranger's.",
        ),
        (
            {'rebalancer_leading{instance="rb-0"}': told(1, 0), 'rebalancer_leading{instance="rb-1"}': told(0, 1)},
            {
                'rebalancer_leading{instance="rb-0"}': always(1),
                'rebalancer_leading{instance="rb-1"}': told(1, 0, samples=5),
            },
        ),
    ),
    Case(
        "RebalancerCyclesFailing",
        {FAILED + '{instance="rb-0"}': told(2)},
        Fired(
            {"instance": "rb-0"},
            "2 cycles in a row failed at rb-0: no replica moves, not even away from nodes under notice.",
        ),
        ({FAILED: told(1)}, {FAILED: told(3, samples=2)}),
    ),
    Case(
        "RebalancerCyclesFailing",
        {POOL_FAILED + '{instance="rb-0",pool="a100"}': told(2), FAILED + '{instance="rb-0"}': always(0)},
        Fired(
            {"instance": "rb-0", "pool": "a100"},
            "2 cycles in a row failed on pool a100 at rb-0: no replica moves there, not even away from nodes under "
            "notice.",
        ),
        ({POOL_FAILED: told(1)}, {POOL_FAILED: told(3, samples=2)}),
    ),
    Case(
        "RebalancerCheckpointOld",
        {CHECKPOINT + '{instance="rb-0"}': told("10+10", 15)},
        Fired(
            {"instance": "rb-0"},
            "Kafka has acknowledged no checkpoint of rb-0 for 20m 0s: a restart would hold back until it knows again "
            "what it knew.",
        ),
        (
            {CHECKPOINT: told(300)},
            {CHECKPOINT: told("10+10", samples=35)},
            {CHECKPOINT: told(1_700), CHECKPOINT_PERIOD: always(600)},
        ),
    ),
    Case(
        "RebalancerNotSynced",
        {
            "rebalancer_synced": told(0, 1),
            'rebalancer_source_good{source="nodes"}': told(0, 1),
            'rebalancer_source_good{source="pods"}': always(1),
        },
        Fired({}, "Nothing is released while these sources are not listed or silent: nodes."),
        ({"rebalancer_synced": told(0, 1, samples=15)},),
    ),
    Case(
        "RebalancerConsumerStuck",
        {'rebalancer_consumer_stuck_seconds{topic="metrics"}': told("61+10")},
        Fired(
            {"topic": "metrics"},
            "Topic metrics has made no progress for 20m 51s: metrics, notices or overrides in it are not seen.",
        ),
        ({'rebalancer_consumer_stuck_seconds{topic="metrics"}': told(59)},),
    ),
    Case(
        "RebalancerConsumerBehind",
        {
            'rebalancer_consumer_behind_seconds{topic="metrics"}': told("121+5"),
            'rebalancer_consumer_stuck_seconds{topic="metrics"}': always(0),
        },
        Fired(
            {"topic": "metrics"},
            "Topic metrics is read to where it ended 11m 56s ago: more comes than is read, or a backlog is being read. "
            "Demand, notices and overrides in it are known so much later.",
        ),
        (
            {'rebalancer_consumer_behind_seconds{topic="metrics"}': told(119)},
            {
                'rebalancer_consumer_behind_seconds{topic="metrics"}': told("121+10"),
                'rebalancer_consumer_stuck_seconds{topic="metrics"}': told("121+10"),
            },
        ),
    ),
    Case(
        "RebalancerNoticeQueueUnread",
        {'rebalancer_notice_queue_good{instance="rb-0"}': told(0, 1)},
        Fired(
            {"instance": "rb-0"},
            "rb-0 takes no message from its queue of notices: of nodes that go it hears by signs on them alone, mostly "
            "later. `rebalancer status` says why, as notice-queue.",
        ),
        ({"rebalancer_notice_queue_good": told(0, 1, samples=25)}, {"rebalancer_leading": always(1)}),
    ),
    Case(
        "RebalancerJournalFailing",
        {'rebalancer_journal_good{instance="rb-0"}': told(0, 1)},
        Fired(
            {"instance": "rb-0"},
            "Decisions of rb-0 are not kept on its disk: they cannot be replayed, and drains and overrides wait for "
            "Kafka.",
        ),
        ({"rebalancer_journal_good": told(0, 1, samples=10)},),
    ),
    Case(
        "RebalancerPolicyRefused",
        {"rebalancer_policy_good": told(0, 1)},
        Fired(
            {},
            "What changed in the policy file, or in entries of it, has no effect until its problems are mended. "
            "`rebalancer status` names the entries.",
        ),
        ({"rebalancer_policy_good": told(0, 1, samples=4)},),
    ),
    Case(
        "RebalancerWritesStopped",
        {"rebalancer_write_stopped": told(1)},
        Fired(
            {},
            "A WriteStop is in place: no replica moves, not even away from nodes under notice. It has no expiry.",
        ),
        ({"rebalancer_write_stopped": told(1, samples=85)},),
    ),
    Case(
        "RebalancerObjectsPinned",
        {PINNED.format("departed"): told(2), PINNED.format("other"): told(1)},
        Fired(
            {"state": "departed"},
            "2 objects (departed) have carried bounds or limits of a rebalancer's for 10 minutes, and nothing moves "
            "them past those.",
        ),
        ({PINNED.format("departed"): told(2, samples=55)},),
    ),
    Case(
        "RebalancerObjectsPinned",
        {PINNED.format("held"): told(3), UP + '{write_mode="shadow"}': always(1)},
        Fired(
            {"state": "held"},
            "3 objects (held) have carried bounds or limits of a rebalancer's for 10 minutes, and nothing moves them "
            "past those.",
        ),
        ({PINNED.format("held"): told(3), UP + '{write_mode="act"}': always(1)},),
    ),
    *WORKLOAD_CASES,
)

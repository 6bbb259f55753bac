"""The constants of the look-ahead, one set for every model and every cluster, each with its reason.

Measured on language-model and function traces, with one value changed at a time; "flat" means that the neighbouring
values made no difference beyond the noise of harmless changes (0.1 points of late requests where GPUs are short).
"""

# --- the slow level
LEVEL_WINDOWS_SECONDS = (60, 300, 1200)  # means over 300 to 600 s have the least forecast error
LEVEL_WEIGHTS = (0.1, 0.5, 0.4)
HOUR_SECONDS = 3600  # the third feature of the correction
CORRECTION_LEAST, CORRECTION_MOST = 0.5, 2.0  # a regression on few points is not believed beyond these factors
LEAST_LEVEL = 0.001  # replicas: a model without work still has a level to divide by

# --- how far it looks
STEP_SECONDS = 2  # resolves bursts against an SLO of seconds
FINE_STEP_SECONDS, FINE_BELOW_SECONDS = 1, 1.0  # the step where the SLO is shorter than that
DWELL_SECONDS = 90  # beyond the start: 60 to 120 flat, 300 and more hurt

# --- replays of the model's own forecast errors
ANCHOR_SECONDS = 120  # between replays: 60 to 180 as good, 30 worse
PAST_SECONDS = 3600  # replays reach back so far, and weigh exp(-age / PAST_SECONDS); 2 to 3 h are worse
YOUNGEST_SECONDS = 60  # of past before a replay: its level needs a minute
DISPERSION_SECONDS = 300
LEAST_BINS = 6  # of 10 s, to call something a dispersion
SCALE_LEAST, SCALE_MOST = 0.55, 1.8  # of a replay by dispersion

# --- what was never seen
# Times the highest that was seen: as far as its growth goes on. Without any, a tide of 90 minutes was 5.7 % late, not
# 4.2: it rises beyond all that was seen for its first half. 1.1 is as good. Whether it grows or not, with 0.9 surges
# on 16 GPUs are 19.3 % late instead of 17.2, with 1.1 dips 1.7 instead of 1.4, swaps 12.4 instead of 11.4 %.
GROWN_MOST = 1.25

# --- before there is a past
PRIOR_PATHS = 6
PRIOR_DISPERSION = 4.0
PRIOR_UNTIL_ANCHORS, PRIOR_WEIGHT = 15, 2.5  # together 3 replays' worth up to 5 replays, then less with each

# --- learning
LEARN_EVERY_SECONDS = 300
GRID_SECONDS = 60
LEARN_SECONDS = 10_800  # longer is no better
LEAST_POINTS = 20
RIDGE = 200.0  # points of a prior that nothing corrects
RIDGE_POINTS = 30
DISPERSION_AHEAD_SECONDS = 90  # the dispersion after H is that of so long
LONGEST_PERIOD_SECONDS = 3600
SEEN_BEFORE_SECONDS = 300  # of past before a point counts: its level needs them
PERIOD_POINTS = 30
RHO_MOST = 0.9
PERIODS_BACK, PERIOD_SLACK_SECONDS = 4, 20

# --- a shift of the level
# With 10 s beside them a step from 3 to 9 requests/s is answered after 12 s instead of 18, and surges on 24 GPUs are as
# late (1.76 to 1.82 %, three draws). But of two that rise at once the first is believed before the other is seen: with
# room for both they take each other's GPUs, 4.7 % late instead of 1.2 %.
SHIFT_WINDOWS_SECONDS = (30, 60)
# Times the usual excess: silent on ordinary bursts, quick on steps. Below the second it counts less and less, down to
# nothing at the first: at a border what a surge in its fifth minute has would be taken from it at once.
SHIFT_LEAST_TIMES, SHIFT_TYPICAL = 4.0, 6.0
# Of what requests that come by chance scatter over a window, before 28 minutes have taught what is usual of a model: of
# language and function models the usual is 1 to 3 times what 1 says. Without it nothing was a shift in that time, and
# surges were followed replica by replica. Windows of half an hour with no past, four each, late % without and with:
# swaps 43.2 -> 19.1, surges on 24 GPUs 4.8 -> 2.3, on 16 45.9 -> 35.8, joint falls 29.4 -> 13.6, S2/32 2.58 -> 2.43,
# spikes 6.2 -> 6.6, joint rises 0.01 -> 0.33 (with 4 instead of 9: 0.99, S2/32 2.76 with twice the moves).
SHIFT_PRIOR_DISPERSION = 9.0
SHIFT_LIKE = 0.7  # excesses of at least that share of today's tell what becomes of one
SHIFT_UNHEARD = 3.0  # times the largest excess known: counts as lasting
# Pseudo-observations: 5 r last, 1 (1 - r) ends. With 2 a model's second surge, of which four minutes of the first are
# all that is known, was believed in less than its first: two models with four times the load at 16 GPUs 20.8 -> 19.9 %.
SHIFT_PRIOR_LASTS, SHIFT_PRIOR_ENDS = 5.0, 1.0
SHIFT_MOST = 0.95
SHIFT_CLIP = 1.5  # what became of an excess, at most so many times itself
SHIFT_LEAST = 0.02  # below it is not worth the arithmetic: a shift doubles it
SHIFT_ANCHORS = 6
SINCE_SECONDS = (10, 20, 30, 60, 120, 300)  # windows of which one tells the level since a shift
SINCE_ERRORS = 2.0  # by which the means of shorter windows may differ
GROWS_ON = 3.0  # times what 10 s added: how far a rise under way is taken to go on
# The same where several models rise at once: a step between two samples looks like a rise under way, and GPUs for what
# it might become were taken from the other's step. Two that surge three times at once with room for both, three draws:
# 0.0 % late each, one of them 3.8 % without; for one alone 1 instead of 3 costs surges on 24 GPUs 0.1 to 0.4 points.
# Believed only of who has too few for its present work, no such rise costs anybody anything (0.0 instead of 0.3 % late,
# eight draws), but surges on 24 GPUs, which do go on, are 3.0 instead of 2.0 % late.
GROWS_ON_TOGETHER = 1.0

# --- what was needed before
# Seconds of the busiest time that stays with a model where those of all fit. Of minutes the busiest of three hours is
# what chance made of one of them, so that those of steady models do not fit either: five worlds of dips 4.5 % late
# without, 4.0 % with the busiest minute, 3.1 % with the busiest five; five worlds of bursts 2.9, 1.9 and 1.9 %.
BUSIEST_SECONDS = 300

# --- what standing still would have come to
TO_ANSWER_SECONDS = 20  # a surge is answered so long after it began, and served a start later
AGAIN_SECONDS = 30  # lateness that comes again so soon has not ended
LATE_AFTER_SECONDS = 2.5  # of backlog: late enough for anybody
LONG_SHARE = 0.001  # of the work of three hours: less is nothing
STOOD_COUNTS = 17

# --- the worst of what replays no longer reach
RARE = 4  # forecasts of the last three hours, beyond the replays: a surge an hour ago comes again as likely as today's

# --- what a count of replicas is worth
# Replicas up and down from what there is: single ones near, where most moves are; between the others lines are drawn.
OFFSETS = (-6, -3, -2, -1, 0, 1, 2, 3, 6)  # and two more, as far as the level needs with its `NEED_ROOTS`
TERMINAL_CAP_SECONDS = 300.0  # of level: bounds what a backlog beyond the horizon may cost
LOST = 0.1  # late requests: what it costs beyond being late not to be served at all, so that no count is worth nothing
# Costs of models that look further, as those that start slowly do, are compared as if all looked so far: a GPU is held
# for as long by either. Five models that start in 60 or 180 s: 3.3 % late without it, 2.3 % with it.
COMMON_SECONDS = 150
# Replicas that a second counts for at least where objectives are by the minute: a model that nearly nobody asks is
# not worth any number of others' seconds. Ten jobs with 1 and with 0.25 as good as with this.
LEAST_SECOND = 0.5
# Replicas by which a backlog is taken to shrink at least: demand beyond capacity ends some day. With 0.3 nearly every
# backlog of a model that is short counted as the most, so that the last GPU of another looked as good as the first: two
# models with four times the load at 16 GPUs 18.7 % late instead of 16.6 %, with starts of 180 s 28.6 instead of 24.7 %;
# with 1 15.9 and 22.9 %, but three language models at 32 GPUs 2.05 instead of 2.00 %.
LEAST_DRAIN = 0.6
SWITCHING_REPLICA_SECONDS = 2.0  # per moved pair, half for each: with 0, 1.5 to 4 times the moves for the same waits
ERRORS_OF_DECREASE = 2.0  # standard errors that a decrease must gain; on increases it would leave GPUs idle
# Of what is late of a replica on average: what taking one must gain beyond its loss. Where all are late, GPUs went back
# and forth for differences that no forecast knows: three models on 28 GPUs, of which their busiest minute needs 30,
# started and stopped 397 times in a day without it, 345 with it, for 6.22 and 6.26 % late (with 0.05 and 0.1 359 and
# 339, 6.23 and 6.30 %). Two with four times the load on 16, six draws: 464 and 433 times, 17.3 and 17.1 %.
LATE_OF_DECREASE = 0.06
WORK_OF_ONE_SECONDS = 600  # work per request is that of so long
UNKNOWN_WORK_OF_ONE = 1.0  # where no producer counts requests: late work counts as it is, not as nothing
# Of the work to the horizon: what a surge that no replay holds would make late with as many replicas as the level,
# less in proportion with more. Splits slack that replays give no price, which else stays with whoever surged last.
# At 0.1 it outweighed what replays do say wherever requests differ in size: five models of 1 to 8 GPUs 0.84 % late
# instead of 0.57 % (0.02), the first in priority 1.2 % instead of 0.1 %. Surges on 24 GPUs 4.9 % instead of 5.4 %, on
# 16 GPUs 22.4 instead of 21.6 %; three language models 1.95 and 0.26 % instead of 1.94 and 0.30 % (32 and 40 GPUs).
UNSEEN_SHARE = 0.03
FULL_USE = 1e-6  # requests that a replica earns by itself: GPUs of a fixed budget are never left idle

# --- when a value stands
KEPT_LEVEL = 0.1  # times sqrt(level): a level that moved less changes no decision
KEPT_SECONDS = 60  # the past moves on: 30 to 60 s are within the noise

QUANTUM = 6  # decimals of everything that leaves: the same bytes on every run


def step_seconds(slo_wait_seconds: float) -> int:
    """Seconds per step of the look-ahead."""
    return FINE_STEP_SECONDS if slo_wait_seconds < FINE_BELOW_SECONDS else STEP_SECONDS

"""The judge: scenarios from traces, controllers on a simulated cluster, and what came of it.

Data goes one way: a trace is read into a `Demand` (sim.demand), a scenario says what serves it (sim.scenario), a
controller decides on a world (sim.controller; the fast, compiled world is sim.fast), a `Record` keeps what happened
(sim.record), a score sums it up (sim.score), a page or a table shows it.
"""

"""The wheel: one cycle (look, decide, remember, carry out), the runner that turns it, replay, checkpoints, the Clock.

`cycle(now, ports)` awaits nothing but its ports: no timers, no tasks, no clock; the simulator turns the same cycle in
virtual time. The runner wakes it and reads the one Clock.
"""

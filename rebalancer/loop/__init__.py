"""The service's loop: a cycle (look, decide, remember, write, explain), its runner, replay of journals, the one Clock.

`cycle(now, ports)` awaits nothing but its ports: no timers, no tasks, no clock; the simulator turns the same cycle in
virtual time. The runner wakes it and reads the one Clock.
"""

"""Which replica may act: a Lease in Kubernetes, and the right to act as a deadline on the monotonic clock.

`candidate` is the protocol as a value, `lease` reads and writes the object, `elector` does so again and again and is
what the gate asks (`right`), `watchdog` ends a process whose right has ended and whose event loop may hang.
"""

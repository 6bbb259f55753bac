"""What the world uses today: each peer's algorithm as a pure core, and a thin controller around it.

The cores take plain values and give a number, so that the table cases of their own projects can be put to them; they
are written from the algorithms, not from the code.
"""

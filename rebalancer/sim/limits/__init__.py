"""What nobody passes: the look-ahead rule with the true future, and a lower bound on late work.

`foresight` is a controller, achievable if the future were known; `bound` is a number that no controller gets below.
"""

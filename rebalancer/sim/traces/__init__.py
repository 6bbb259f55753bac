"""Recorded traffic, spot capacity and prices, read from a folder that the project does not ship.

`folder` says where the traces are; a loader per source turns a file into `Demand`, or says which file it missed.
"""

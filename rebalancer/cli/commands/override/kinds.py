"""Kinds of overrides, for the command line's parser: importing them costs nothing."""

from enum import StrEnum


class Kind(StrEnum):
    """Kinds of overrides, in their order of precedence; the last one has none."""

    PAUSE = "pause"
    FREEZE = "freeze"
    PIN = "pin"
    CAP = "cap"
    FLOOR = "floor"
    DRAIN = "drain"
    EXCLUDE = "exclude"
    STAND_UP = "standUp"
